"""Changes of the size of a running malleable job.

``change``: what a change is. ``plan``: which ranks it makes and ends. ``agreement``: how
all ranks stop at the same boundary.
"""
