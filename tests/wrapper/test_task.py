"""The parts of the wrapper that need no MPI: the task's link, waiting, sharing."""

from __future__ import annotations

import errno
import itertools
import os
import time

import pytest

from cosched.shm._native import ffi, lib
from mpi_shim import choose
from mpi_shim.wrapper.errors import UnprefixedMessageError, not_covered
from mpi_shim.wrapper.task.environment import Environment
from mpi_shim.wrapper.task.link import TESTS_BEFORE_YIELD, Task
from tests.fakes import FakeNode, eventually


def test_interposer_is_not_active():
    assert not choose.interposer_is_active()


def test_errors_name_the_remedy():
    assert str(not_covered("This", "use that")) == (
        "mpi_shim: This is not covered while COSCHED_STATUS=prefix; use that"
    )
    assert "rank 3 with tag 7" in str(UnprefixedMessageError(3, 7))


@pytest.fixture
def environ(run_dir, monkeypatch):
    """Reads the environment of a job on node n, changed as the test asks."""

    def read(**values):
        job = {"JOB": "j", "RUN_DIR": str(run_dir), "NODE": "n", **values}
        for name, value in job.items():
            monkeypatch.setenv(f"COSCHED_{name}", value)
        return Environment()

    return read


@pytest.fixture
def node(run_dir):
    with FakeNode(run_dir, "n", scheduled=False) as fake:
        yield fake


@pytest.fixture
def task(node, environ):
    own = Task()
    own.configure(environ(STATUS="prefix"))
    assert own.register(environ(STATUS="prefix"), 2, 5)
    yield own
    own.deregister()


def answers(*results):
    """A poll that gives these results, one after the other."""
    return iter(results).__next__


def with_policy(task, kind, spin_ns=0):
    task.policy.kind, task.policy.spin_ns = getattr(lib, f"COSCHED_WAIT_{kind}"), spin_ns


def never():
    raise AssertionError("the library must not wait")


def test_registration_reaches_the_daemon(node, task, environ):
    (registered,) = node.jobs["j"].tasks
    assert registered.pid == os.getpid()
    assert (registered.rank, registered.world) == (2, 5)
    assert registered.carrier == lib.COSCHED_CARRIER_PREFIX
    assert task.register(environ(), 2, 5)
    assert len(node.jobs["j"].tasks) == 1


def test_registration_is_reported_if_verbose(node, environ, capsys):
    own = Task()
    assert own.register(environ(VERBOSE="1"), 1, 4)
    own.deregister()
    expected = (
        f"cosched: pid {os.getpid()}: rank 1 of 4 registered as task 0 of job j on n, "
        "status by none\n"
    )
    assert capsys.readouterr() == ("", expected)


def test_status_follows_the_daemon(node, task):
    assert task.status() == 0
    node.jobs["j"].schedule(True)
    assert task.status() == 1


def test_arrival_from_scheduled_sender_is_trapped(node, task):
    job = node.jobs["j"]
    for status, nbytes in ((0, 10), (1, 20), (1, 30)):
        task.looked()
        task.arrived(status, nbytes)
    assert [(r.code, r.epoch) for r in job.take_requests()] == [(lib.COSCHED_CMDSCH, 1)]
    counters = job.counters(2)
    assert (counters["received"], counters["bytes_received"]) == (3, 60)
    assert (counters["trapped"], counters["posted"], counters["suppressed"]) == (2, 1, 1)
    job.schedule(False)
    task.looked()
    task.arrived(1)
    assert job.codes() == [lib.COSCHED_CMDSCH] * 2


def test_arrival_that_lay_unread_is_stale(node, task):
    task.arrived(1, 10)
    assert node.jobs["j"].codes() == []
    assert node.jobs["j"].counters(2)["stale"] == 1


def test_counters_are_in_the_region(node, task):
    task.count_sent(7)
    task.count_foreign()
    task.count_published()
    counters = node.jobs["j"].counters(2)
    names = ("sent", "bytes_sent", "foreign", "told")
    assert [counters[name] for name in names] == [1, 7, 1, 1]


def test_deregistered_task_counts_as_scheduled(node, task):
    task.deregister()
    task.deregister()
    assert node.jobs["j"].codes() == [lib.COSCHED_CMDOUT]
    assert (task.attached, task.waits, task.status()) == (False, False, 1)
    task.looked()
    task.arrived(1, 1)
    task.count_sent(1)
    assert node.jobs["j"].counters(2)["sent"] == 0


