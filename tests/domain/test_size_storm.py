"""Short storms of sizes: with faults, and on lab nodes (``tests/domain/size_storm.py``)."""

import os
import shutil

import pytest

from cosched.core.names import CONTROLLER
from tests.domain import size_storm
from tests.domain.lab_members import LabMembers
from tests.domain.wires import Switch

pytestmark = pytest.mark.mpi_job


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None,
    reason="needs root and iproute2, to make networks",
)
def test_changes_under_faults_leave_nothing_and_lose_no_job(tmp_path):
    with Switch([CONTROLLER, "n1", "n2", "n3"]) as switch:
        storm = size_storm.SizeStorm(tmp_path, "sten", 3, seed=5, wires=switch)
        try:
            size_storm.run(storm, changes=3, faults=6)
        finally:
            storm.faults.end_those_over(all_of_them=True)
            storm.rig.close()
    assert storm.problems == []
    assert storm.faults.made.total() == 6
    assert storm.done["done"] >= 1


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None,
    reason="needs root and iproute2, to make a lab",
)
def test_changes_on_lab_nodes_leave_nothing(tmp_path):
    with LabMembers(tmp_path / "lab", [CONTROLLER, "n1", "n2", "n3"]) as lab:
        storm = size_storm.SizeStorm(tmp_path, "sten", 3, seed=5, wires=lab)
        try:
            size_storm.run(storm, changes=3, faults=0)
        finally:
            storm.rig.close()
    assert storm.problems == []
    assert storm.done["done"] >= 3
