"""Changes of a malleable job's size.

``admissions`` and ``page_keeper`` are the part of each node, ``changes`` is that of the
job's root.
"""
