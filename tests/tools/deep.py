"""Makes directory trees in which a function that calls itself fails."""

import os
import subprocess
import sys

import pytest


@pytest.fixture
def make_deep(tmp_path):
    """Returns a function that makes a deep tree. Pytest itself could not remove it, so
    that happens here. Name this fixture before those that must end first."""
    yield _make
    subprocess.run(["rm", "-rf", tmp_path], check=True)


def _make(directory):
    directory.mkdir(parents=True, exist_ok=True)
    place = os.open(directory, os.O_RDONLY)
    for _ in range(sys.getrecursionlimit() + 500):
        os.mkdir("d", dir_fd=place)
        below = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = below
    os.close(place)
