"""Whether SlurmUser can run the gate with its Python."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from cosched.cluster.engines.slurm.prolog_scripts import check_reads, check_runs
from cosched.core.errors import CoschedError


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)  # pytest's own are closed to other users
        yield Path(name)


def test_program_that_all_may_run(folder):
    python = folder / "python"
    python.touch(mode=0o755)
    check_runs(str(python), 64030, "slurm")
    python.chmod(0o754)
    with pytest.raises(CoschedError, match="python: Slurm's user slurm may not enter it"):
        check_runs(str(python), 64030, "slurm")


@pytest.mark.parametrize("closed", ["home", "home/python"])
def test_program_behind_a_closed_directory(folder, closed):
    home = folder / "home"
    home.mkdir()
    python = home / "python"
    python.touch(mode=0o755)
    link = folder / "link"
    link.symlink_to(python)
    check_runs(str(link), 64030, "slurm")
    (folder / closed).chmod(0o700)
    for path in (python, link):
        with pytest.raises(CoschedError, match="Slurm's user slurm may not enter it"):
            check_runs(str(path), 64030, "slurm")


def test_program_that_is_missing():
    with pytest.raises(CoschedError, match="/none/python: No such file"):
        check_runs("/none/python", 64030, "slurm")


def test_file_that_others_may_read_needs_no_permission_to_be_run(folder):
    gate = folder / "gate.py"
    gate.touch(mode=0o644)
    check_reads(str(gate), 64030, "slurm")
    with pytest.raises(CoschedError, match="may not enter it"):
        check_runs(str(gate), 64030, "slurm")


@pytest.mark.parametrize("closed", ["home", "home/gate.py"])
def test_gate_that_slurm_may_not_read(folder, closed):
    (folder / "home").mkdir()
    gate = folder / "home" / "gate.py"
    gate.touch(mode=0o644)
    (folder / closed).chmod(0o700)
    line = rf"{closed}: Slurm's user slurm may not read it, so it cannot run gate\.py"
    with pytest.raises(CoschedError, match=line):
        check_reads(str(gate), 64030, "slurm")
    check_reads(str(gate), 0, "root")
