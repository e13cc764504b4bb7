"""Runs C programs that check every message they receive, and compares their output with
and without the interposer: alone, among daemons, and while their job is switched."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import pytest

from cosched.launch.family import Family
from cosched.rundir.paths import NodePaths
from tests.shim.jobs import cosched_run, printed, run_ours

pytestmark = pytest.mark.mpi_job

newest_mpi = pytest.mark.newest_mpi
STRESS = ("2", "stress", "7", "6")


@pytest.fixture(scope="session")
def plain_output(mpi, build, tmp_path_factory):
    """Returns the output of a program without the interposer; runs each program once."""
    environ = {"COSCHED_RUN_DIR": str(tmp_path_factory.mktemp("plain"))}

    @functools.cache
    def output(ranks, name, *words):
        program = ("-n", ranks, build(name), *words)
        return printed(run_ours(mpi, environ, "--no-shim", *program))

    return output


@pytest.fixture
def environ(served):
    return {"COSCHED_RUN_DIR": str(served.run_dir)}


@pytest.mark.parametrize(
    ("program", "carriers"),
    [
        # Most calls of MPI, so under every library.
        pytest.param(("3", "corners"), ("prefix", "shadow", "none"), id="corners"),
        # Without a prefix the data passes unchanged, as in corners.
        pytest.param(("2", "matrix"), ("prefix",), id="matrix", marks=newest_mpi),
        # The wait policies run it with the other carriers.
        pytest.param(STRESS, ("prefix",), id="stress", marks=newest_mpi),
        pytest.param(
            ("2", "threads", "15"), ("prefix", "none"), id="threads", marks=newest_mpi
        ),
    ],
)
def test_output_with_interposer_is_the_same(
    mpi, build, environ, plain_output, program, carriers
):
    plain = plain_output(*program)
    assert plain
    ranks, name, *words = program
    for carrier in carriers:
        run = run_ours(mpi, environ, "--carrier", carrier, "-n", ranks, build(name), *words)
        assert printed(run) == plain, carrier


#: From little of the shim at work to all of it.
WAYS = (
    ("--carrier", "none"),
    ("--carrier", "none", "--wait", "block:0us"),
    ("--waits-only", "--wait", "yield"),
    ("--carrier", "shadow"),
    ("--carrier", "prefix"),
)


@newest_mpi
@pytest.mark.parametrize(
    "program",
    [("1", "ignored"), ("2", "ignored"), ("2", "sessions"), ("2", "sessions", "world")],
    ids="-".join,
)
def test_output_with_parts_of_the_shim_is_the_same(
    mpi, build, environ, plain_output, program
):
    """The programs pass MPI_STATUS_IGNORE, or use sessions that outlive MPI_Finalize."""
    ranks, name, *words = program
    plain = plain_output(*program)
    assert plain or name == "sessions"  # some libraries have no sessions
    # The first way leaves out what the second one adds: the most varied program has both.
    for way in WAYS if (ranks, name) == ("2", "ignored") else WAYS[1:]:
        run = run_ours(mpi, environ, *way, "-n", ranks, build(name), *words)
        assert printed(run) == plain, way


@newest_mpi
def test_freed_sends_keep_no_copies(mpi, build, environ):
    """The sending rank neither receives nor waits, so nothing but sends can free copies."""
    for carrier in ("prefix", "shadow"):
        run = run_ours(mpi, environ, "--carrier", carrier, "-n", "2", build("freed"))
        assert printed(run) == ["1: 200 came"], carrier


#: Every message uses UCX, as between nodes. An Open MPI without UCX ignores this.
OVER_UCX = {
    "MPIR_CVAR_NOLOCAL": "1",
    "OMPI_MCA_pml_ucx_tls": "any",
    "OMPI_MCA_pml_ucx_devices": "any",
}


def test_output_over_ucx_is_the_same(mpi, build, environ):
    """Over UCX a request of the library may keep bytes of the message before."""
    program = ("-n", "2", build("corners"))
    # MPICH 4 over TCP hangs at times, with or without the shim: docs/families.md.
    old = mpi.family is Family.MPICH and mpi.version.startswith("4")
    tls = "posix,sysv,self" if old else "tcp,self"
    environ = {**environ, **OVER_UCX, "UCX_TLS": tls}
    plain = printed(run_ours(mpi, environ, "--no-shim", *program))
    assert plain
    for carrier in ("prefix", "shadow"):
        run = run_ours(mpi, environ, "--carrier", carrier, *program)
        assert printed(run) == plain, carrier


def test_messages_to_spawned_ranks_carry_no_status(mpi, build, environ):
    """Ranks of MPI_Comm_spawn belong to another job than their parents."""
    program = ("-n", "2", build("spawn"))
    plain = run_ours(mpi, environ, "--no-shim", *program)
    if plain.returncode != 0:
        error = plain.stderr.strip().partition("\n")[0]
        pytest.skip(f"{mpi.family.title} {mpi.version} cannot spawn here: {error}")
    expected = sorted(plain.stdout.splitlines())
    assert expected
    for carrier, *kind in (("prefix",), ("prefix", "bare"), ("none",)):
        run = run_ours(mpi, environ, "--carrier", carrier, *program, *kind)
        assert printed(run) == expected, (carrier, kind)


@newest_mpi
@pytest.mark.parametrize("how", ["yield", "block", "block:0us"])
def test_output_with_each_wait_policy_is_the_same(mpi, build, environ, plain_output, how):
    ranks, name, *words = STRESS
    for more in ((), ("--waits-only",)):
        run = run_ours(mpi, environ, "--wait", how, *more, "-n", ranks, build(name), *words)
        assert printed(run) == plain_output(*STRESS), more


@newest_mpi
def test_output_while_job_is_switched_is_the_same(mpi, build, run_dir, plain_output):
    """Two jobs of two ranks share at most two CPUs in slices of 20 ms."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    environ = {"COSCHED_RUN_DIR": str(run_dir)}
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
            ranks, name, *words = STRESS
            run = run_ours(
                mpi, environ, "--carrier", "prefix", "-n", ranks, build(name), *words
            )
            assert printed(run) == plain_output(*STRESS)
        finally:
            rival.terminate()
            rival.wait()
    finally:
        down = [*cosched, "down", "--run-dir", str(run_dir)]
        subprocess.run(down, check=True, capture_output=True)
    assert not paths.register_socket.exists()
