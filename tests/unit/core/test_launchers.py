"""Launchers: a job takes part before its first task, for a bounded time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from benchmarks.sim.one_node import OneNode, StreamJob
from cosched.core.node.knowledge import UNKNOWN, Expectation
from cosched.core.node.launchers import (
    END_MOST_NS,
    IDLE_NS,
    START_MOST_NS,
    are_idle,
)
from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import Mode, SliceEnded, TaskExited
from cosched.core.node.settings import USUAL
from cosched.core.units import NS_PER_MS, NS_PER_S
from tests.unit.core.machine_node import Node

S = NS_PER_S
TWO_CPUS = frozenset({0, 1})


def begun(**fields):
    """A node with an old job and a launcher of another one."""
    node = Node(USUAL, now_ns=20 * S)
    node.register("old")
    node.register("new", task=7, launcher=True, after_ns=10 * S, **fields)
    return node


def test_starting_job_takes_its_place_before_its_first_task():
    node = begun()
    assert node.running == {"new"}
    assert node.machine.jobs["new"].starting
    assert node.members["new"] == {7}
    node.register("new", task=8)
    assert node.running == {"new"}
    assert not node.machine.jobs["new"].starting
    assert node.members["new"] == {7, 8}


def test_launchers_leave_a_job_that_is_not_the_next_one():
    node = begun(expectation=Expectation(1, (1000 * S,)))
    assert node.running == {"old"}
    assert not node.machine.keeps_launchers("new", node.now_ns)


def test_launchers_wait_for_the_gmet_of_the_running_job():
    node = Node(USUAL, now_ns=20 * S)
    node.register("old", expectation=Expectation(1, (1000 * S,)))
    node.register("new", task=7, launcher=True, expectation=Expectation(2, (S,)))
    assert node.running == {"old"}
    assert node.machine.keeps_launchers("new", node.now_ns)
    ordered = node.orders.next_tick_ns(node.now_ns, node.now_ns, 0)
    node.send(SliceEnded, after_ns=ordered - node.now_ns)
    assert node.running == {"new"}


def test_launchers_wait_for_no_turn():
    node = Node()
    node.register("a")
    node.register("b", task=7, launcher=True)
    assert node.running == {"a"}
    assert not node.machine.keeps_launchers("b", node.now_ns)


def test_what_the_launcher_knows_counts_if_the_command_knew_nothing():
    node = begun()
    assert node.running == {"new"}
    long = Expectation(1, (1000 * S,))
    node.register("new", task=8, launcher=True, expectation=long)
    assert node.machine.jobs["new"].expectation == long
    node.register("new", task=9, expectation=Expectation(2, (S,)))
    assert node.machine.jobs["new"].expectation == long  # a second one does not count
    assert not node.machine.jobs["new"].starting


def test_job_with_tasks_gets_no_other_expectation():
    node = begun()
    node.register("new", task=8)
    node.register("new", task=9, launcher=True, expectation=Expectation(1, (S,)))
    assert node.machine.jobs["new"].expectation == UNKNOWN


def test_launcher_needs_a_cpu_only_before_the_tasks():
    node = Node(USUAL, now_ns=20 * S)
    node.register("one", task=1, cpus=TWO_CPUS)
    node.register("two", task=2, cpus=TWO_CPUS, launcher=True)
    assert node.running == {"one", "two"}
    node.register("two", task=3, cpus=frozenset({1}))
    node.register("one", task=4, cpus=TWO_CPUS, launcher=True)
    assert node.running == {"one", "two"}
    assert node.machine.jobs["two"].cpus == {1}


def test_program_that_was_its_own_launcher_is_a_task():
    node = Node(USUAL)
    node.register("a", task=1, launcher=True)
    node.register("a", task=1, replaces=1)
    job = node.machine.jobs["a"]
    assert (set(job.tasks), set(job.launchers)) == ({1}, set())


def test_job_stays_until_its_launcher_leaves():
    node = begun()
    node.register("new", task=8)
    node.send(TaskExited, job="new", task=8, after_ns=50 * NS_PER_MS)
    assert node.machine.jobs["new"].ending
    assert node.running == {"new"}
    node.send(TaskExited, job="new", task=7)
    assert "new" not in node.machine.jobs
    assert node.running == {"old"}


def test_launchers_leave_a_job_that_is_not_scheduled_and_one_whose_time_is_over():
    node = begun()
    keeps = node.machine.keeps_launchers
    assert keeps("new", node.now_ns + START_MOST_NS)
    assert not keeps("new", node.now_ns + START_MOST_NS + 1)
    node.register("new", task=8)
    assert keeps("new", node.now_ns + 2 * START_MOST_NS)
    node.send(TaskExited, job="new", task=8)
    assert keeps("new", node.now_ns + END_MOST_NS)
    assert not keeps("new", node.now_ns + END_MOST_NS + 1)
    node.machine.jobs["new"].scheduled = False
    assert not keeps("new", node.now_ns)
    assert not are_idle(NS_PER_MS, IDLE_NS - 1)
    assert are_idle(NS_PER_MS, IDLE_NS)
    assert not are_idle(IDLE_NS // 10, IDLE_NS)


def test_launchers_keep_a_starting_job_with_a_chosen_mode():
    node = begun()
    node.choose("new", Mode.SUSPENDED)
    assert node.machine.keeps_launchers("new", node.now_ns)
    node.register("new", task=8)
    assert not node.machine.keeps_launchers("new", node.now_ns), "the job has it now"


def test_launchers_come_into_the_class_after_release():
    node = begun()
    node.choose("new", Mode.RELEASED)
    node.choose("new", Mode.COSCHEDULED)
    assert node.members["new"] == {7}


def start_without_a_task(node, number, length_ns):
    """Starts a job of user 5 that never has a task; returns whether it ran at once."""
    job = f"bare{number}"
    node.register(job, task=number, launcher=True, user=5, after_ns=S // 2)
    ran = job in node.running
    node.send(TaskExited, job=job, task=number, after_ns=length_ns)
    return ran


def test_starts_without_a_task_count_as_one_job_until_a_task_comes():
    node = Node(USUAL, now_ns=20 * S)
    node.register("old")
    node.send(SliceEnded, after_ns=8 * S)
    ran = [start_without_a_task(node, number, 3 * S) for number in range(100, 120)]
    assert ran[:2] == [True, True]
    old_ns = node.machine.jobs["old"].age_ns(node.now_ns)
    assert ran.count(True) * 3 * S < 2 * old_ns, "they have taken turns with the old job"
    restored = NodeScheduler.restored(node.machine.snapshot())
    assert restored.snapshot() == node.machine.snapshot()
    assert not start_without_a_task(node, 199, S)
    node.register("real", task=99, user=5)
    node.send(TaskExited, job="real", task=99)
    assert start_without_a_task(node, 200, S)


LENGTHS = st.lists(st.integers(1, 80), min_size=1, max_size=5)


@given_settings(max_examples=30)
@given(LENGTHS, LENGTHS)
def test_launchers_for_ever_take_no_more_than_their_share(honest_s, launched_s):
    """A user of launchers delays the jobs of another one no more than by jobs."""
    honest = [StreamJob(n * S, s * S, user=1) for n, s in enumerate(honest_s)]
    jobs = [StreamJob(n * S, s * S, user=2, bare=True) for n, s in enumerate(launched_s)]
    run = OneNode([*honest, *jobs], USUAL)
    least_ns = USUAL.least_share.reserved_ns // (len(honest) + len(jobs))
    for number, job in enumerate(honest):
        begin_ns = job.submit_ns + S
        while begin_ns + 2 * USUAL.least_share.period_ns <= run.ends_ns[number]:
            end_ns = begin_ns + 2 * USUAL.least_share.period_ns
            had_ns = sum(
                max(0, min(t.end_ns, end_ns) - max(t.begin_ns, begin_ns))
                for t in run.turns
                if t.job == number
            )
            assert had_ns >= least_ns - 2 * S
            begin_ns += 7 * S
