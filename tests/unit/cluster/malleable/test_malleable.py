"""The parts of the malleable policies, by examples that can be checked by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.order import FCFS, WFP
from cosched.core.cluster.queue.places.elastic import Elastic
from cosched.core.cluster.queue.places.rows import Rows
from cosched.core.cluster.queue.plans.conservative import Conservative
from cosched.core.cluster.queue.plans.planner import InOrder
from cosched.core.cluster.queue.policies import Policy
from cosched.core.cluster.queue.queue_events import JobEnded, JobSubmitted, SettingsChanged
from cosched.core.cluster.queue.sizes.benefit import gift_benefit, harvest_benefit
from cosched.core.cluster.queue.sizes.dealing import (
    divide_evenly,
    give_evenly,
    give_most_impact,
    take_evenly,
    take_least_impact,
)
from cosched.core.cluster.queue.sizes.execution import AdaptationCost, linear, parabolic
from cosched.core.cluster.queue.sizes.harvest_policies import (
    EVEN,
    FAIR,
    HARVESTS,
    LONG,
    LOW_IMPACT,
    NEVER,
    SHORT,
)
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob
from cosched.core.cluster.queue.sizes.resizable_run import ResizableRun
from cosched.core.cluster.queue.sizes.settings import Control, Distribution, SizePolicy
from cosched.core.errors import CoschedError
from tests.unit.cluster.malleable.malleable_streams import decide, queue_of

FR, FQ = Distribution.FAVOUR_RUNNING, Distribution.FAVOUR_QUEUED


def job(number, minimum, ideal, run_ns=1000, submit_ns=0, **more):
    return MalleableJob(number, ideal, run_ns, submit_ns, minimum=minimum, **more)


def running(number, minimum, size, ideal, **more):
    record = ResizableRun(job(number, minimum, ideal, **more), size, 0)
    record.settle(0)
    return record


class Scheduler:
    """A queue of malleable jobs that decides after each event, as in the paper."""

    def __init__(self, nodes, sizes):
        self.queue = queue_of(nodes, sizes)
        self.running, self.counts = (
            self.queue.planner.running,
            self.queue.planner.counts,
        )

    @property
    def waiting(self):
        return self.queue.waiting

    def handle(self, event):
        self.queue.handle(event)
        return decide(self.queue, event.now_ns)


def change(scheduler, number):
    """Size and expected end of a running job."""
    return scheduler.running[number].size, scheduler.running[number].end_ns


def submit(scheduler, now_ns, *jobs):
    return [
        command for each in jobs for command in scheduler.handle(JobSubmitted(now_ns, each))
    ]


def sizes(scheduler):
    return {number: record.size for number, record in scheduler.running.items()}


@pytest.mark.parametrize("model", [linear, parabolic])
def test_the_ideal_takes_the_run_time_and_less_takes_longer(model):
    assert model(8, 8) == 1.0
    stretches = [model(size, 8) for size in range(8, 0, -1)]
    assert stretches == sorted(stretches)
    assert len(set(stretches)) == 8


def test_the_two_models_at_a_tenth():
    assert linear(10, 100) == pytest.approx(10.0)
    assert parabolic(10, 100) == pytest.approx(5.05)


def test_the_overhead_of_the_papers_example():
    """STEN with N=128 on 4 nodes loses a node in about 7 s."""
    cost = AdaptationCost(10**9, 2 * 128 * 128 * 8 * 90_000, 300_000_000)
    assert cost.ns(4, 3) / 1e9 == pytest.approx(6.9, abs=0.05)
    assert cost.ns(4, 5) - cost.ns(4, 3) == 300_000_000


def test_changes_while_a_job_stands_still_add_up():
    record = running(0, 1, 8, 8, run_ns=1000, cost=AdaptationCost(100))
    for now_ns, size, end_ns in [
        (200, 4, 200 + 100 + 800 * 2),
        (250, 8, 200 + 100 + 100 + 800),  # still at the first change: one after the other
        (300, 4, 200 + 300 + 800 * 2),
        (1300, 8, 1300 + 100 + 400),  # 800 of 1600 done since 500
    ]:
        record.size = size
        record.settle(now_ns)
        assert record.end_ns == end_ns
    assert record.harvests == 2


def test_a_job_that_runs_on_after_its_time_is_about_to_end():
    record = running(0, 1, 8, 8, run_ns=1000, cost=AdaptationCost(100))
    assert record.end_with_ns(4, 5000) == 5100


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(0, 80))
def test_divide_evenly_is_as_even_as_room_allows(rooms, count):
    amounts = divide_evenly(rooms, count)
    assert sum(amounts) == min(count, sum(rooms))
    for amount, room in zip(amounts, rooms, strict=True):
        assert 0 <= amount <= room
        # A job with room left got the greatest amount, or one less.
        assert amount == room or amount >= max(amounts, default=0) - 1
    # One at a time, by hand.
    slow, left = [0] * len(rooms), count
    while left and slow != rooms:
        for place, room in enumerate(rooms):
            if left and slow[place] < room:
                slow[place] += 1
                left -= 1
    assert amounts == slow


def test_low_impact_takes_from_job_that_keeps_most():
    """The paper's example: 2 of 4 suffers more from a loss than 8 of 9."""
    jobs = [running(0, 1, 2, 4), running(1, 1, 8, 9)]
    assert take_least_impact(jobs, 1) == [0, 1]
    assert take_least_impact(jobs, 5) == [0, 5]
    assert take_least_impact(jobs, 7) == [1, 6]
    assert take_least_impact(jobs, 99) == [1, 7]
    assert take_evenly(jobs, 2) == [1, 1]


