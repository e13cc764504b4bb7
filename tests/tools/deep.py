"""Makes a directory tree in which a function that calls itself fails."""

import os
import sys


def make_deep(directory):
    """Makes the tree. A test has to remove it with ``rm``: pytest cannot."""
    directory.mkdir(parents=True, exist_ok=True)
    place = os.open(directory, os.O_RDONLY)
    for _ in range(sys.getrecursionlimit() + 500):
        os.mkdir("d", dir_fd=place)
        below = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = below
    os.close(place)
