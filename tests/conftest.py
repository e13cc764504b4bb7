"""What holds for all tests."""

import os
import re

import pytest
from hypothesis import settings

# A test that is slow on a busy machine is no failure: figures of time are for benchmarks.
settings.register_profile("cosched", deadline=None)
# What may land depends on the change alone, not on what is drawn that day: who works on
# the tests draws anew each time, and finds what there is to be found.
settings.register_profile("ci", settings.get_profile("cosched"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "cosched")


@pytest.hookimpl(tryfirst=True)  # before -m looks at the marks
def pytest_collection_modifyitems(items):
    """Of tests marked newest_mpi, those under an older library get the mark every_mpi."""
    names = {
        item: item.callspec.params["mpi"]
        for item in items
        if item.get_closest_marker("newest_mpi")
        and hasattr(item, "callspec")  # it has parameters
        and "mpi" in item.callspec.params
    }
    newest = {}
    for name in sorted(names.values(), key=version):
        newest[name.partition("-")[0]] = name
    for item, name in names.items():
        if name not in newest.values():
            item.add_marker("every_mpi")


def version(name):
    """The numbers of a name like mpich-4.0.2, to be compared."""
    return [int(number) for number in re.findall(r"\d+", name)]
