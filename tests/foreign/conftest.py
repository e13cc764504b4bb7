"""Runs foreign programs by cosched-run, each in a directory of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.foreign.programs import PROGRAMS
from tests.wrapper.conftest import run_dir

__all__ = ["run_dir"]

#: Programs that poll take long where other work keeps the CPUs.
PATIENCE_S = 240
RANKS = 2


@pytest.fixture(autouse=True)
def own_surroundings(monkeypatch):
    for name in ("COSCHED_RUN_DIR", "COSCHED_NODE", "LD_PRELOAD"):
        monkeypatch.delenv(name, raising=False)


def command(run_dir, *words):
    return [sys.executable, "-m", "cosched.cli.run.main", "--run-dir", str(run_dir), *words]


def run_foreign(program, run_dir, *options):
    """One run to its good end; its result."""
    with tempfile.TemporaryDirectory(prefix="foreign-") as name:
        folder = Path(name)
        program.prepare(folder)
        done = subprocess.run(
            command(run_dir, *options, "-n", str(RANKS), *program.argv),
            cwd=folder,
            env={**os.environ, **program.environ},
            input=program.stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        assert "cosched" not in done.stderr
        return program.result(done.stdout + done.stderr, folder)


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(each, id=each.name, marks=() if each.short else pytest.mark.long)
        for each in PROGRAMS
    ],
)
def program(request):
    missing = request.param.missing()
    if missing:
        pytest.skip(missing)
    return request.param


@pytest.fixture(scope="session")
def plain(program, tmp_path_factory):
    """What ``program`` results in by itself."""
    return run_foreign(program, tmp_path_factory.mktemp("plain"), "--no-shim")
