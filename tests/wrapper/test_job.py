"""A task and a fake daemon: registration, trapping, waiting, deregistration."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess

import pytest

from cosched.core.errors import CoschedError
from cosched.launch.shim import make_shim, plan_build
from cosched.shm._native import lib
from cosched.shm.region import survive_torn_regions
from tests.fakes import FakeNode, eventually
from tests.wrapper.per_rank import INTERPOSED, NODES
from tests.wrapper.sites import ROOT

pytestmark = pytest.mark.mpi_job

PROGRAM = ("-m", "tests.wrapper.task_program")
CMDOUT, CMDSCH = lib.COSCHED_CMDOUT, lib.COSCHED_CMDSCH


def run(site, ranks, *arguments, environ):
    result = site.run(ranks, *PROGRAM, *arguments, environ=environ)
    assert result.returncode == 0, result.stdout + result.stderr
    return result


CARRIERS = {
    "prefix": lib.COSCHED_CARRIER_PREFIX,
    "shadow": lib.COSCHED_CARRIER_SHADOW,
}


@pytest.fixture(params=CARRIERS)
def carrier(request):
    return request.param


@pytest.fixture(
    params=[
        pytest.param(None, id="alone"),
        # Both forms send the same bytes, so the library between them does not matter.
        pytest.param(0, id="interposed-0", marks=pytest.mark.one_mpi),
        pytest.param(1, id="interposed-1", marks=pytest.mark.one_mpi),
    ]
)
def mixed(request, site):
    """Returns the environment that gives the C interposer to one rank of two, or to
    none."""
    if request.param is None:
        return {}
    try:
        shim = make_shim(plan_build(site.mpiexec.parent / "mpicc", os.environ))
    except CoschedError as error:
        pytest.skip(str(error))
    return {INTERPOSED: f"{request.param}:{shim}"}


def test_message_from_scheduled_peer_is_trapped(site, run_dir, job_environ, carrier, mixed):
    environ = {**job_environ, **mixed, NODES: "a,b", "COSCHED_STATUS": carrier}
    with FakeNode(run_dir, "a") as a, FakeNode(run_dir, "b", scheduled=False) as b:
        run(site, 2, "trap", "6", environ=environ)
        job = b.jobs["wrapped"]
        sender, receiver = a.jobs["wrapped"].counters(0), job.counters(1)
        (task,) = job.tasks
        assert (task.rank, task.world, task.carrier) == (1, 2, CARRIERS[carrier])
        sch, out = job.take_requests()
        assert (sch.code, sch.slot, sch.epoch) == (CMDSCH, task.slot, 1)
        assert (out.code, out.slot) == (CMDOUT, task.slot)
        assert a.jobs["wrapped"].codes() == [CMDOUT]
    assert (sender["sent"], sender["received"], sender["trapped"]) == (6, 0, 0)
    assert (receiver["sent"], receiver["received"]) == (0, 6)
    # The first may have come before the receiver, which may start more slowly, looked.
    early = receiver["stale"]
    assert early <= 1
    assert receiver["trapped"] == 6 - early
    assert (receiver["posted"], receiver["suppressed"]) == (1, 5 - early)
    assert receiver["foreign"] == sender["told"] == 0
    assert sender["bytes_sent"] > 300
    # A status beside the messages counts no bytes of theirs.
    expected = sender["bytes_sent"] if carrier == "prefix" else 0
    assert receiver["bytes_received"] == expected


def test_message_from_unscheduled_peer_is_not_trapped(
    site, run_dir, job_environ, carrier, mixed
):
    environ = {**job_environ, **mixed, NODES: "a,b", "COSCHED_STATUS": carrier}
    with (
        FakeNode(run_dir, "a", scheduled=False) as a,
        FakeNode(run_dir, "b", scheduled=False) as b,
    ):
        run(site, 2, "trap", "3", environ=environ)
        assert a.jobs["wrapped"].codes() == b.jobs["wrapped"].codes() == [CMDOUT]
        assert b.jobs["wrapped"].counters(1)["received"] == 3
        assert a.jobs["wrapped"].counters(0)["told"] == (carrier == "shadow")


@pytest.mark.one_mpi
@pytest.mark.parametrize("collectives", ["blocking", "nonblocking"])
@pytest.mark.parametrize("call", ["Allreduce", "Iallreduce", "bcast", "allgather"])
def test_collective_with_scheduled_peer_is_trapped(
    site, run_dir, job_environ, call, collectives
):
    environ = {
        **job_environ,
        NODES: "a,b",
        "COSCHED_STATUS": "shadow",
        "COSCHED_COLLECTIVES": collectives,
    }
    with FakeNode(run_dir, "a") as a, FakeNode(run_dir, "b", scheduled=False) as b:
        run(site, 2, "meet", call, "3", environ=environ)
        counters = b.jobs["wrapped"].counters(1)
        assert b.jobs["wrapped"].codes() == [CMDSCH, CMDOUT]
        assert a.jobs["wrapped"].codes() == [CMDOUT]
    # Into a round or two the waiter may have come late, on a busy machine.
    assert counters["trapped"] + counters["stale"] >= 3
    assert counters["trapped"] >= 1
    assert counters["told"] == 1
    if call == "Iallreduce" or collectives == "nonblocking":
        assert counters["paused_ns"] > 100_000_000


def test_ranks_agree_that_one_has_no_shim(site, job_environ):
    environ = {**job_environ, "COSCHED_STATUS": "shadow"}
    result = run(site, 2, "stranger", environ=environ)
    said = [line for line in result.stderr.splitlines() if line.startswith("cosched")]
    assert len(said) == 2
    assert sum("a rank has no shim" in line for line in said) == 1
    assert sum("no daemon on" in line for line in said) == 1


def test_failing_rank_ends_its_job(site, job_environ):
    """mpi4py.run calls MPI_Abort last, so the task must not wait without a limit before."""
    program = (
        "from mpi_shim import MPI; comm = MPI.COMM_WORLD; "
        "comm.recv(source=0) if comm.rank else comm.Get_parent().Merge(comm)"
    )
    environ = {**job_environ, "COSCHED_STATUS": "shadow"}
    result = site.run(2, "-m", "mpi4py", "-c", program, environ=environ)
    assert result.returncode != 0
    assert "Traceback" in result.stderr
    assert "(ended after" not in result.stderr


def test_unscheduled_task_sleeps_in_waits(site, run_dir, job_environ):
    environ = {**job_environ, NODES: "a,b"}
    with FakeNode(run_dir, "a"), FakeNode(run_dir, "b", scheduled=False) as b:
        run(site, 2, "late", "0.5", environ=environ)
        counters = b.jobs["wrapped"].counters(1)
    assert counters["waits"] >= 1
    assert counters["paused_ns"] > 100_000_000
    assert counters["pauses"] > 10


def test_trapped_message_gets_task_scheduled(site, run_dir, job_environ):
    """The daemon answers CMDSCH at once: later messages find the task scheduled."""

    def schedule(job, request):
        if request.code == CMDSCH:
            job.schedule(True)

    environ = {**job_environ, NODES: "a,b"}
    with (
        FakeNode(run_dir, "a"),
        FakeNode(run_dir, "b", scheduled=False, on_request=schedule) as b,
    ):
        run(site, 2, "trap", "4", environ=environ)
        job = b.jobs["wrapped"]
        assert eventually(lambda: [r.code for r in job.requests] == [CMDSCH, CMDOUT])
        assert job.counters(1)["posted"] == 1
        assert job.region.status() == (2, True)


def test_tasks_go_on_after_their_region_is_cut(site, run_dir, job_environ, carrier):
    survive_torn_regions()  # the fake daemons read it, too

    def cut(job, _):
        os.ftruncate(job.region.fd, 0)

    environ = {**job_environ, NODES: "a,b", "COSCHED_STATUS": carrier}
    with (
        FakeNode(run_dir, "a"),
        FakeNode(run_dir, "b", scheduled=False, on_request=cut) as b,
    ):
        result = run(site, 2, "trap", "6", environ=environ)
        assert b.jobs["wrapped"].region.torn
    said = "the job's shared memory was cut on b" in result.stderr
    assert said == (carrier == "shadow")


@pytest.mark.one_mpi
def test_dead_daemon_does_not_stop_its_tasks(site, run_dir, job_environ):
    with FakeNode(run_dir, "a", scheduled=False) as node:
        node.beating = False
        run(site, 2, "late", "2.5", environ=job_environ)
        counters = node.jobs["wrapped"].counters(1)
    # Without a beat for 0.6 s the waiter stops sleeping and does as MPI does.
    assert counters["paused_ns"] < 2_300_000_000


@pytest.mark.parametrize("how", ["exit", "finalize", "raw", "init", "raw-init", "fork"])
def test_each_way_to_end_deregisters_once(site, run_dir, job_environ, how):
    with FakeNode(run_dir, "a") as node:
        run(site, 1, "leave", how, environ=job_environ)
        assert node.jobs["wrapped"].codes() == [CMDOUT]


def test_each_rank_reports_a_missing_daemon_only_if_verbose(any_site, job_environ):
    quiet = run(any_site, 2, "trap", "2", environ=job_environ).stderr.splitlines()
    (line,) = [line for line in quiet if line.startswith("cosched")]
    assert line.startswith("cosched: not coscheduled; no daemon on ")
    verbose = {**job_environ, "COSCHED_VERBOSE": "1"}
    lines = run(any_site, 2, "trap", "2", environ=verbose).stderr.splitlines()
    said = sorted(line for line in lines if line.startswith("cosched"))
    assert len(said) == 3
    assert any("rank 0 runs on its own: no scheduler daemon" in line for line in said)


def test_refused_task_runs_on_its_own(any_site, run_dir, job_environ):
    verbose = {**job_environ, "COSCHED_VERBOSE": "1"}
    with FakeNode(run_dir, "a", refuse=errno.EPERM):
        result = run(any_site, 2, "trap", "2", environ=verbose)
    assert "runs on its own: refused by a fake" in result.stderr


def test_program_outside_job_gets_mpi4py(any_site):
    assert "module mpi4py.MPI mpi4py.MPI" in run(any_site, 1, "module", environ={}).stdout


def test_program_in_job_gets_wrapped_module(any_site, job_environ):
    out = run(any_site, 1, "module", environ=job_environ).stdout
    assert "module mpi_shim.MPI mpi_shim.wrapper.comms" in out


PRINT_DOCUMENTATION = """
from inspect import cleandoc
from mpi_shim import MPI
for name in ("Comm", "Request", "Prequest", "Grequest", "Message", "Win"):
    bases = getattr(MPI, name).__mro__
    ours = [base for base in bases if base.__module__.startswith("mpi_shim.")]
    added = {cleandoc(base.__doc__).split("\\n\\n")[0] for base in ours}
    theirs = next(base for base in bases if base.__module__ == "mpi4py.MPI")
    for base in ours:
        for method in filter(lambda m: m[0] != "_" and hasattr(theirs, m), vars(base)):
            call = getattr(base, method)
            if callable(call) and not hasattr(call, "__wrapped__"):
                head, _, tail = call.__doc__.rpartition("\\n\\n")
                print(base.__name__, method, head.split()[0], tail in added)
