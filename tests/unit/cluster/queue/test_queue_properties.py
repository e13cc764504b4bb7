"""Checks properties of every workload under every policy."""

from __future__ import annotations

import itertools
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.nodes import count
from cosched.core.cluster.queue.places.ledger import Ledger
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.cluster.queue.queue_commands import StartJob, WakeAt
from cosched.core.cluster.queue.queue_events import JobEnded, JobSubmitted, Ticked
from cosched.core.errors import CoschedError
from tests.unit.cluster.queue.queue_workloads import (
    ALL,
    OVERRUN,
    jobs_and_machine,
    simulated,
)

every_policy = pytest.mark.parametrize("policy", ALL.values(), ids=ALL)
SOME = settings(max_examples=40, deadline=None)


@every_policy
@given(case=jobs_and_machine(most=20))
@SOME
def test_no_job_is_lost_and_no_node_used_twice(policy, case):
    """A second run of the same jobs has the same schedule."""
    jobs, machine = case
    domain, scheduler = simulated(jobs, machine, policy, keep_nodes=True)
    check_each_node_has_one_job(jobs, machine, domain, scheduler)
    again, other = simulated(jobs, machine, policy, keep_nodes=True)
    assert (again.start_ns, again.nodes) == (domain.start_ns, domain.nodes)
    assert other.planner.counts == scheduler.planner.counts


def check_each_node_has_one_job(jobs, machine, domain, scheduler):
    assert domain.ended == len(jobs)
    assert scheduler.place.free == machine
    assert not scheduler.waiting
    for start, nodes, (submit, _, size, _) in zip(
        domain.start_ns, domain.nodes, jobs, strict=True
    ):
        assert start >= submit
        assert count(nodes) == size
    held = [
        (start, start + run, node)
        for start, nodes, (_, run, _, _) in zip(
            domain.start_ns, domain.nodes, jobs, strict=True
        )
        for first, last in nodes
        for node in range(first, last + 1)
    ]
    for node in range(machine):
        times = sorted((begin, end) for begin, end, its in held if its == node)
        for (_, end), (begin, _) in itertools.pairwise(times):
            assert end <= begin
    assert {node for _, _, node in held} <= set(range(machine))


class Driver:
    """Feeds a scheduler by hand, one moment at a time, and says what it started."""

    def __init__(self, jobs, machine, policy) -> None:
        self.scheduler = QueueMachine(Ledger(((0, machine - 1),), OVERRUN), policy)
        self.jobs = jobs
        self.starts: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        self.wake: int | None = None

    def moments(self):
        """Each moment at which the scheduler decided, after it did."""
        now = 0
        while len(self.starts) < len(self.jobs) or self.ends:
            over = sorted(job for job, end in self.ends.items() if end <= now)
            new = [n for n, job in enumerate(self.jobs) if job[0] == now]
            for job in over:
                del self.ends[job]
                assert self.scheduler.handle(JobEnded(now, job)) == ()
            for number in new:
                submit, _, size, walltime = self.jobs[number]
                job = Job(number, size, walltime, submit)
                assert self.scheduler.handle(JobSubmitted(now, job)) == ()
            if over or new or self.wake == now:
                for command in self.scheduler.handle(Ticked(now)):
                    match command:
                        case StartJob(job):
                            assert job.number not in self.starts
                            self.starts[job.number] = now
                            run = max(1, self.jobs[job.number][1])
                            self.ends[job.number] = now + run
                        case WakeAt(at):
                            assert at is None or at > now
                            self.wake = at
                yield now
            now += 1


@given(case=jobs_and_machine(overruns=False))
@SOME
def test_easy_never_delays_the_reserved_job(case):
    driver = Driver(*case, POLICIES["easy"])
    promised: dict[int, int] = {}
    for now in driver.moments():
        reservation = driver.scheduler.planner.reservation
        if reservation is None:
            assert not driver.scheduler.waiting
            continue
        job, at = reservation
        assert at > now
        assert at <= promised.setdefault(job.number, at)
    for number, at in promised.items():
        assert driver.starts[number] <= at


@pytest.mark.parametrize("name", ["fcfs-Conservative", "wfp-Conservative"])
@given(case=jobs_and_machine(overruns=False))
@SOME
def test_conservative_keeps_every_promise(name, case):
    driver = Driver(*case, ALL[name])
    promised: dict[int, int] = {}
    for now in driver.moments():
        reservations = driver.scheduler.planner.reservations
        assert set(reservations) == {job.number for job in driver.scheduler.waiting}
        for number, at in reservations.items():
            assert at > now
            assert at <= promised.setdefault(number, at)
    for number, at in promised.items():
        assert driver.starts[number] <= at


@pytest.mark.parametrize("name", ["fcfs-Conservative", "wfp-Conservative"])
@given(case=jobs_and_machine())
@SOME
def test_conservative_breaks_promises_only_in_a_new_plan(name, case):
    driver = Driver(*case, ALL[name])
    promised: dict[int, int] = {}
    plans = 0
    for _ in driver.moments():
        made = driver.scheduler.planner.counts.plans_made_again
        if made != plans:
            plans = made
            promised.clear()
        for number, at in driver.scheduler.planner.reservations.items():
            assert at <= promised.get(number, at)
            promised[number] = at


