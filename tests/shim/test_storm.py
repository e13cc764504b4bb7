"""Runs a short storm (storm.py): the daemons are killed, frozen and restarted while jobs
check all their messages."""

from __future__ import annotations

import os

import pytest

from tests.run.conftest import INSTALLED, wrapper_works
from tests.shim.storm import Built, Storm, build_programs

pytestmark = [pytest.mark.mpi_job, pytest.mark.live]

SEED = 20001
LASTS_S = 10.0


def test_storm_loses_no_message(shim_for, tmp_path, run_dir):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if not INSTALLED:
        pytest.skip("no MPI is installed")
    built = {}
    for name, mpi in INSTALLED.items():
        folder = tmp_path / name
        folder.mkdir()
        with wrapper_works(mpi):
            built[name] = Built(shim_for(mpi.mpicc), build_programs(mpi, folder))
    tally = Storm(SEED, built, run_dir, print).run(LASTS_S)
    print(tally)
    assert tally.jobs >= 2
    assert tally.registered > 0
    assert tally.misfortunes