def test_giving_is_the_inverse():
    jobs = [running(0, 1, 2, 4), running(1, 1, 4, 9), running(2, 1, 6, 6)]
    assert give_most_impact(jobs, 1) == [0, 1, 0]
    assert give_most_impact(jobs, 99) == [2, 5, 0]
    assert give_evenly(jobs, 3) == [2, 1, 0]


def test_harvest_chooses_victims():
    jobs = [running(number, 1, 4, 4, run_ns=1000 * (3 - number)) for number in range(3)]
    for number, record in enumerate(jobs):
        record.start_ns = 100 * number
        record.harvests = number
    now_ns = 300

    def numbers(chosen):
        return [record.job.number for record in chosen]

    assert numbers(EVEN.victims(jobs, now_ns)) == [0, 1, 2]
    assert numbers(LOW_IMPACT.victims(jobs, now_ns)) == [0, 1, 2]
    assert numbers(NEVER.victims(jobs, now_ns)) == []
    assert numbers(FAIR.victims(jobs, now_ns)) == [0, 1]  # not above the average of 1
    assert numbers(FAIR.receivers(jobs, now_ns)) == [1, 2]
    assert numbers(LONG.victims(jobs, now_ns)) == [0, 1]  # ages 300, 200, 100
    assert numbers(LONG.receivers(jobs, now_ns)) == [2, 1]
    assert numbers(SHORT.victims(jobs, now_ns)) == [0, 1]  # left 2700, 1700, 700
    assert numbers(SHORT.receivers(jobs, now_ns)) == [2, 1]


@pytest.mark.parametrize("name", [name for name in HARVESTS if name != "never"])
def test_one_job_alone_can_be_harvested(name):
    scheduler = Scheduler(8, SizePolicy(HARVESTS[name], FQ))
    submit(scheduler, 0, job(0, 2, 8))
    submit(scheduler, 10, job(1, 3, 4))
    assert sizes(scheduler) == {0: 5, 1: 3}


def test_figure_3b():
    """Even-H-FQ on 8 nodes, as the paper draws it."""
    scheduler = Scheduler(8, SizePolicy(EVEN, FQ))
    submit(scheduler, 0, job(1, 1, 4), job(2, 1, 4))
    assert sizes(scheduler) == {1: 4, 2: 4}
    submit(scheduler, 10, job(3, 4, 4))
    assert sizes(scheduler) == {1: 2, 2: 2, 3: 4}
    assert submit(scheduler, 20, job(4, 4, 4)) == []
    assert [waits.number for waits in scheduler.waiting] == [4]
    scheduler.handle(JobEnded(30, 3))
    assert sizes(scheduler) == {1: 2, 2: 2, 4: 4}


