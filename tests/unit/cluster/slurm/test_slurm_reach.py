"""Whether SlurmUser can run the Python of a gate."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from cosched.cluster.engines.slurm.reach import check_reachable
from cosched.core.errors import CoschedError


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)  # pytest's own are closed to other users
        yield Path(name)


def test_program_that_all_may_run():
    check_reachable("/bin/sh", 64030, "slurm")


@pytest.mark.parametrize("closed", ["home", "home/python"])
def test_program_behind_a_closed_directory(folder, closed):
    home = folder / "home"
    home.mkdir()
    python = home / "python"
    python.touch(mode=0o755)
    link = folder / "link"
    link.symlink_to(python)
    check_reachable(str(link), 64030, "slurm")
    (folder / closed).chmod(0o700)
    for path in (python, link):
        with pytest.raises(CoschedError, match="slurm of Slurm may not enter it"):
            check_reachable(str(path), 64030, "slurm")


def test_program_that_is_missing():
    with pytest.raises(CoschedError, match="/none/python: No such file"):
        check_reachable("/none/python", 64030, "slurm")
