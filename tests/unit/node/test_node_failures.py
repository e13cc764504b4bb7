"""Makes parts of a scheduler daemon fail: the daemon goes on, and other jobs notice
nothing."""

from __future__ import annotations

import errno
import os
import pwd
import subprocess
import time
from types import SimpleNamespace

import pytest

from cosched.core.config.schema import Limits
from cosched.core.errors import CoschedError
from cosched.core.node.messages import (
    AddTask,
    CreateClass,
    DestroyClass,
    Mode,
    RemoveTask,
    SetClassCpus,
    SetShares,
)
from cosched.core.units import NS_PER_S
from cosched.linux.classes import ShareRefused
from cosched.node.admission import MemoryAdmission
from cosched.node.children import kept_child
from cosched.node.children.kept_child import start_child
from cosched.node.children.metrics_process import MetricsProcess
from cosched.node.children.timer_process import TimerProcess
from cosched.node.effects import Effects
from cosched.node.memory_meter import MemoryMeter, MemoryTerms
from cosched.node.owner_requests import Owners
from cosched.node.sockets.registration import RegistrationRefused, TaskHello, Welcome
from cosched.node.tasks.life import JobBells
from cosched.node.tasks.registrar import USERS_JOBS, Terms
from cosched.rundir.paths import NodePaths, job_key
from cosched.service.allowance import REST
from cosched.service.loop import Loop
from cosched.service.pacing import BURST_NS, Pacer
from cosched.shm._native import lib
from cosched.shm.region_values import Phase

ONE = frozenset({0})
GIB = 1 << 30

# -- classes that cannot be made ------------------------------------------------------


class Classes:
    """A class scheduler that cannot make the classes in ``refused``."""

    def __init__(self, *refused):
        self.refused = set(refused)
        self.jobs = set()
        self.shares = {}

    def create(self, job, cpus):
        if job in self.refused:
            raise CoschedError(f"class {job}: cannot be made: no space")
        self.jobs.add(job)

    def add(self, job, pid, start_ticks=None):
        if job not in self.jobs:
            raise CoschedError(f"class {job}: does not exist")

    def destroy(self, job):
        self.jobs.discard(job)

    def set_shares(self, percents):
        self.shares |= {job: p for job, p in percents.items() if job in self.jobs}
        return ONE


def effects(classes, kick=lambda _: None):
    jobs = SimpleNamespace(get=lambda _: None)
    return Effects(
        classes,
        jobs,
        None,
        kick=kick,
        ring_timer=lambda: None,
        set_alarm=lambda _: None,
    )


def test_failed_class_does_not_block_other_shares(caplog):
    classes = Classes("b")
    node = effects(classes)
    node.carry_out([CreateClass("a", ONE), AddTask("a", 1), SetShares((("a", 100),))])
    node.carry_out([CreateClass("b", ONE), AddTask("b", 2)])
    node.carry_out([SetShares((("a", 1), ("b", 99)))])
    assert classes.shares == {"a": 1}
    classes.refused.clear()
    node.carry_out([SetClassCpus("b", ONE), SetShares((("a", 99), ("b", 1)))])
    assert classes.shares == {"a": 99, "b": 1}
    classes.refused.add("b")  # its CPUs could not be noted; the class is there
    node.carry_out([SetClassCpus("b", ONE), SetShares((("a", 1), ("b", 99)))])
    assert classes.shares == {"a": 1, "b": 99}
    node.carry_out([DestroyClass("b")])
    node.carry_out([SetShares((("a", 100), ("b", 1)))])
    assert classes.shares == {"a": 100, "b": 99}
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 3


def test_other_jobs_get_their_shares_before_a_process_leaves_its_class():
    """The kernel takes 10 ms for a move."""
    classes, done = Classes(), []
    node = effects(classes)
    node.carry_out([CreateClass("a", ONE), CreateClass("b", ONE), AddTask("a", 1)])
    classes.remove = lambda *_: done.append(dict(classes.shares))
    node.carry_out([RemoveTask("a", 1), DestroyClass("a"), SetShares((("b", 100),))])
    assert done == [{"b": 100}]
    assert classes.jobs == {"b"}


def test_refused_share_still_kicks_the_other_cpus(caplog):
    """Otherwise their new shares would count only from the next tick."""
    classes, kicked = Classes(), []
    node = effects(classes, kicked.append)
    node.carry_out([CreateClass("a", ONE), SetShares((("a", 100),))])

    def refuse(_percents):
        raise ShareRefused("class b: someone removed it", frozenset({1}))

    classes.set_shares = refuse
    node.carry_out([SetShares((("a", 1), ("b", 99)))])
    assert kicked == [ONE, frozenset({1})]
    assert "someone removed it" in caplog.text