@given(case=jobs_and_machine(overruns=False))
@SOME
def test_in_order_starts_in_order(case):
    jobs, machine = case
    domain, _ = simulated(jobs, machine, POLICIES["fcfs"])
    assert list(domain.start_ns) == sorted(domain.start_ns)


def scheduler(policy="easy", machine=4) -> QueueMachine:
    return QueueMachine(Ledger(((0, machine - 1),)), POLICIES[policy])


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (Job(7, 5, 10, 0), "job 7 wants 5 nodes; the machine has 4"),
        (Job(7, 0, 10, 0), "job 7 wants 0 nodes"),
        (Job(7, 1, 0, 0), "job 7 has no walltime"),
    ],
)
def test_a_job_that_can_never_run_is_refused(job, words):
    machine = scheduler()
    with pytest.raises(CoschedError, match=words):
        machine.handle(JobSubmitted(0, job))
    assert machine.handle(Ticked(0)) == ()


def test_a_number_is_one_job_at_a_time():
    machine = scheduler()
    job = Job(7, 1, 10, 0)
    machine.handle(JobSubmitted(0, job))
    with pytest.raises(CoschedError, match=r"job 7: (waits|runs), and cannot be submitted"):
        machine.handle(JobSubmitted(0, job))
    assert machine.handle(Ticked(0)) == (StartJob(job, ((0, 0),)),)
    with pytest.raises(CoschedError, match=r"job 7: (waits|runs), and cannot be submitted"):
        machine.handle(JobSubmitted(1, job))
    machine.handle(JobEnded(2, 7))
    with pytest.raises(CoschedError, match="job 7: neither waits nor runs"):
        machine.handle(JobEnded(2, 7))
    machine.handle(JobSubmitted(3, job))
    assert machine.handle(Ticked(3)) == (StartJob(job, ((0, 0),)),)


def test_only_events_of_a_queue():
    with pytest.raises(TypeError, match="not an event of a queue"):
        scheduler().handle(StartJob(Job(1, 1, 1, 0), ()))  # type: ignore[arg-type]


@given(st.integers(1, 30))
def test_a_submission_does_not_look_at_the_queue_again(waiting):
    machine = scheduler()
    machine.handle(JobSubmitted(0, Job(0, 3, 100, 0)))
    machine.handle(JobSubmitted(0, Job(1, 4, 100, 0)))
    machine.handle(Ticked(0))
    for number in range(2, 2 + waiting):
        machine.handle(JobSubmitted(number, Job(number, 2, 100, number)))
        assert machine.handle(Ticked(number)) == ()
    assert machine.planner.counts.passes == 1
    assert machine.planner.counts.passes_over_newcomers == waiting
    # One that fits beside the reservation still starts at once.
    short = Job(99, 1, 10, 50)
    machine.handle(JobSubmitted(50, short))
    assert machine.handle(Ticked(50)) == (StartJob(short, ((3, 3),)),)
    assert machine.planner.counts.backfilled == 1


def test_wfp_prefers_short_jobs_that_waited_long():
    machine = scheduler("wfp")
    machine.handle(JobSubmitted(0, Job(0, 4, 100, 0)))
    machine.handle(Ticked(0))
    machine.handle(JobSubmitted(1, Job(1, 4, 1000, 1)))
    machine.handle(JobSubmitted(50, Job(2, 4, 50, 50)))
    machine.handle(Ticked(50))
    machine.handle(JobEnded(100, 0))
    commands = machine.handle(Ticked(100))
    assert [command.job.number for command in commands] == [2]


def test_a_job_that_outlives_its_walltime_moves_reservations():
    machine = scheduler("conservative")
    machine.handle(JobSubmitted(0, Job(0, 4, 10, 0)))
    machine.handle(JobSubmitted(0, Job(1, 4, 10, 0)))
    assert machine.handle(Ticked(0))[-1] == WakeAt(10)
    overrun = machine.handle(Ticked(10))
    assert overrun == (WakeAt(10 + 300 * 10**9),)
    machine.handle(JobEnded(20, 0))
    assert machine.handle(Ticked(20)) == (
        StartJob(Job(1, 4, 10, 0), ((0, 3),)),
        WakeAt(None),
    )


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_state_does_not_grow_with_jobs_that_end_early(policy):
    """Jobs end long before their limits; as many wait all the time. The first runs on."""
    queue = QueueMachine(Ledger(((0, 3),)), POLICIES[policy], grace_ns=10)
    now, numbers, running, sizes = 0, itertools.count(), [], []
    for _ in range(1200):
        for number in itertools.islice(numbers, 30 - len(queue.waiting)):
            size, walltime = 1 + number % 3, 10**6 + 17 * (number % 60)
            queue.handle(JobSubmitted(now, Job(number, size, walltime, now)))
        for command in queue.handle(Ticked(now)):
            if isinstance(command, StartJob):
                running.append(command.job.number)
        now += 20
        queue.handle(JobEnded(now, running.pop()))
        sizes.append(len(pickle.dumps(queue)))
    assert max(sizes[900:]) < 1.03 * max(sizes[600:900])
