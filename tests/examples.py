"""Counts the examples of a property test."""

import os

#: CI repeats the same examples: each one finds a fault once, in the change that makes it.
#: Elsewhere each run draws new ones, and more of them find more.
REPEATED = bool(os.environ.get("CI"))
FEWEST, SHARE = 10, 3


def examples(most):
    """Returns how many examples a test draws, which draws ``most`` outside CI."""
    return max(min(most, FEWEST), most // SHARE) if REPEATED else most