# -- helpers that cannot be started ---------------------------------------------------


def refuse_once(monkeypatch):
    """The next process cannot be started; returns a list of those that could."""
    started, popen, refusals = [], subprocess.Popen, [OSError(errno.EAGAIN, "no fork")]

    def start(*arguments, **options):
        if refusals:
            raise refusals.pop()
        started.append(popen(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(kept_child.subprocess, "Popen", start)
    return started


def descriptors():
    return sorted(os.listdir("/proc/self/fd"))


def helper(monkeypatch, kind, loop, tmp_path):
    """A timer daemon or a metrics server that runs; it does nothing but wait."""

    def idle(_module, _arguments, **options):
        options.pop("pass_fds", None)
        return start_child(
            "timeit", ["-n1", "-r1", "import sys; sys.stdin.read()"], **options
        )

    monkeypatch.setattr(f"cosched.node.children.{kind}_process.start_child", idle)
    if kind == "timer":
        monkeypatch.setattr(
            "cosched.node.children.timer_process.RESTART_DELAY_NS", 1_000_000
        )
        process = TimerProcess(loop, [])
        process.report_ready_to(lambda: None)
    else:
        monkeypatch.setattr(
            "cosched.node.children.metrics_process.RESTART_DELAY_NS", 1_000_000
        )
        process = MetricsProcess(loop, NodePaths(tmp_path, "n"), "127.0.0.1:0")
    process.start()
    return process


@pytest.mark.parametrize("kind", ["timer", "metrics"])
def test_child_that_cannot_start_is_replaced_later(kind, monkeypatch, tmp_path, caplog):
    loop = Loop()
    process = helper(monkeypatch, kind, loop, tmp_path)
    before, open_before = process.pid, descriptors()
    started = refuse_once(monkeypatch)
    os.kill(before, 9)
    deadline = time.monotonic() + 60

    def look():
        assert time.monotonic() < deadline
        if started:
            loop.stop()
        else:
            loop.call_at(time.monotonic_ns() + 1_000_000, look)

    look()
    loop.run()
    assert process.pid == started[0].pid != before
    assert any("for now: " in record.getMessage() for record in caplog.records)
    assert len(descriptors()) == len(open_before)
    process.stop()
    assert process.pid is None
    loop.close()


def test_child_without_pidfd_is_killed(monkeypatch):
    started = refuse_once(monkeypatch)
    before = descriptors()
    with pytest.raises(OSError, match="no fork"):
        start_child("timeit", [], stdout=subprocess.PIPE)
    assert descriptors() == before

    def full(_pid):
        raise OSError(errno.EMFILE, "too many")

    monkeypatch.setattr(kept_child.os, "pidfd_open", full)
    with pytest.raises(OSError, match="too many"):
        start_child("timeit", [], stdout=subprocess.PIPE)
    assert descriptors() == before
    assert started[0].returncode is not None


# -- the named job --------------------------------------------------------------------


def test_refusal_asks_no_directory_service(monkeypatch):
    monkeypatch.setattr(pwd, "getpwuid", lambda _uid: pytest.fail("it may be slow"))
    owners = Owners(None, [SimpleNamespace(key="7.a", name="a", uid=7)], raising=False)
    with pytest.raises(CoschedError, match="'a' belongs to uid 7; only its owner and root"):
        owners.handlers()["suspend"]({"job": "a"}, 8)


def test_job_named_like_another_key_is_found():
    def live(name):
        return SimpleNamespace(key=job_key(1000, name), name=name, uid=1000)

    jobs = [live("1000.a"), live("a")]
    state = SimpleNamespace(mode=Mode.COSCHEDULED)
    machine = SimpleNamespace(jobs={job.key: state for job in jobs})
    chosen = []
    driver = SimpleNamespace(machine=machine, feed=chosen.append)
    owners = Owners(driver, jobs, raising=False)
    suspend = owners.handlers()["suspend"]
    for uid in (0, 1000):
        suspend({"job": "1000.a"}, uid)
        suspend({"job": "1000.1000.a"}, uid)
    assert [event.job for event in chosen] == ["1000.a", "1000.1000.a"] * 2


# -- the door -------------------------------------------------------------------------


class Applicant:
    """A task of a job of user 1000 at the door."""

    def __init__(self, job, need_bytes, phase=Phase.TASK):
        self.hello = TaskHello(job, 0, 1, 0, need_bytes, phase=phase)
        self.peer = SimpleNamespace(pid=os.getpid(), uid=1000)
        self.inside = False
        self.refusals = []

    def answer(self, register):
        register(self.peer, self.hello, -1)
        self.inside = True

    def await_answer(self, _gone):
        pass

    def ask_to_wait(self, _reason):
        pass

    def refuse(self, refusal):
        self.refusals.append(str(refusal))


class Door:
    """The admission to a node with 1 GiB; time and the loop's calls are the test's."""

    def __init__(self, pressure=lambda: 0.0):
        self.jobs, self.calls = {}, []
        self.now_ns = NS_PER_S
        self.admission = MemoryAdmission(
            "n",
            Table(self.jobs),
            SimpleNamespace(call_at=lambda _at, call: self.calls.append(call)),
            self._register,
            MemoryMeter(MemoryTerms(GIB), lambda _pids: 0, pressure),
            now_ns=lambda: self.now_ns,
        )

    def _register(self, peer, hello, _pidfd):
        key = job_key(peer.uid, hello.job)
        self.jobs[key] = live_job(key)
        return Welcome(0, 0, -1, -1)

    def come(self, job, need_bytes, phase=Phase.TASK):
        applicant = Applicant(job, need_bytes, phase)
        self.admission.admit(applicant)
        return applicant

    def look(self):
        calls, self.calls = self.calls, []
        for call in calls:
            call()


class Table:
    def __init__(self, jobs):
        self._jobs = jobs
        self.get = jobs.get

    def __iter__(self):
        return iter(list(self._jobs.values()))


def live_job(key):
    region = SimpleNamespace(memory_bytes=0)
    region.declare_memory = lambda need: setattr(region, "memory_bytes", need)
    return SimpleNamespace(key=key, region=region, declared_bytes=0, tasks={})


def test_memory_written_into_a_region_blocks_no_job():
    door = Door()
    assert door.come("a", GIB // 2).inside
    job = door.jobs[job_key(1000, "a")]
    assert job.region.memory_bytes == GIB // 2
    job.region.memory_bytes = 1 << 63
    assert door.come("b", GIB // 2).inside
    assert not door.come("c", 1).inside  # the declared memory counts


def test_launched_task_gets_its_answer_at_once():
    door = Door()
    assert door.come("a", GIB // 2, phase=Phase.LAUNCHED).inside
    assert door.jobs[job_key(1000, "a")].declared_bytes == GIB // 2
    for need_bytes in (GIB, 2 * GIB):  # one that would wait, one that never fits
        assert door.come("b", need_bytes, phase=Phase.LAUNCHED).refusals == [""]
    assert len(door.admission) == 0
    # MPI_Init waits, and the user gets the reason.
    assert door.come("b", GIB).refusals == []
    assert len(door.admission) == 1
    other_rank = door.come("b", GIB, phase=Phase.LAUNCHED)
    assert other_rank.refusals == [""]
    (reason,) = door.come("c", 2 * GIB).refusals
    assert "not coscheduled" in reason


def test_adopted_need_is_capped_at_the_node():
    door = Door()
    for written, counts in ((1 << 63, GIB), (GIB // 4, GIB // 4)):
        job = live_job("1000.a")
        job.region.memory_bytes = written
        door.admission.take_over(job)
        assert job.declared_bytes == counts


def test_refused_job_gets_one_reason_per_run():
    door, reasons = Door(), []
    for after_ns in (0, 0, 5 * NS_PER_S, 9 * NS_PER_S, 10 * NS_PER_S, 0):
        door.now_ns += after_ns
        (refusal,) = door.come("a", 2 * GIB).refusals
        reasons.append(bool(refusal))
    assert reasons == [True, False, False, False, True, False]
    for number in range(100):
        door.now_ns += 10 * NS_PER_S
        door.come(f"b{number}", 2 * GIB)
    assert len(door.admission._refused_ns) == 1


def test_failed_measurement_is_repeated(caplog):
    errors = [OSError(errno.EMFILE, os.strerror(errno.EMFILE))] * 4

    def pressure():
        if errors:
            raise errors.pop()
        return 0.0

    door = Door(pressure)
    applicant = door.come("a", GIB)
    for _ in range(3):
        door.look()
    assert not applicant.inside
    assert len(caplog.records) == 1
    door.look()
    assert applicant.inside


# -- bells ----------------------------------------------------------------------------


class Bells:
    """A loop in which nothing happens by itself."""

    def __init__(self):
        self.watched = {}
        self.calls = []

    def watch(self, fd, ready):
        assert fd not in self.watched
        self.watched[fd] = ready

    def unwatch(self, fd):
        del self.watched[fd]

    def call_at(self, at_ns, call):
        self.calls.append((at_ns, call))


@pytest.fixture
def bells_of():
    """Makes jobs with a bell in a loop; returns their bells, and what was read when."""
    ends = []

    def make(*uids, takes_ns=BURST_NS // 10):
        now, read = [0], []

        def rung(job):
            read.append(job.key)
            now[0] += takes_ns

        loop = Bells()
        pacer = Pacer(loop, exempt=(0, os.geteuid()), now_ns=lambda: now[0])
        bells = JobBells(pacer, rung, cpu_ns=lambda: now[0])
        jobs = []
        for number, uid in enumerate(uids):
            ends.extend(os.pipe2(os.O_NONBLOCK))
            jobs.append(SimpleNamespace(key=f"{uid}.{number}", uid=uid, bell=ends[-2]))
            bells.watch(jobs[-1])
        return SimpleNamespace(bells=bells, jobs=jobs, loop=loop, now=now, read=read)

    yield make
    for end in ends:
        os.close(end)


def ring_until_unheard(node, job):
    """Rings until the bell is not watched any more; returns how often it was read."""
    before = len(node.read)
    for _ in range(100):
        if job.bell not in node.loop.watched:
            return len(node.read) - before
        node.loop.watched[job.bell]()
    return None


@pytest.mark.parametrize("uid", [0, os.geteuid()])
def test_bells_of_root_and_the_daemons_user_are_always_read(bells_of, uid):
    node = bells_of(uid)
    assert ring_until_unheard(node, node.jobs[0]) is None


def test_endless_bell_is_read_now_and_then(bells_of):
    node = bells_of(12345)
    (job,) = node.jobs
    assert ring_until_unheard(node, job) == 11
    ((at_ns, again),) = node.loop.calls
    assert at_ns == node.now[0] + REST * BURST_NS // 10
    node.now[0] = at_ns
    again()  # the ring of this time is read now
    assert len(node.read) == 12
    assert job.bell in node.loop.watched
    node.bells.forget(job)
    assert not node.loop.watched


def test_many_bells_of_a_user_count_together(bells_of):
    node = bells_of(*[12345] * 12, 54321)
    *own, other = node.jobs
    for _ in range(3):
        for job in own:
            if job.bell in node.loop.watched:
                node.loop.watched[job.bell]()
    assert len(node.read) == 11
    node.loop.watched[other.bell]()
    assert node.read[11] == other.key
    # The bells that rang while their user rested are read later, one after the other.
    for _ in range(12):
        at_ns, call = node.loop.calls.pop(0)
        node.now[0] = max(node.now[0], at_ns)
        call()
    assert set(node.read[12:]) == {job.key for job in own}
    assert node.now[0] > 11 * REST * BURST_NS // 10


def test_forgotten_bell_of_a_resting_user_is_not_read(bells_of):
    node = bells_of(12345, 12345)
    first, second = node.jobs
    assert ring_until_unheard(node, first) == 11
    node.loop.watched[second.bell]()
    assert not node.loop.watched
    node.bells.forget(second)  # another job may have its descriptor by then
    reads = len(node.read)
    while node.loop.calls:
        at_ns, call = node.loop.calls.pop(0)
        node.now[0] = max(node.now[0], at_ns)
        call()
    assert node.read[reads:] == [first.key]


# -- a user's share of the regions ----------------------------------------------------


def test_user_with_most_jobs_is_refused_another():
    terms = Terms(private=False, limits=Limits(), most_jobs=3)
    jobs = [SimpleNamespace(uid=uid) for uid in (12345, 0, os.geteuid()) for _ in "abc"]

    def come(uid):
        terms.check_new_job(SimpleNamespace(uid=uid), jobs)

    with pytest.raises(RegistrationRefused, match="3 of your jobs run here") as refused:
        come(12345)
    assert refused.value.errno == errno.ENOSPC
    assert len(str(refused.value)) < lib.COSCHED_REASON_BYTES
    for uid in (12346, 0, os.geteuid()):
        come(uid)


def test_regions_of_one_user_are_a_small_part():
    assert 64 <= USERS_JOBS <= lib.COSCHED_GUARDED_MAX // 8
