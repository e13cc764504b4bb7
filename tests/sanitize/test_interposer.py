"""Runs the interposer under AddressSanitizer and UBSan with the test programs, with both
carriers, in a job that is switched on: no memory is misused or lost."""

from __future__ import annotations

import os

import pytest

from cosched.core.errors import CoschedError
from cosched.launch.shim import make_shim, plan_build
from cosched.shm._native import lib
from tests.fakes import FakeNode
from tests.run.conftest import INSTALLED, wrapper_works
from tests.sanitize.sanitizers import options, runtime
from tests.shim.jobs import CROWDED, compile_program, launch_on_nodes, outcome
from tests.shim.test_meetings import MEETINGS, MESSAGES
from tests.wrapper.conftest import job_environ, run_dir

__all__ = ["job_environ", "run_dir"]

pytestmark = pytest.mark.mpi_job

CARRIERS = ("prefix", "shadow")
NEW = sorted(name for name, mpi in INSTALLED.items() if mpi.version.startswith("5"))
OLD = sorted(set(INSTALLED) - set(NEW))
#: Each program's ranks and arguments. LONG ones take long under a sanitizer.
SHORT = [("corners", "3"), ("stress", "2", "7", "4")]
LONG = [("matrix", "2"), ("threads", "2", "15"), ("stress", "3", "11", "20")]
PROGRAMS = [*SHORT, *(pytest.param(words, marks=pytest.mark.long) for words in LONG)]


@pytest.fixture(
    scope="module",
    params=[*NEW, *(pytest.param(name, marks=pytest.mark.long) for name in OLD)],
)
def mpi(request):
    with wrapper_works(INSTALLED[request.param]) as found:
        yield found


@pytest.fixture(scope="module")
def shim(mpi, session_folder):
    """Returns what to preload: the sanitizer's runtime and the interposer built with it,
    once for all workers."""
    before = runtime()
    try:
        cache = session_folder / "shims"
        built = make_shim(plan_build(mpi.mpicc, os.environ, cache=cache, sanitize=True))
    except CoschedError as error:
        pytest.skip(str(error))
    return f"{before} {built}"


@pytest.fixture(scope="module")
def build(mpi, tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    return lambda name: compile_program(mpi, name, folder)


@pytest.fixture
def sanitized(mpi, shim, run_dir, job_environ):
    """Runs a program, even ranks on node a and odd ones on node b. Node b is scheduled at
    its first request; returns the output and the counters by rank."""

    def schedule(job, request):
        if request.code == lib.COSCHED_CMDSCH:
            job.schedule(True)

    def run(carrier, ranks, program, *words):
        # The libraries of version 4 unload plug-ins, so their leaks have no name.
        environ = {**job_environ, **CROWDED, **options(leaks=mpi.version.startswith("5"))}
        environ |= {"SHIM": shim, "COSCHED_STATUS": carrier}
        with (
            FakeNode(run_dir, "a") as a,
            FakeNode(run_dir, "b", scheduled=False, on_request=schedule) as b,
        ):
            launch = launch_on_nodes(mpi, int(ranks), program, *words)
            lines = outcome(launch, environ)
            counters = {
                task.rank: node.jobs["wrapped"].counters(task.rank)
                for node in (a, b)
                for task in node.jobs["wrapped"].tasks
            }
        return lines, counters

    return run


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("words", PROGRAMS, ids="-".join)
def test_program_misuses_no_memory(sanitized, build, words, carrier):
    name, ranks, *arguments = words
    lines, counters = sanitized(carrier, ranks, build(name), *arguments)
    assert lines
    assert sorted(counters) == list(range(int(ranks)))
    assert all(each["sent"] > 0 for each in counters.values())


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("mode", ["waitany", "iallreduce"])
def test_short_wait_misuses_no_memory(sanitized, build, mode, carrier):
    lines, _ = sanitized(carrier, 2, build("meet"), mode, "2")
    assert lines == ["met"]


@pytest.mark.long
@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("mode", sorted({*MESSAGES, *MEETINGS} - {"waitany", "iallreduce"}))
def test_each_wait_misuses_no_memory(mpi, sanitized, build, mode, carrier):
    if mode == "fence" and mpi.version.startswith("4.0"):
        pytest.skip("MPICH 4.0's fence ends before what was put has come, shim or not")
    lines, _ = sanitized(carrier, 2, build("meet"), mode, "2")
    assert lines == ["met"]