def test_harvest_takes_the_missing_nodes_and_no_more():
    scheduler = Scheduler(10, SizePolicy(LOW_IMPACT, FR))
    submit(scheduler, 0, job(0, 2, 8))
    submit(scheduler, 100, job(1, 4, 9))
    assert change(scheduler, 0) == (6, 100 + 900 * 8 // 6)
    assert sizes(scheduler) == {0: 6, 1: 4}
    assert scheduler.counts.harvests == scheduler.counts.victims == 1


def test_no_harvest_beyond_the_degree():
    scheduler = Scheduler(8, SizePolicy(EVEN, FR, degree=2))
    submit(scheduler, 0, job(0, 1, 4), job(1, 1, 4), job(2, 1, 4))
    assert sizes(scheduler) == {0: 4, 1: 4}
    assert scheduler.counts.requests == 0
    scheduler.handle(JobEnded(10, 0))
    assert sizes(scheduler) == {1: 4, 2: 4}


@pytest.mark.parametrize(("distribution", "after"), [(FR, {1: 8}), (FQ, {1: 4, 3: 4})])
def test_distribution_beyond_the_degree(distribution, after):
    scheduler = Scheduler(8, SizePolicy(EVEN, distribution, degree=1))
    submit(scheduler, 0, job(0, 1, 4), job(1, 1, 8))
    submit(scheduler, 0, job(3, 4, 4))
    assert sizes(scheduler) == {0: 4, 1: 4}
    scheduler.handle(JobEnded(10, 0))
    assert sizes(scheduler) == after


def test_an_event_changes_a_job_once():
    """Two jobs that start at one end take from the same victim in one change."""
    scheduler = Scheduler(8, SizePolicy(EVEN, FQ, degree=3))
    costly = {"cost": AdaptationCost(50)}
    submit(scheduler, 0, job(0, 1, 4, **costly), job(1, 4, 4), job(2, 4, 4), job(3, 2, 4))
    assert sizes(scheduler) == {0: 4, 1: 4}
    commands = scheduler.handle(JobEnded(100, 1))
    assert sizes(scheduler) == {0: 2, 2: 4, 3: 2}
    assert [type(command).__name__ for command in commands] == [
        "ResizeJob",
        "StartJob",
        "StartJob",
    ]
    assert change(scheduler, 0) == (2, 100 + 50 + 900 * 2)
    assert scheduler.running[0].harvests == 1


@pytest.mark.parametrize(
    ("control", "after"),
    [
        (Control(), {0: 6, 2: 2}),
        (Control(harvest_limit=0), {0: 8}),
        (Control(harvest_limit=1), {0: 8}),
        (Control(harvest_limit=2), {0: 6, 2: 2}),
        (Control(protected_ns=21), {0: 8}),
        (Control(least_benefit=1.0), {0: 8}),
        (Control(least_benefit=0.1), {0: 6, 2: 2}),
    ],
)
def test_control_policies(control, after):
    """Two jobs of 2 nodes come one after the other while a job has the whole machine."""
    scheduler = Scheduler(8, SizePolicy(EVEN, FQ, control=control))
    submit(scheduler, 0, job(0, 1, 8, cost=AdaptationCost(1000)))
    submit(scheduler, 10, job(1, 2, 2))
    if 1 in scheduler.running:
        scheduler.handle(JobEnded(15, 1))
        submit(scheduler, 20, job(2, 2, 2))
    assert sizes(scheduler) == after


@pytest.mark.parametrize("base_ns", [0, 1300])
def test_refused_gift_goes_to_other_jobs(base_ns):
    """Of 5 nodes, 2 are nothing to a job whose changes cost too much. The other one, to
    which 3 are not worth 1300, takes all."""
    scheduler = Scheduler(8, SizePolicy(NEVER, FR, control=Control(least_benefit=1.0)))
    submit(scheduler, 0, job(0, 5, 5), job(1, 1, 1))
    submit(scheduler, 0, job(2, 1, 8, cost=AdaptationCost(base_ns)))
    submit(scheduler, 0, job(3, 1, 8, cost=AdaptationCost(10**6)))
    scheduler.handle(JobEnded(10, 1))
    assert sizes(scheduler) == {0: 5, 2: 2, 3: 1}
    scheduler.handle(JobEnded(20, 0))
    assert sizes(scheduler) == {2: 7, 3: 1}


def test_averages_are_over_all_that_run():
    """Ages of 100, 70 and three times 5: two are above the average of 37, though it would
    be 85 without the protected ones."""
    scheduler = Scheduler(20, SizePolicy(LONG, FQ, control=Control(protected_ns=60)))
    for number, now_ns in enumerate((0, 30, 95, 95, 95)):
        submit(scheduler, now_ns, job(number, 1, 4))
    submit(scheduler, 100, job(5, 2, 4))
    assert sizes(scheduler) == {0: 3, 1: 3, 2: 4, 3: 4, 4: 4, 5: 2}


def test_benefit_of_a_change():
    one = running(0, 1, 8, 8, run_ns=1000, cost=AdaptationCost(100))
    # 2 nodes less: 1000 becomes 1333 and 100 of cost; without it, a wait of 1000.
    assert harvest_benefit([one], [one], [2], 0) == pytest.approx(1000 / 433, rel=1e-3)
    small = running(0, 1, 4, 8, run_ns=1000, cost=AdaptationCost(100))
    # 4 nodes more: 2000 becomes 1000 and 100 of cost.
    assert gift_benefit(small, 4, 0) == pytest.approx(900 / 100)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (job(1, 0, 4), "job 1 wants 0 to 4 nodes"),
        (job(1, 5, 4), "job 1 wants 5 to 4 nodes"),
        (job(1, 1, 9), "at most the machine's 8"),
        (job(1, 1, 4, run_ns=-1), "job 1 has no walltime"),
        (job(0, 1, 4), "job 0: runs, and cannot be submitted"),
    ],
)
def test_invalid_jobs_are_refused(wrong, words):
    scheduler = Scheduler(8, SizePolicy(EVEN, FQ))
    submit(scheduler, 0, job(0, 1, 4))
    with pytest.raises(CoschedError, match=words):
        submit(scheduler, 1, wrong)
    with pytest.raises(CoschedError, match="job 7: neither waits nor runs"):
        scheduler.handle(JobEnded(2, 7))