def test_forked_child_drops_the_link(node, task):
    child = os.fork()
    if child == 0:
        task.abandon()
        os._exit(int(task.attached))
    assert os.waitpid(child, 0)[1] == 0
    assert node.jobs["j"].codes() == []


def test_unregistered_task_counts_as_scheduled():
    task = Task()
    task.deregister()
    task.abandon()
    assert (task.attached, task.status()) == (False, 1)


def test_registration_without_daemon_fails_open(environ, capsys):
    task = Task()
    assert not task.register(environ(), 0, 1)
    assert capsys.readouterr() == ("", "")
    assert not task.register(environ(VERBOSE="1"), 0, 1)
    out, err = capsys.readouterr()
    assert out == ""
    assert ": rank 0 runs on its own: no scheduler daemon" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"JOB": "j" * 64}, "rank 0 runs on its own: job name: File name too long"),
        ({"MEMORY": "1" + "0" * 20}, "COSCHED_MEMORY=100000000000000000000 is not "),
        ({"MEMORY": "-1"}, "COSCHED_MEMORY=-1 is not "),
    ],
)
def test_odd_environment_fails_open_with_one_line(node, environ, capsys, values, line):
    own, environment = Task(), environ(VERBOSE="1", **values)
    own.configure(environment)
    own.register(environment, 0, 1)
    own.deregister()
    lines = [
        said for said in capsys.readouterr().err.splitlines() if "registered as" not in said
    ]
    assert len(lines) == 1
    assert line in lines[0]


def test_job_name_that_is_not_utf8_fails_open(environ, capsys):
    environment = environ(JOB=os.fsdecode(b"j\xff"), VERBOSE="1")
    assert not Task().register(environment, 0, 1)
    assert capsys.readouterr().err.count("\n") == 1


def test_refusal_and_long_path_are_reported(run_dir, environ, capsys):
    task = Task()
    with FakeNode(run_dir, "n", refuse=errno.EACCES):
        assert not task.register(environ(VERBOSE="1"), 0, 1)
    assert "refused by a fake" in capsys.readouterr().err
    assert not task.register(environ(VERBOSE="1", RUN_DIR=f"/{'x' * 200}"), 0, 1)
    assert "registration socket" in capsys.readouterr().err


def test_unscheduled_wait_polls_and_pauses(node, task):
    assert task.wait(answers(None, None, None, "here"), never) == "here"
    counters = node.jobs["j"].counters(2)
    assert (counters["waits"], counters["pauses"]) == (1, 3)
    assert counters["waited_ns"] >= counters["paused_ns"] > 0


def test_wait_that_ends_at_once_is_not_counted(node, task):
    assert task.wait(answers("here"), never) == "here"
    assert node.jobs["j"].counters(2)["waits"] == 0


def test_wait_of_microseconds_is_not_timed(node, task):
    node.jobs["j"].schedule(True)
    assert task.wait(answers(None, None, "here"), never) == "here"
    counters = node.jobs["j"].counters(2)
    assert (counters["waits"], counters["waited_ns"]) == (1, 0)


def test_looking_in_vain_makes_later_arrival_fresh(node, task):
    assert task.look(answers(None)) is None
    assert task.look(answers("here")) == "here"
    task.arrived(1)
    assert node.jobs["j"].codes() == [lib.COSCHED_CMDSCH]


def test_scheduled_wait_yields_but_does_not_sleep(node, environ):
    yields = []
    own = Task(yield_cpu=lambda: yields.append(1))
    assert own.register(environ(), 2, 5)
    node.jobs["j"].schedule(True)
    polls = answers(*[None] * (TESTS_BEFORE_YIELD + 5), True)
    assert own.wait(polls, never)
    own.deregister()
    assert len(yields) == 5
    counters = node.jobs["j"].counters(2)
    assert (counters["pauses"], counters["naps"]) == (0, 0)


def test_yield_policy_does_not_sleep(node, task):
    with_policy(task, "YIELD")
    node.jobs["j"].schedule(True)
    assert task.wait(answers(*[None] * 4, True), never)
    counters = node.jobs["j"].counters(2)
    assert (counters["pauses"], counters["naps"], counters["waits"]) == (0, 0, 1)


def test_block_policy_spins_then_sleeps(node, task):
    with_policy(task, "BLOCK", spin_ns=2_000_000)
    job = node.jobs["j"]
    job.schedule(True)
    began_ns = time.monotonic_ns()
    assert task.wait(lambda: job.counters(2)["naps"] == 2, never)
    assert time.monotonic_ns() - began_ns > 2_000_000
    counters = job.counters(2)
    assert (counters["pauses"], counters["waits"]) == (0, 1)
    assert counters["waited_ns"] > 2_000_000


