"""The wheels of a release, installed without a network where no compiler is in PATH.

They are made, which needs the network and some minutes, unless COSCHED_WHEELS names their
folder. The wheel of cosched has shims for Debian's MPICH and for that of the package index.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.places import ROOT

PYTHON = "/usr/bin/python3"
SYSTEM_MPICC = "/usr/bin/mpicc.mpich"
RING = ROOT / "tests/packaging/ring.c"
COMPILER = re.compile(r"(.*-)?(gcc|g\+\+|cc|c\+\+|c[89]9|clang|clang\+\+|tcc)(-.*)?")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not all(map(os.path.exists, (PYTHON, SYSTEM_MPICC))),
        reason="needs Debian's Python and MPICH",
    ),
]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    if made := os.environ.get("COSCHED_WHEELS"):
        return Path(made)
    folder = tmp_path_factory.mktemp("wheels")
    command = (ROOT / "scripts/package", "wheels", folder, SYSTEM_MPICC, "mpich")
    subprocess.run(command, check=True, timeout=1800)
    return folder


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The system's programs without those that compile."""
    folder = tmp_path_factory.mktemp("programs")
    for program in Path("/usr/bin").iterdir():
        if not COMPILER.fullmatch(program.name):
            (folder / program.name).symlink_to(program)
    assert [shutil.which(name, path=folder) for name in ("gcc", "cc", "c++")] == [None] * 3
    return folder


class Installed:
    """An environment that pip has filled from the wheels alone."""

    def __init__(self, top, wheels, programs):
        self.own = top / "own"
        self._environ = {
            "PATH": f"{self.own}/bin:{programs}",
            "HOME": str(top),
            "COSCHED_RUN_DIR": str(top / "run"),
            "UCX_LOG_LEVEL": "fatal",
        }
        self.run(PYTHON, "-m", "venv", self.own)
        pip = (self.own / "bin/pip", "install", "--quiet", "--no-index")
        self.run(*pip, "--find-links", wheels, "cosched[mpich]")

    def run(self, *command):
        """Returns the output of a command without a compiler in PATH."""
        done = subprocess.run(
            command, env=self._environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def shim(self, program):
        """Returns what the environment has for a program."""
        return json.loads(self.run("cosched", "shim", "info", "--json", program))


@pytest.fixture(scope="module")
def installed(wheels, programs, tmp_path_factory):
    return Installed(tmp_path_factory.mktemp("installed"), wheels, programs)


def compiled(mpicc, program):
    subprocess.run([mpicc, RING, "-o", program], check=True)
    return program


@pytest.mark.parametrize("where", ["system", "installation"])
def test_job_is_coscheduled_without_a_compiler(installed, tmp_path, where):
    mpicc = SYSTEM_MPICC if where == "system" else installed.own / "bin/mpicc"
    ring = compiled(mpicc, tmp_path / f"ring-{where}")
    info = installed.shim(ring)
    assert Path(info["shim"]).is_relative_to(installed.own / "lib/cosched/shim/release")
    assert info["built"] is True
    installed.run("cosched", "up")
    try:
        shown = installed.run("cosched-run", "-n", "2", ring, "1")
        history = json.loads(installed.run("cosched", "history", "--json"))
    finally:
        installed.run("cosched", "down")
    assert shown == "a ring of 2 has ended\n"
    assert f"ring-{where}" in [job["name"].rpartition("-")[0] for job in history["jobs"]]


def test_shim_is_missing_without_that_of_the_wheel(installed, tmp_path):
    ring = compiled(SYSTEM_MPICC, tmp_path / "ring")
    shims, away = installed.own / "lib/cosched/shim", tmp_path / "shim"
    shims.rename(away)
    try:
        assert installed.shim(ring)["built"] is False
    finally:
        away.rename(shims)
