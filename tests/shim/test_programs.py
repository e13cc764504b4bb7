"""Programs in C that check every message they get: the same output with the interposer,
alone, among daemons, and while their job is switched on and off."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cosched.shm.paths import NodePaths

pytestmark = pytest.mark.mpi_job

PROGRAMS = Path(__file__).parent / "programs"
PATIENCE_S = 120
WORDS = {"matrix": (), "stress": ("7", "6")}


@pytest.fixture(scope="session")
def build(mpi, tmp_path_factory):
    """Compiles one of the programs for ``mpi``."""
    folder = tmp_path_factory.mktemp("programs")

    def compile_program(name):
        program = folder / name
        path = f"{mpi.mpicc.parent}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(
            [mpi.mpicc, "-O1", PROGRAMS / f"{name}.c", "-o", program, "-lpthread"],
            check=True,
            env={**os.environ, "PATH": path},
        )
        return str(program)

    return compile_program


def outcome(argv, environ):
    """The sorted lines that a run printed; it must have succeeded."""
    run = subprocess.run(
        argv,
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
    assert "FAIL" not in run.stderr
    return sorted(run.stdout.splitlines())


def cosched_run(mpi, *words):
    return [
        *(sys.executable, "-m", "cosched.cli.run", "--mpi", str(mpi.mpiexec)),
        *words,
    ]


@pytest.mark.parametrize("name", sorted(WORDS))
def test_the_same_output_with_the_interposer(mpi, build, run_dir, name):
    program = [build(name), *WORDS[name]]
    environ = {"COSCHED_RUN_DIR": str(run_dir)}
    plain = outcome(cosched_run(mpi, "--no-shim", "-n", "2", *program), environ)
    assert plain
    for carrier in ("prefix", "none"):
        words = ("--status", carrier, "-n", "2", *program)
        assert outcome(cosched_run(mpi, *words), environ) == plain, carrier


@pytest.mark.parametrize("how", ["yield", "block", "block:0us"])
def test_the_same_output_however_it_waits(mpi, build, run_dir, how):
    program = [build("stress"), *WORDS["stress"]]
    environ = {"COSCHED_RUN_DIR": str(run_dir)}
    plain = outcome(cosched_run(mpi, "--no-shim", "-n", "2", *program), environ)
    for words in (["--wait", how], ["--wait", how, "--waits-only"]):
        assert outcome(cosched_run(mpi, *words, "-n", "2", *program), environ) == plain, (
            words
        )


def test_the_same_output_while_switched_on_and_off(mpi, build, run_dir):
    """Two jobs of two ranks on two CPUs at most, in slices of 20 ms."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    program = [build("stress"), *WORDS["stress"]]
    environ = {"COSCHED_RUN_DIR": str(run_dir)}
    plain = outcome(cosched_run(mpi, "--no-shim", "-n", "2", *program), environ)
    paths = NodePaths(run_dir, os.uname().nodename)
    cosched = [sys.executable, "-m", "cosched.cli.main"]
    up = [*cosched, "up", "--run-dir", str(run_dir), "--slice", "20ms", "--gmet", "1ms"]
    subprocess.run(up, check=True, capture_output=True)
    try:
        rival = subprocess.Popen(
            cosched_run(mpi, "-n", "2", build("stress"), "1", "1000000"),
            env={**os.environ, **environ},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            words = ("--status", "prefix", "-n", "2", *program)
            assert outcome(cosched_run(mpi, *words), environ) == plain
        finally:
            rival.terminate()
            rival.wait()
    finally:
        down = [*cosched, "down", "--run-dir", str(run_dir)]
        subprocess.run(down, check=True, capture_output=True)
    assert not paths.register_socket.exists()