"""


def test_methods_describe_the_call_and_what_the_wrapper_adds(any_site, job_environ):
    done = any_site.run(1, "-c", PRINT_DOCUMENTATION, environ=job_environ)
    lines = done.stdout.splitlines()
    assert "BufferCalls Probe Probe(self, True" in lines, done.stderr
    assert "MultipleRequests Waitall Waitall(cls, True" in lines
    assert len(lines) > 90
    assert not [line for line in lines if not line.endswith(" True")]


@pytest.mark.parametrize("active", [0, 1])
def test_program_below_fake_interposer_gets_mpi4py(any_site, job_environ, tmp_path, active):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to make a stand-in for the interposer with")
    library = tmp_path / "interposer.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", library],
        input=b"int cosched_interposer_active(void) { return %d; }" % active,
        check=True,
    )
    preload = {**job_environ, "LD_PRELOAD": str(library)}
    result = run(any_site, 1, "module", environ=preload)
    expected = "mpi4py.MPI mpi4py.MPI" if active else "mpi_shim.MPI mpi_shim.wrapper.comms"
    assert f"module {expected}" in result.stdout


@pytest.mark.parametrize("how", ["--waits-only", "--status=shadow", "--status=none"])
def test_program_below_interposer_gets_mpi4py(any_site, run_dir, how):
    """It is so as well if the interposer only changes waits."""
    cosched_run = any_site.python.parent / "cosched-run"
    if not cosched_run.exists():
        pytest.skip(f"no {cosched_run}")
    expected = {"": "mpi4py.MPI mpi4py.MPI", "-u": "mpi_shim.MPI mpi_shim.wrapper.comms"}
    for unset, module in expected.items():
        preload = (unset, "LD_PRELOAD") if unset else ()
        result = subprocess.run(
            [
                *(cosched_run, "--mpi", any_site.mpiexec, "-n", "1"),
                *("--wait", "block", how, "env", *preload),
                *(any_site.python, *PROGRAM, "module"),
            ],
            cwd=ROOT,
            env={**os.environ, "COSCHED_RUN_DIR": str(run_dir)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert result.returncode == 0, result.stderr
        assert f"module {module}" in result.stdout


def test_unchanged_program_runs_wrapped(site, run_dir, job_environ):
    with FakeNode(run_dir, "a") as node:
        path = str(ROOT / "tests" / "wrapper" / "unchanged_program.py")
        arguments = ("-m", "mpi_shim", path, "argument")
        result = site.run(2, *arguments, environ=job_environ)
        assert result.returncode == 0, result.stdout + result.stderr
        assert node.jobs["wrapped"].counters(0)["sent"] >= 2
    assert result.stdout.count("mpi_shim.MPI argument") == 2


@pytest.mark.parametrize("form", ["module", "command"])
def test_program_may_be_module_or_command(any_site, job_environ, form):
    path = ROOT / "tests" / "wrapper" / "unchanged_program.py"
    arguments = {
        "module": ("-m", "tests.wrapper.unchanged_program", "argument"),
        "command": ("-c", path.read_text(), "argument"),
    }[form]
    result = any_site.run(1, "-m", "mpi_shim", *arguments, environ=job_environ)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "mpi_shim.MPI argument" in result.stdout


def test_missing_program_prints_usage(any_site, job_environ):
    for arguments in ((), ("-m",)):
        result = any_site.run(1, "-m", "mpi_shim", *arguments, environ=job_environ)
        assert result.returncode != 0
        assert "usage: python -m mpi_shim" in result.stderr


def test_missing_file_is_one_line(any_site, job_environ):
    result = any_site.run(1, "-m", "mpi_shim", "nosuch.py", environ=job_environ)
    assert result.returncode != 0
    assert "python -m mpi_shim: nosuch.py: no such file\n" in result.stderr
    assert "Traceback" not in result.stderr
