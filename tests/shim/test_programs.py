"""Programs in C that check every message they get: the same output with the interposer,
alone, among daemons, and while their job is switched on and off."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cosched.launch.family import Family
from cosched.shm.paths import NodePaths
from tests.shim.jobs import cosched_run, outcome, run_job

pytestmark = pytest.mark.mpi_job

#: Each program's ranks and arguments.
WORDS = {
    "corners": ("3",),
    "matrix": ("2",),
    "stress": ("2", "7", "6"),
    "threads": ("2", "15"),
}


@pytest.mark.parametrize("name", sorted(WORDS))
def test_the_same_output_with_the_interposer(mpi, build, run_dir, name):
    ranks, *words = WORDS[name]
    program = ("-n", ranks, build(name), *words)
    environ = {"COSCHED_RUN_DIR": str(run_dir)}
    plain = outcome(cosched_run(mpi, "--no-shim", *program), environ)
    assert plain
    for carrier in ("prefix", "none"):
        run = cosched_run(mpi, "--carrier", carrier, *program)
        assert outcome(run, environ) == plain, carrier


#: Ways to run in which little or nothing of the shim is at work, and all of it.
WAYS = (
    ("--carrier", "none"),
    ("--carrier", "none", "--wait", "block:0us"),
    ("--waits-only", "--wait", "yield"),
    ("--carrier", "shadow"),
    ("--carrier", "prefix"),
)


@pytest.mark.parametrize(
    ("name", "ranks", "words"),
    [
        ("ignored", "1", ()),
        ("ignored", "2", ()),
        ("sessions", "2", ()),
        ("sessions", "2", ("world",)),
    ],
)
def test_the_same_output_with_little_of_the_shim_at_work(
    mpi, build, run_dir, name, ranks, words
):
    """What nobody asks for is not looked at, and a program may have sessions alone, or
    sessions that outlive MPI_Finalize."""
    program = ("-n", ranks, build(name), *words)
    environ = {"COSCHED_RUN_DIR": str(run_dir)}
    plain = outcome(cosched_run(mpi, "--no-shim", *program), environ)
    assert plain or name == "sessions"  # not every library has them
    for way in WAYS:
        assert outcome(cosched_run(mpi, *way, *program), environ) == plain, way


def test_sends_that_are_freed_heap_up_no_copies(mpi, build, run_dir):
    """Of a rank that neither receives nor waits."""
    program = ("-n", "2", build("freed"))
    environ = {"COSCHED_RUN_DIR": str(run_dir)}
    for carrier in ("prefix", "shadow"):
        run = cosched_run(mpi, "--carrier", carrier, *program)
        assert outcome(run, environ) == ["1: 200 came"], carrier


#: Every message goes by UCX, as between nodes. Open MPI may lack UCX: then as ever.
BY_UCX = {
    "MPIR_CVAR_NOLOCAL": "1",
    "OMPI_MCA_pml_ucx_tls": "any",
    "OMPI_MCA_pml_ucx_devices": "any",
}


def test_the_same_output_as_between_two_nodes(mpi, build, run_dir):
    """Over UCX a request of the library may keep what its last message left in it."""
    program = ("-n", "2", build("corners"))
    # MPICH 4 over TCP hangs at times, with or without the shim: docs/families.md.
    old = mpi.family is Family.MPICH and mpi.version.startswith("4")
    tls = "posix,sysv,self" if old else "tcp,self"
    environ = {"COSCHED_RUN_DIR": str(run_dir), **BY_UCX, "UCX_TLS": tls}
    plain = outcome(cosched_run(mpi, "--no-shim", *program), environ)
    assert plain
    for carrier in ("prefix", "shadow"):
        run = cosched_run(mpi, "--carrier", carrier, *program)
        assert outcome(run, environ) == plain, carrier


def test_children_that_were_not_started_with_us(mpi, build, run_dir):
    """MPI_Comm_spawn: what parents and children say to each other carries no status."""
    program = ("-n", "2", build("spawn"))
    environ = {"COSCHED_RUN_DIR": str(run_dir)}
    plain = run_job(cosched_run(mpi, "--no-shim", *program), environ)
    if plain.returncode != 0:
        said = plain.stderr.strip().partition("\n")[0]
        pytest.skip(f"{mpi.family.title} {mpi.version} cannot spawn here: {said}")
    expected = sorted(plain.stdout.splitlines())
    assert expected
    for carrier, *kind in (("prefix",), ("prefix", "bare"), ("none",)):
        run = cosched_run(mpi, "--carrier", carrier, *program, *kind)
        assert outcome(run, environ) == expected, (carrier, kind)


@pytest.mark.parametrize("how", ["yield", "block", "block:0us"])
def test_the_same_output_however_it_waits(mpi, build, run_dir, how):
    program = [build("stress"), *WORDS["stress"][1:]]
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
    program = [build("stress"), *WORDS["stress"][1:]]
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
            words = ("--carrier", "prefix", "-n", "2", *program)
            assert outcome(cosched_run(mpi, *words), environ) == plain
        finally:
            rival.terminate()
            rival.wait()
    finally:
        down = [*cosched, "down", "--run-dir", str(run_dir)]
        subprocess.run(down, check=True, capture_output=True)
    assert not paths.register_socket.exists()
