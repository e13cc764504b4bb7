"""Places jobs that share nodes: symbiotic space-sharing (Weinberg and Snavely, ICS 2006).

``halves.Halves`` is the place: nodes with two halves, a job on each. ``placement`` chooses
the halves for a job, by users' labels and by the speedups that ``learner`` has observed.
"""
