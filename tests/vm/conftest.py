"""Tests of this folder run inside the machine that scripts/vm boots.

All but test_vm.py, which runs outside and boots it.
"""

from __future__ import annotations

import os

import pytest

INSIDE = os.environ.get("COSCHED_VM") == "1"
OUTSIDE = "test_vm.py"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what is on the wrong side."""
    if item.get_closest_marker("vm") is None:
        return
    if (item.path.name == OUTSIDE) == INSIDE:
        where = "boots the machine from outside" if INSIDE else "runs inside scripts/vm"
        pytest.skip(where)
