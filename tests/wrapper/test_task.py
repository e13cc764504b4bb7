"""The parts of the wrapper that need no MPI: settings, the task's link, waiting."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from cosched.shm._native import lib
from mpi_shim import choose
from mpi_shim.wrapper.errors import UnprefixedMessageError, not_covered
from mpi_shim.wrapper.task import sharing, waiting
from mpi_shim.wrapper.task.environment import WaitPolicy, read_settings
from mpi_shim.wrapper.task.link import Task
from mpi_shim.wrapper.task.sharing import Sharing
from tests.fakes import FakeNode, eventually


def test_no_job_no_settings():
    assert read_settings({}, "host") is None
    assert read_settings({"COSCHED_JOB": ""}, "host") is None


def test_defaults():
    settings = read_settings({"COSCHED_JOB": "j"}, "host")
    assert settings.register_socket == Path("/run/cosched/host/register.sock")
    assert settings.carrier == "none"
    assert not settings.verbose
    assert settings.wait == WaitPolicy("spin")
    assert not settings.nonblocking_collectives
    assert not settings.complaints


def test_everything_set():
    settings = read_settings(
        {
            "COSCHED_JOB": "j",
            "COSCHED_RUN_DIR": "/r",
            "COSCHED_NODE": "n",
            "COSCHED_STATUS": "prefix",
            "COSCHED_VERBOSE": "1",
            "COSCHED_WAIT": "block:20000",
            "COSCHED_COLLECTIVES": "nonblocking",
        },
        "host",
    )
    assert settings.job == "j"
    assert settings.wait == WaitPolicy("block", 20_000)
    assert settings.nonblocking_collectives
    assert not settings.complaints
    assert settings.register_socket == Path("/r/n/register.sock")
    assert settings.carrier == "prefix"
    assert settings.verbose


def test_other_carriers():
    settings = read_settings({"COSCHED_JOB": "j", "COSCHED_STATUS": "shadow"}, "host")
    assert (settings.carrier, settings.complaints) == ("shadow", ())
    settings = read_settings({"COSCHED_JOB": "j", "COSCHED_STATUS": "pigeon"}, "host")
    assert settings.carrier == "none"
    assert "COSCHED_STATUS=pigeon is not " in settings.complaints[0]


@pytest.mark.parametrize("wait", ["yield", "block:0", "block:5000", "auto:20000"])
def test_without_a_job_waits_alone_may_change(wait):
    settings = read_settings({"COSCHED_WAIT": wait}, "host")
    assert settings.job == ""
    assert settings.wait.kind == wait.partition(":")[0]
    assert read_settings({"COSCHED_WAIT": "spin"}, "host") is None


@pytest.mark.parametrize(
    "wait", ["sleep", "block", "block:", "block:-1", "block:5us", "auto", "yield:1"]
)
def test_a_wait_that_is_none_is_said_and_spins(wait):
    settings = read_settings({"COSCHED_JOB": "j", "COSCHED_WAIT": wait}, "host")
    assert settings.wait == WaitPolicy("spin")
    assert f"COSCHED_WAIT={wait} " in settings.complaints[0]
    assert read_settings({"COSCHED_WAIT": wait}, "host") is None


def test_a_form_of_collectives_that_is_none():
    settings = read_settings({"COSCHED_JOB": "j", "COSCHED_COLLECTIVES": "x"}, "host")
    assert not settings.nonblocking_collectives
    assert "COSCHED_COLLECTIVES=x " in settings.complaints[0]


def test_the_interposer_is_not_here():
    assert not choose.interposer_is_active()


def test_errors_say_what_to_do():
    assert str(not_covered("This", "use that")) == (
        "mpi_shim: This is not covered while COSCHED_STATUS=prefix; use that"
    )
    assert "rank 3 with tag 7" in str(UnprefixedMessageError(3, 7))


@pytest.fixture
def node(run_dir):
    with FakeNode(run_dir, "n", scheduled=False) as fake:
        yield fake


@pytest.fixture
def task(node):
    own = Task()
    own.carrier = "prefix"
    assert own.register(node.register_socket, "j", 2, 5)
    yield own
    own.deregister()


def test_registration(node, task):
    (registered,) = node.jobs["j"].tasks
    assert registered.pid == os.getpid()
    assert (registered.rank, registered.world) == (2, 5)
    assert registered.carrier == lib.COSCHED_CARRIER_PREFIX
    assert task.register(node.register_socket, "j", 2, 5)
    assert len(node.jobs["j"].tasks) == 1


def test_a_registration_is_said_where_it_was_asked_for(node, capsys):
    own = Task()
    assert own.register(node.register_socket, "j", 1, 4, verbose=True)
    own.deregister()
    expected = "cosched: rank 1 of 4 registered as task 0 of job j, status by none\n"
    assert capsys.readouterr() == ("", expected)


def test_status_follows_the_daemon(node, task):
    assert task.status() == 0
    node.jobs["j"].schedule(True)
    assert task.status() == 1


def test_arrivals(node, task):
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
    task.arrived(1, 0)
    assert job.codes() == [lib.COSCHED_CMDSCH] * 2


def test_a_message_that_lay_there_unread_pulls_nothing(node, task):
    task.arrived(1, 10)
    assert node.jobs["j"].codes() == []
    assert node.jobs["j"].counters(2)["stale"] == 1


def test_counters(node, task):
    task.count_sent(7)
    assert task.new_wait() is not None
    task.count_foreign()
    counters = node.jobs["j"].counters(2)
    names = ("sent", "bytes_sent", "waits", "foreign")
    assert [counters[name] for name in names] == [1, 7, 1, 1]


def test_lingering(node, task):
    spell = task.new_wait()
    assert task.linger(spell)
    node.jobs["j"].schedule(True)
    assert not task.linger(spell)


def test_leaving(node, task):
    task.deregister()
    task.deregister()
    assert node.jobs["j"].codes() == [lib.COSCHED_CMDOUT]
    assert (task.attached, task.status(), task.new_wait()) == (False, 1, None)
    assert not task.linger(None)
    task.looked()
    task.arrived(1, 1)
    task.count_sent(1)
    task.count_foreign()


def test_a_forked_child_forgets(node, task):
    child = os.fork()
    if child == 0:
        task.abandon()
        os._exit(int(task.attached))
    assert os.waitpid(child, 0)[1] == 0
    assert node.jobs["j"].codes() == []


def test_a_task_that_never_registered():
    task = Task()
    task.deregister()
    task.abandon()
    assert (task.attached, task.status(), task.linger(None)) == (False, 1, False)


def test_no_daemon(run_dir, capsys):
    task = Task()
    assert not task.register(run_dir / "register.sock", "j", 0, 1)
    assert capsys.readouterr() == ("", "")
    assert not task.register(run_dir / "register.sock", "j", 0, 1, verbose=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("cosched: task 0 of job j is not registered: no scheduler da")
    assert err.count("\n") == 1


def test_a_refusal_and_a_path_too_long(run_dir, capsys):
    task = Task()
    with FakeNode(run_dir, "n", refuse=errno.EACCES) as node:
        assert not task.register(node.register_socket, "j", 0, 1, verbose=True)
    assert "refused by a fake" in capsys.readouterr().err
    assert not task.register(run_dir / ("x" * 200), "j", 0, 1, verbose=True)
    assert "registration socket" in capsys.readouterr().err


def test_waiting_of_a_registered_task_polls_and_pauses(node, task, monkeypatch):
    monkeypatch.setattr(waiting, "task", task)
    answers = iter([None, None, None, "here"])
    assert waiting.wait(lambda: next(answers), lambda: "blocked") == "here"
    counters = node.jobs["j"].counters(2)
    assert (counters["waits"], counters["pauses"]) == (1, 3)


def test_a_wait_that_ends_at_once_is_none(node, task, monkeypatch):
    monkeypatch.setattr(waiting, "task", task)
    assert waiting.wait(lambda: "here", lambda: "blocked") == "here"
    assert node.jobs["j"].counters(2)["waits"] == 0


def test_a_call_that_finds_nothing_has_looked(node, task, monkeypatch):
    monkeypatch.setattr(waiting, "task", task)
    assert waiting.look(lambda: None) is None
    assert waiting.look(lambda: "here") == "here"
    task.arrived(1, 0)
    assert node.jobs["j"].codes() == [lib.COSCHED_CMDSCH]


def test_a_scheduled_waiter_yields_but_does_not_sleep(node, task, monkeypatch):
    monkeypatch.setattr(waiting, "task", task)
    yields = []
    monkeypatch.setattr(waiting.os, "sched_yield", lambda: yields.append(1))
    node.jobs["j"].schedule(True)
    polls = iter([None] * (waiting.TESTS_BEFORE_YIELD + 5) + [True])
    assert waiting.wait(lambda: next(polls), lambda: False)
    assert len(yields) == 5
    assert node.jobs["j"].counters(2)["pauses"] == 0


def test_a_scheduled_waiter_may_be_told_to_yield(node, task, monkeypatch):
    monkeypatch.setattr(waiting, "task", task)
    yields = []
    monkeypatch.setattr(waiting.os, "sched_yield", lambda: yields.append(1))
    task.wait = WaitPolicy("yield")
    node.jobs["j"].schedule(True)
    polls = iter([None] * 4 + [True])
    assert waiting.wait(lambda: next(polls), lambda: False)
    assert len(yields) == 4


def test_a_scheduled_waiter_may_be_told_to_sleep(node, task, monkeypatch):
    monkeypatch.setattr(waiting, "task", task)
    # When it began, in each turn, and when it was over.
    now = iter([1_000, 2_000, 3_000, 5_999, 6_000, 7_000, 8_000])
    monkeypatch.setattr(waiting.time, "monotonic_ns", lambda: next(now))
    task.wait = WaitPolicy("block", spin_ns=5_000)
    node.jobs["j"].schedule(True)
    polls = iter([None] * 5 + [True])
    assert waiting.wait(lambda: next(polls), lambda: False)
    counters = node.jobs["j"].counters(2)
    assert (counters["naps"], counters["pauses"], counters["waits"]) == (2, 0, 1)
    assert counters["waited_ns"] == 7_000


@pytest.mark.parametrize(("contended", "naps"), [(False, 0), (True, 4)])
def test_a_scheduled_waiter_may_sleep_where_another_job_wants_the_cpu(
    node, task, monkeypatch, contended, naps
):
    monkeypatch.setattr(waiting, "task", task)
    task.wait = WaitPolicy("auto")
    job = node.jobs["j"]
    job.schedule(True)
    job.region.publish_contention(contended)
    polls = iter([None] * 4 + [True])
    assert waiting.wait(lambda: next(polls), lambda: False)
    assert job.counters(2)["naps"] == naps


@pytest.mark.parametrize("shared", [False, True])
def test_an_unregistered_waiter_finds_out_by_itself(monkeypatch, shared):
    alone, naps, turns = Task(), [], []
    alone.wait = WaitPolicy("auto")
    monkeypatch.setattr(waiting, "task", alone)
    monkeypatch.setattr(waiting.time, "sleep", naps.append)
    sharing = SimpleNamespace(is_shared=lambda turn: turns.append(turn) or shared)
    monkeypatch.setattr(waiting, "sharing", sharing)
    polls = iter([None] * 4 + [True])
    assert waiting.wait(lambda: next(polls), lambda: False)
    assert turns == [1, 2, 3, 4]
    assert len(naps) == (4 if shared else 0)


def test_a_waiter_whose_daemon_is_gone_finds_out_by_itself(node, task, monkeypatch):
    monkeypatch.setattr(waiting, "task", task)
    task.wait = WaitPolicy("auto")
    job, turns = node.jobs["j"], []
    job.schedule(True)
    job.region.publish_contention(True)
    assert task.is_attended()
    node.beating = False
    assert eventually(lambda: not task.is_attended())
    sharing = SimpleNamespace(is_shared=turns.append)
    monkeypatch.setattr(waiting, "sharing", sharing)
    polls = iter([None] * 4 + [True])
    assert waiting.wait(lambda: next(polls), lambda: False)
    assert turns == [1, 2, 3, 4]
    assert job.counters(2)["naps"] == 0


class Kernel:
    """A clock, and how often the thread was taken off its CPU."""

    RUSAGE_THREAD = object()

    def __init__(self):
        self.now_ns, self.ru_nivcsw = 10**12, 5

    def monotonic_ns(self):
        return self.now_ns

    def getrusage(self, who):
        assert who is self.RUSAGE_THREAD
        return self


def test_who_is_taken_off_the_cpu_shares_it(monkeypatch):
    kernel, own = Kernel(), Sharing()
    monkeypatch.setattr(sharing, "time", kernel)
    monkeypatch.setattr(sharing, "resource", kernel)
    look = sharing.TURNS_A_LOOK

    def after(ms, switches, turn=look):
        kernel.now_ns += ms * 1_000_000
        kernel.ru_nivcsw += switches
        return own.is_shared(turn)

    assert not after(0, 0)  # a window begins
    assert not after(10, 1)  # once: a kernel thread
    assert not after(40, 9)  # between two waits: another window begins
    assert not after(10, 1)
    assert not after(10, 5, turn=1)  # not every turn is a look
    assert after(0, 0)
    assert after(10, 0, turn=1)
    assert after(900, 0)
    assert not after(100, 0)  # found anew
    assert not after(1, 0, turn=1)
    assert after(5, 2)


def test_an_unregistered_task_waits_as_it_is_told(monkeypatch):
    alone = Task()
    alone.wait = WaitPolicy("block")
    monkeypatch.setattr(waiting, "task", alone)
    polls = iter([None, True])
    assert waiting.wait(lambda: next(polls), lambda: "blocked") is True


def test_waiting_of_an_unregistered_task_is_mpis(monkeypatch):
    monkeypatch.setattr(waiting, "task", Task())
    assert waiting.wait(lambda: "polled", lambda: "blocked") == "blocked"
