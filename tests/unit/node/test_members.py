"""The life of tasks with real processes, regions and a real machine, without sockets."""

from __future__ import annotations

import errno
import itertools
import os
import subprocess
import time
from contextlib import ExitStack
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from cosched.core.config.schema import Limits
from cosched.core.expectation import LENGTHS_MAX
from cosched.core.node.knowledge import UNKNOWN, Expectation
from cosched.core.node.launchers import IDLE_NS
from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import Mode, TaskExited, TaskRegistered, ThawClass
from cosched.core.node.settings import Settings
from cosched.core.units import LENGTH_MAX_NS, NS_PER_S
from cosched.linux.pidfd import exited
from cosched.node.driver import Driver
from cosched.node.owner_requests import Owners
from cosched.node.records.history_writer import HistoryWriter
from cosched.node.records.recorder import Recorder
from cosched.node.sockets.registration import RegistrationRefused, TaskHello
from cosched.node.tasks.job_table import JobTable
from cosched.node.tasks.life import TaskLife
from cosched.node.tasks.registrar import Registrar, Terms
from cosched.node.tasks.tending import Launchers
from cosched.rundir.paths import NodePaths, job_key
from cosched.service.loop import Loop
from cosched.service.pacing import Pacer
from cosched.shm._native import lib
from cosched.shm.region_values import Phase

SHADOW = lib.COSCHED_CARRIER_SHADOW
_numbers = itertools.count()


class KeepingRecorder(Recorder):
    """Keeps all steps, too."""

    def __init__(self, *things):
        super().__init__(*things)
        self.steps = []

    def record(self, event, commands):
        self.steps.append((event, commands))
        super().record(event, commands)


class Node:
    """The members of a node, its terms, and the events that its machine received."""

    def __init__(self, tmp_path, stack, paths=None):
        """``paths``: those of a node whose daemon was killed; by default a new node's."""
        if paths is None:
            paths = NodePaths(tmp_path, f"members{os.getpid()}x{next(_numbers)}")
            paths.bells.mkdir(parents=True)
        self.paths = paths
        self.machine = NodeScheduler(Settings())
        self.jobs = JobTable(paths)
        self.recorder = KeepingRecorder(
            paths.node, self.machine, self.jobs, lambda _key: None
        )
        self.history = HistoryWriter(
            paths.node, self.recorder, self.jobs, lambda _key: None
        )
        self.refusing = False
        self.pids_are_reused = False
        loop = Loop()
        effects = SimpleNamespace(carry_out=lambda _commands: None)
        self.driver = Driver(self.machine, effects, self.recorder)
        self.members = TaskLife(
            *(self.driver, self.jobs, loop, Pacer(loop, exempt=[])),
            *(self.history, lambda: None),
        )
        self.registrar = Registrar(
            self.machine, self.jobs, self.members, self, self.has_ended
        )
        stack.callback(loop.close)
        stack.callback(lambda: [self.members.end(job) for job in self.jobs])

    def check_task(self, peer, hello, jobs):
        if self.refusing:
            raise RegistrationRefused(errno.EPERM, "by the operator")
        Terms(private=True, limits=Limits()).check_task(peer, hello, jobs)

    def has_ended(self, pidfd):
        return self.pids_are_reused or exited(pidfd)

    def check_new_job(self, _peer, _jobs):
        pass

    @property
    def events(self):
        return [event for event, _ in self.recorder.steps]

    def come(
        self,
        pid,
        rank=0,
        *,
        phase=Phase.TASK,
        job="a",
        expectation=UNKNOWN,
        submitted_ns=0,
    ):
        pidfd = os.pidfd_open(pid)
        try:
            peer = SimpleNamespace(pid=pid, uid=os.geteuid(), gid=os.getegid())
            hello = TaskHello(
                *(job, rank, 2, SHADOW, 0, submitted_ns),
                expectation=expectation,
                phase=phase,
            )
            return self.registrar.register(peer, hello, pidfd)
        finally:
            os.close(pidfd)

    @property
    def job(self):
        return self.jobs.get(job_key(os.geteuid(), "a"))

    @property
    def pids(self):
        return set(self.job.tasks) if self.job else set()


