"""Changes of the size of a running malleable job.

``change`` defines a change, and ``plan`` chooses the ranks that it makes and ends. By
``agreement`` all ranks stop at the same boundary.
"""
