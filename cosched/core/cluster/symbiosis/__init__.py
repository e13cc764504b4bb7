"""Places jobs that share nodes: symbiotic space-sharing (Weinberg and Snavely, ICS 2006).

``scheduler.SymbioticScheduler`` is the state machine: EASY over the halves of nodes.
``placement`` chooses the halves for a job. ``resources`` holds users' labels, ``matrix``
measured speedups, ``learner`` observed speedups. ``pairings`` computes the numbers of
section 3.3.
"""