@pytest.fixture
def stack():
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def node(tmp_path, stack):
    return Node(tmp_path, stack)


@pytest.fixture
def process(stack):
    """Starts a shell that has started another process; both pids."""

    def start():
        shell = subprocess.Popen(
            ["sh", "-c", "sleep 1000 & echo $!; wait"], stdout=subprocess.PIPE, text=True
        )
        stack.callback(shell.wait)
        stack.callback(shell.stdout.close)
        stack.callback(shell.kill)
        child = int(shell.stdout.readline())
        stack.callback(lambda: subprocess.run(["kill", "-9", str(child)], check=False))
        return shell.pid, child

    return start


def kinds(node):
    return [type(event) for event in node.events]


def test_launched_process_enters_mpi_as_the_same_task(node, process):
    pid, _ = process()
    slot = node.come(pid, phase=Phase.LAUNCHED).slot
    assert node.job.tasks[pid].phase is Phase.LAUNCHED
    assert node.come(pid).slot == slot
    assert node.job.tasks[pid].phase is Phase.TASK
    assert kinds(node) == [TaskRegistered] * 2
    assert node.events[-1].replaces == pid
    assert len(node.machine.jobs) == 1


def test_child_of_a_task_is_refused_until_it_enters_mpi(node, process):
    shell, child = process()
    node.come(shell, phase=Phase.LAUNCHED)
    with pytest.raises(RegistrationRefused) as refused:
        node.come(child, phase=Phase.LAUNCHED)
    assert refused.value.errno == errno.EEXIST
    assert node.pids == {shell}
    node.come(child)
    assert node.pids == {child}
    assert kinds(node) == [TaskRegistered] * 2
    assert node.events[-1].replaces == shell
    assert set(node.machine.jobs[node.job.key].tasks) == {child}


def test_unrelated_processes_of_one_rank_are_two_tasks(node, process):
    (one, _), (two, _) = process(), process()  # two launchers, or MPI_Comm_spawn
    node.come(one, phase=Phase.LAUNCHED)
    node.come(two, phase=Phase.LAUNCHED)
    node.come(two)
    assert node.pids == {one, two}
    assert node.job.tasks[one].phase is Phase.LAUNCHED


def test_mpi_program_started_by_a_rank_is_another_task(node, process):
    shell, child = process()
    node.come(shell)
    node.come(child)
    assert node.pids == {shell, child}


@pytest.mark.parametrize("through", ["itself", "its shell"])
def test_process_refused_in_mpi_leaves_its_job(node, process, through):
    shell, child = process()
    node.come(shell, phase=Phase.LAUNCHED)
    node.refusing = True
    with pytest.raises(RegistrationRefused):
        node.come(shell if through == "itself" else child)
    assert node.job is None
    assert not node.machine.jobs
    assert kinds(node)[-1] is TaskExited


def test_old_cmdout_does_not_end_new_registration(node, process):
    pid, _ = process()
    node.come(pid)
    node.job.region.post(lib.COSCHED_CMDOUT, node.job.tasks[pid].slot)
    node.come(pid, phase=Phase.LAUNCHED)  # after MPI_Finalize it became another program
    node.members.take_requests(node.job)
    assert node.pids == {pid}


def test_reused_pid_is_another_task(node, process):
    pid, _ = process()
    node.come(pid, phase=Phase.LAUNCHED)
    node.pids_are_reused = True  # the first process ended unnoticed
    node.come(pid, phase=Phase.LAUNCHED)
    assert kinds(node) == [TaskRegistered, TaskExited, TaskRegistered]


def ended_record(node):
    """The record of the only job that has ended."""
    (record,) = node.history.answer({}, 0)["records"]
    return record


def test_launch_ends_when_the_last_rank_enters_mpi(node, process):
    (one, _), (two, _), (late, _) = process(), process(), process()
    began_ns = time.monotonic_ns()
    node.come(one, 0, phase=Phase.LAUNCHED)
    node.come(one, 0)
    node.come(two, 1)
    launched_s = (time.monotonic_ns() - began_ns) / 1e9
    node.come(late, 0)  # a second process of rank 0, from MPI_Comm_spawn
    for pid in (one, two, late):
        node.members.leave(node.job, pid)
    record = ended_record(node)
    assert 0 < record["launch_s"] <= launched_s
    assert record["launch_s"] < record["response_s"]