@pytest.mark.parametrize(
    "wrong", [{"harvest_limit": -1}, {"protected_ns": -1}, {"least_benefit": -0.5}]
)
def test_invalid_controls_are_refused(wrong):
    with pytest.raises(CoschedError, match="want 0 or more"):
        Control(**wrong)


def test_invalid_policies_are_refused():
    with pytest.raises(CoschedError, match="degree of multiprogramming 0"):
        SizePolicy(EVEN, FQ, degree=0)


def test_what_does_not_combine_with_sizes_is_refused():
    sizes, elastic = SizePolicy(EVEN, FQ), Elastic(((0, 7),))
    for policy, place, words in (
        (Policy(FCFS, Conservative, sizes), elastic, "with fcfs and easy only"),
        (Policy(WFP, InOrder, sizes), elastic, "combine with fcfs on any nodes only"),
        (
            Policy(FCFS, InOrder, sizes),
            Rows(((0, 7),), 2),
            "combine with fcfs on any nodes",
        ),
        (Policy(FCFS, Conservative), elastic, "need a policy of sizes"),
    ):
        with pytest.raises(CoschedError, match=words):
            QueueMachine(place, policy)
    queue = queue_of(8, sizes)
    with pytest.raises(CoschedError, match="take no jobs with mates"):
        queue.handle(JobSubmitted(0, Job(1, 1, 1, 0, waits_for_mates=True)))
    with pytest.raises(CoschedError, match="need a policy of sizes"):
        queue.handle(SettingsChanged(0, Policy(FCFS, InOrder), None))