@pytest.mark.parametrize(("contended", "naps"), [(False, 0), (True, 4)])
def test_auto_policy_sleeps_if_contended(node, task, contended, naps):
    with_policy(task, "AUTO")
    job = node.jobs["j"]
    job.schedule(True)
    job.region.publish_contention(contended)
    assert task.wait(answers(*[None] * 4, True), never)
    assert job.counters(2)["naps"] == naps


def test_unregistered_task_follows_its_policy():
    alone = Task()
    assert alone.wait(answers("polled"), lambda: "blocked") == "blocked"
    with_policy(alone, "BLOCK")
    assert alone.wait(answers(None, True), never) is True


def test_short_waits_still_call_on_waited():
    alone, calls = Task(), []
    with_policy(alone, "YIELD")
    alone.on_waited = calls.append
    for _ in range(64):
        assert alone.wait(answers(None, True), never)
    assert len(calls) == 1


def test_sharing_follows_daemon_while_it_lives(node, environ):
    link = ffi.new("struct cosched_link *")
    lib.cosched_link_open(link)
    assert lib.cosched_sharing_verdict(link, 1) == 0
    data = environ().data
    assert (
        lib.cosched_attach(link, data.socket_path, ffi.addressof(data, "task"), 2000) == 0
    )
    job = node.jobs["j"]
    job.schedule(True)
    job.region.publish_contention(True)
    assert lib.cosched_sharing_verdict(link, 1) == 1
    node.beating = False
    assert eventually(lambda: not lib.cosched_is_attended(link))
    assert lib.cosched_sharing_verdict(link, 1) == 0
    lib.cosched_detach(link)


def test_sharing_is_seen_from_context_switches():
    seen = ffi.new("struct cosched_sharing *")
    clock = itertools.accumulate(
        [10**12, 10, 40, 10, 0, 900, 100, 5],
        lambda now, ms: now + ms * 1_000_000,
    )
    switches = itertools.accumulate([5, 1, 9, 1, 5, 0, 0, 2])
    verdicts = [
        lib.cosched_sharing_observe(seen, now, count)
        for now, count in zip(clock, switches, strict=True)
    ]
    # A window begins; one switch is a kernel thread; time between two waits begins another
    # window; five switches show sharing; it is kept; after a second it is tested again.
    assert verdicts == [0, 0, 0, 0, 1, 1, 0, 1]


SRUN = {"SLURM_STEP_ID": "0", "PMI_FD": "5"}
SRUN_PMIX = {"SLURM_STEP_ID": "0", "PMIX_NAMESPACE": "slurm.pmix.7.0"}


@pytest.mark.parametrize(
    ("environ", "reach"),
    [
        ({}, 1),
        ({"PMI_FD": "5"}, 1),
        (SRUN, 0),
        ({**SRUN, "HYDI_CONTROL_FD": "7"}, 1),
        ({"SLURM_STEP_ID": "0", "PMIX_NAMESPACE": "prterun-a-1"}, 1),
        (SRUN_PMIX, 0),
        ({**SRUN_PMIX, "PMI_FD": "5", "HYDI_CONTROL_FD": "7"}, 1),
    ],
    ids=[
        "mpiexec",
        "agents",
        "srun",
        "Hydra in a step",
        "PRRTE in a step",
        "srun, PMIx",
        "Hydra in a step, PMIx",
    ],
)
def test_names_of_ranks_reach_all_unless_srun_serves_them(monkeypatch, environ, reach):
    for name in ("PMI_FD", "SLURM_STEP_ID", "HYDI_CONTROL_FD", "PMIX_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert lib.cosched_join_names_reach_all() == reach


def test_join_limit_counts_only_time_that_ran():
    limit = ffi.new("struct cosched_join_limit *")
    lib.cosched_join_limit_start(limit, 50)
    limit.last_ns = 0  # as if it had been stopped since the machine started
    assert lib.cosched_join_limit_is_over(limit) == 0
    assert 29_000_000 < limit.left_ns <= 30_000_000
    looks = itertools.takewhile(
        lambda _: not lib.cosched_join_limit_is_over(limit), itertools.count()
    )
    assert sum(1 for _ in looks) > 0
    assert lib.cosched_join_limit_is_over(limit) == 1


def test_wait_that_fails_is_counted(node, task):
    polls = answers(None, None)
    with pytest.raises(StopIteration):
        task.wait(polls, never)
    assert node.jobs["j"].counters(2)["waited_ns"] > 0