def test_launch_of_a_program_without_mpi_is_its_whole_time(node, process):
    pid, _ = process()
    node.come(pid, phase=Phase.LAUNCHED)
    node.members.leave(node.job, pid)
    record = ended_record(node)
    assert record["launch_s"] == record["response_s"]


@pytest.mark.parametrize(
    ("before_s", "least_s", "most_s"),
    [(0.5, 0.5, 30), (-5, 0, 0), (-60, None, None), (None, None, None)],
)
def test_record_has_how_soon_a_job_began(node, process, before_s, least_s, most_s):
    """Unless its launcher did not tell when it was submitted, or its clock is wrong."""
    (one, _), (two, _) = process(), process()
    now_ns = time.time_ns()
    submitted_ns = 0 if before_s is None else now_ns - round(before_s * NS_PER_S)
    node.come(one, submitted_ns=submitted_ns)
    node.come(two, rank=1, submitted_ns=now_ns - 100 * NS_PER_S)  # changed by the user
    for pid in (one, two):
        node.members.leave(node.job, pid)
    began_after_s = ended_record(node)["began_after_s"]
    if least_s is None:
        assert began_after_s is None
    else:
        assert least_s <= began_after_s <= most_s


def note_waits(node, pid, waited_ns, paused_ns):
    counters = node.job.region.data.tasks[node.job.tasks[pid].slot].counters
    counters.waited_ns, counters.paused_ns = waited_ns, paused_ns


def test_waits_of_a_job_are_those_of_all_its_tasks_in_its_turns(node, process):
    (one, _), (two, _) = process(), process()
    node.come(one)
    node.come(two, rank=1)
    note_waits(node, one, 5 * NS_PER_S, 3 * NS_PER_S)
    note_waits(node, two, NS_PER_S, 4 * NS_PER_S)  # its wait is not over
    assert node.history.filling(node.job).waits_s == 2.0
    note_waits(node, two, 8 * NS_PER_S, 4 * NS_PER_S)
    node.members.leave(node.job, one)
    assert node.history.filling(node.job).waits_s == 6.0
    node.members.leave(node.job, two)
    assert ended_record(node)["filling"]["waits_s"] == 6.0


def test_waits_before_a_daemon_are_not_counted(node, process, tmp_path, stack):
    """The earlier daemon knew which jobs filled them."""
    pid, _ = process()
    node.come(pid)
    note_waits(node, pid, 5 * NS_PER_S, 0)
    later = Node(tmp_path, stack, node.paths)
    later.members.adopt(lambda _job: None)
    note_waits(later, pid, 7 * NS_PER_S, 0)
    assert later.history.filling(later.job).waits_s == 2.0
    later.history.daemon_leaves(later.job)
    later.members.end(later.job)
    assert ended_record(later)["filling"]["waits_s"] == 2.0


def test_first_task_sets_the_expectation_of_its_job(node, process):
    """All ranks have the same environment, unless the user's program changes it."""
    (one, _), (two, _) = process(), process()
    first = Expectation(7, (NS_PER_S, 2 * NS_PER_S))
    node.come(one, expectation=first)
    node.come(two, rank=1, expectation=Expectation(8, (3,)))
    assert node.machine.jobs[node.job.key].expectation == first
    assert node.job.expectation == first
    assert node.job.region.expectation == first


def test_later_daemon_reads_the_expectation_of_a_job(node, process, tmp_path, stack):
    pid, _ = process()
    first = Expectation(7, (NS_PER_S, 2 * NS_PER_S))
    node.come(pid, expectation=first)
    later = Node(tmp_path, stack, node.paths)
    later.members.adopt(lambda _job: None)
    assert later.machine.jobs[node.job.key].expectation == first
    assert later.job.expectation == first
    (event,) = later.events
    assert (event.adopted, event.expectation, event.user) == (True, first, os.geteuid())


