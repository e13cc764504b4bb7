"""Which jobs share nodes: symbiotic space-sharing (Weinberg and Snavely, ICS 2006).

``scheduler.SymbioticScheduler`` is the machine: EASY over the halves of nodes, with
``placement`` saying which halves suit a job. ``resources`` is what users say of their
jobs, ``matrix`` what was measured, ``learner`` what was seen so far. ``pairings`` has the
numbers of section 3.3.
"""
