"""Runs third-party programs in C, C++, Fortran and Python with each carrier.

Their results must be the same, byte for byte, and their messages must be counted."""

from __future__ import annotations

import contextlib

import pytest

from cosched.core.config.words import CARRIERS
from tests.foreign.conftest import RANKS, run_foreign
from tests.foreign.watch import Watch

pytestmark = pytest.mark.mpi_job

#: Where no status travels, its waits are all that the interposer sees of a program; MPICH 4
#: does not let it in unless the interposer itself is to wait.
WAITS = {"none": ("--wait", "block"), "prefix": (), "shadow": ()}


@pytest.mark.parametrize("carrier", sorted(CARRIERS))
def test_foreign_program_same_result_and_counted_messages(program, plain, run_dir, carrier):
    with contextlib.closing(Watch(run_dir, "foreign")) as watch:
        with watch:
            options = ("--carrier", carrier, "--job", "foreign", *WAITS[carrier])
            assert run_foreign(program, run_dir, *options) == plain
        tasks = watch.tasks()
    assert sorted(tasks) == list(range(RANKS))
    total = {name: sum(task[name] for task in tasks.values()) for name in tasks[0]}
    assert total["foreign"] == 0
    assert total["dropped"] == 0
    # Out of band, a message that arrives while its receiver is scheduled is not looked at.
    if carrier == "none":
        assert (total["waits"] > 0) == program.blocks
    elif carrier == "prefix":
        assert min(task["sent"] + task["received"] for task in tasks.values()) > 0
        assert 0 <= total["sent"] - total["received"] <= program.leftovers
    else:
        assert total["sent"] > 0