@pytest.mark.parametrize(("seen", "next_one"), [(41, 42), ((1 << 63) - 1, 0)])
def test_later_daemon_uses_no_epoch_again(node, process, tmp_path, stack, seen, next_one):
    """A task asks once an epoch, so it would make no request in an epoch of before."""
    node.come(process()[0])
    node.job.region.publish_status(seen, False)
    later = Node(tmp_path, stack, node.paths)
    later.members.adopt(lambda _job: None)
    (event,) = later.events
    assert event.epoch == next_one


def test_job_that_ends_at_the_takeover_is_no_job(
    node, process, tmp_path, stack, monkeypatch
):
    node.come(process()[0])
    paths = node.paths
    later = Node(tmp_path, stack, paths)
    ended = ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    monkeypatch.setattr(os, "sched_getaffinity", Mock(side_effect=ended))
    later.members.adopt(lambda _job: pytest.fail("known"))
    assert len(later.jobs) == 0
    assert not later.machine.jobs
    assert not any(paths.bells.iterdir())


def test_resting_job_is_taken_over_first(node, process, tmp_path, stack):
    """Beside another job on its CPUs no job can rest, so its rest would not end."""
    for name in "ab":
        node.come(process()[0], job=name)
    resting = node.jobs.get(job_key(os.geteuid(), "b"))
    resting.region.publish_mode(Mode.RESTING)
    later = Node(tmp_path, stack, node.paths)
    owners = Owners(later.driver, later.jobs, raising=False)
    later.members.adopt(owners.take_over)
    commands = [c for _, commands in later.recorder.steps for c in commands]
    assert ThawClass(resting.key) in commands
    assert {job.mode for job in later.machine.jobs.values()} == {Mode.COSCHEDULED}


@pytest.mark.parametrize(
    ("lengths_ns", "valid"),
    [
        ([0, 5, 0, 6], (5, 6)),
        ([1 << 63, LENGTH_MAX_NS + 1, LENGTH_MAX_NS], (LENGTH_MAX_NS,)),
        ([(1 << 64) - 1] * LENGTHS_MAX, ()),
        (list(range(1, LENGTHS_MAX + 1)), tuple(range(1, LENGTHS_MAX + 1))),
    ],
)
def test_lengths_that_a_user_invents_are_left_out(node, process, lengths_ns, valid):
    pid, _ = process()
    node.come(pid)
    record = node.job.region.data.expectation
    record.kind, record.lengths_ns = 9, lengths_ns
    assert node.job.region.expectation == Expectation(9, valid)
    node.job.region.record_expectation(Expectation(3, valid))
    assert node.job.region.expectation == Expectation(3, valid)


# -- launchers -------------------------------------------------------------------------


def tend(node, cpu_ns=lambda _key: None):
    """A heartbeat's look at the launchers."""
    Launchers(node.machine, node.jobs, node.members, cpu_ns).tend()


def test_launcher_begins_its_job_and_is_no_task(node, process):
    launcher, rank = process()
    node.come(launcher, phase=Phase.LAUNCHER)
    assert node.machine.jobs[node.job.key].starting
    node.come(rank, phase=Phase.LAUNCHED)  # a child of the launcher
    assert node.come(rank).slot == 0
    state = node.machine.jobs[node.job.key]
    assert (set(state.tasks), set(state.launchers)) == ({rank}, {launcher})


def test_program_that_was_started_as_a_launcher_becomes_a_task(node, process):
    pid, _ = process()
    slot = node.come(pid, phase=Phase.LAUNCHER).slot
    assert node.come(pid).slot == slot
    assert set(node.machine.jobs[node.job.key].tasks) == {pid}
    assert not node.job.launchers


def test_command_begins_its_job_and_leaves_it_to_the_launcher(node, process):
    command, launcher = process()
    node.come(command, phase=Phase.COMMAND)
    assert node.machine.jobs[node.job.key].starting
    expected = Expectation(3, (NS_PER_S,))
    node.come(launcher, phase=Phase.LAUNCHER, expectation=expected)
    assert node.pids == {launcher}
    assert node.machine.jobs[node.job.key].expectation == expected
    assert node.job.region.expectation == expected  # the next daemon reads it


def test_command_leaves_its_job_to_a_rank(node, process):
    command, rank = process()
    node.come(command, phase=Phase.COMMAND)
    node.come(rank, phase=Phase.LAUNCHED)
    assert node.pids == {rank}
    assert node.machine.jobs[node.job.key].launchers == {}


def test_users_commands_without_launchers_count_as_starts_without_a_task(node, process):
    pid, _ = process()
    for name in ("a", "b"):  # a command that is announced for another job leaves the first
        node.come(pid, phase=Phase.COMMAND, job=name)
        time.sleep(0.001)
    assert [job.name for job in node.jobs] == ["b"]
    assert node.machine.snapshot().bare_starts_ns[os.geteuid()] > 0


def test_task_that_registers_as_a_launcher_stays_a_task(node, process):
    pid, _ = process()
    node.come(pid)
    node.come(pid, phase=Phase.LAUNCHER)
    assert not node.job.launchers
    assert set(node.machine.jobs[node.job.key].tasks) == {pid}


def test_job_ends_with_its_launcher(node, process):
    launcher, rank = process()
    node.come(launcher, phase=Phase.LAUNCHER)
    node.come(rank)
    node.members.leave(node.job, rank)
    assert node.pids == {launcher}
    node.members.leave(node.job, launcher)
    assert node.job is None
    assert ended_record(node)["ranks"] == (0,)


def test_job_that_never_had_a_rank_is_in_no_history(node, process):
    pid, _ = process()
    node.come(pid, phase=Phase.LAUNCHER)
    node.members.leave(node.job, pid)
    assert node.history.answer({}, 0)["records"] == []
    assert not node.recorder.accounts


def test_launcher_leaves_a_job_that_lost_its_cpus(node, process):
    launcher, rank = process()
    node.come(launcher, phase=Phase.LAUNCHER)
    node.come(rank)
    tend(node)
    assert node.pids == {launcher, rank}
    node.machine.jobs[node.job.key].scheduled = False
    tend(node)
    assert node.pids == {rank}


def test_launcher_leaves_with_the_last_task_of_a_job_that_waits(node, process):
    (launcher, rank), (other, _) = process(), process()
    for pid in (launcher, rank, other):
        os.sched_setaffinity(pid, {min(os.sched_getaffinity(0))})
    node.come(launcher, phase=Phase.LAUNCHER)
    node.come(rank)
    node.come(other, job="A")  # by its name it is the first
    assert node.pids == {launcher, rank}
    node.members.leave(node.job, rank)
    assert node.job is None


def test_launcher_leaves_at_once_if_another_job_comes_first(node, process):
    (launcher, _), (other, _) = process(), process()
    for pid in (launcher, other):
        os.sched_setaffinity(pid, {min(os.sched_getaffinity(0))})
    node.come(other, job="A")
    node.come(launcher, phase=Phase.LAUNCHER)
    assert node.job is None
    assert kinds(node)[-1] is TaskExited


def test_idle_launcher_leaves(node, process, monkeypatch):
    pid, _ = process()
    node.come(pid, phase=Phase.LAUNCHER)
    used_ns = 0
    launchers = Launchers(node.machine, node.jobs, node.members, lambda _key: used_ns)
    now_ns = time.monotonic_ns()
    clock = SimpleNamespace(monotonic_ns=lambda: now_ns)
    monkeypatch.setattr("cosched.node.tasks.tending.time", clock)
    launchers.tend()
    now_ns += IDLE_NS
    used_ns += IDLE_NS // 2
    launchers.tend()
    assert node.pids == {pid}
    now_ns += IDLE_NS
    launchers.tend()
    assert node.job is None
    assert kinds(node)[-1] is TaskExited


def test_later_daemon_takes_launchers_over(node, process, tmp_path, stack):
    launcher, rank = process()
    node.come(launcher, phase=Phase.LAUNCHER)
    node.come(rank)
    later = Node(tmp_path, stack, node.paths)
    later.members.adopt(lambda _job: None)
    state = later.machine.jobs[later.job.key]
    assert (set(state.tasks), set(state.launchers)) == ({rank}, {launcher})
