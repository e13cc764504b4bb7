"""Jobs with a preferred size below their ideal: by hand, and for any stream."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cosched.core.cluster.queue.nodes import count
from cosched.core.cluster.queue.plans.easy import Easy
from cosched.core.cluster.queue.plans.planner import InOrder
from cosched.core.cluster.queue.queue_commands import ResizeJob, StartJob
from cosched.core.cluster.queue.queue_events import (
    JobEnded,
    JobRecovered,
    JobSubmitted,
    Ticked,
)
from cosched.core.cluster.queue.sizes.causes import Cause, Why, reason
from cosched.core.cluster.queue.sizes.dealing import take_evenly, take_least_impact
from cosched.core.cluster.queue.sizes.harvest_policies import EVEN, LOW_IMPACT, NEVER
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob, preferred_nodes
from cosched.core.cluster.queue.sizes.preferred import take_surplus_first
from cosched.core.cluster.queue.sizes.resizable_run import ResizableRun
from cosched.core.cluster.queue.sizes.settings import Distribution, SizePolicy
from cosched.sim.malleable.driver import simulate
from tests.unit.cluster.malleable.malleable_streams import (
    UNCONTROLLED,
    Watched,
    decide,
    policies,
    queue_of,
    run,
    streams,
)

FR, FQ = Distribution.FAVOUR_RUNNING, Distribution.FAVOUR_QUEUED


def job(number, minimum, preferred, ideal, submit_ns=0):
    return MalleableJob(
        number, ideal, 1000, submit_ns, minimum=minimum, preferred=preferred
    )


def submit(queue, now_ns, *jobs):
    for each in jobs:
        queue.handle(JobSubmitted(now_ns, each))
    decide(queue, now_ns)


def sizes(queue):
    return {number: each.size for number, each in queue.planner.running.items()}


@pytest.mark.parametrize(("preferred", "wanted"), [(0, 8), (4, 4), (1, 2), (9, 8)])
def test_a_preferred_size_is_within_the_bounds(preferred, wanted):
    one = job(0, 2, preferred, 8)
    assert preferred_nodes(one) == ResizableRun(one, 8, 0).preferred == wanted


def test_a_lone_job_gets_its_ideal():
    queue = queue_of(8, SizePolicy(EVEN, FR))
    submit(queue, 0, job(0, 1, 4, 8))
    assert sizes(queue) == {0: 8}


def test_a_job_gets_what_it_prefers_of_others_and_no_more():
    """The first one has twice what it prefers; nothing is harvested below that."""
    queue = queue_of(8, SizePolicy(EVEN, FR))
    submit(queue, 0, job(0, 1, 4, 8))
    submit(queue, 1, job(1, 1, 3, 8))
    assert sizes(queue) == {0: 5, 1: 3}


def test_a_cause_names_the_preferred_size():
    queue = queue_of(8, SizePolicy(EVEN, FR))
    submit(queue, 0, job(0, 1, 4, 8))
    queue.handle(JobSubmitted(1, job(1, 1, 3, 8)))
    queue.handle(Ticked(1))
    causes = queue.why_resized(0).split("; ")
    assert causes == [
        "gave 1 node to job 1: its minimum was 1, 0 were free",
        "gave 2 nodes to job 1: it prefers 3, 1 were free",
    ]


def test_jobs_grow_beyond_it_once_nothing_waits():
    queue = queue_of(8, SizePolicy(NEVER, FQ))
    jobs = [job(0, 2, 4, 8), job(1, 2, 4, 8), job(2, 5, 5, 8)]
    submit(queue, 0, *jobs)
    assert sizes(queue) == {0: 4, 1: 4}
    queue.handle(JobEnded(500, 1))
    decide(queue, 500)
    assert sizes(queue) == {0: 4}  # four nodes idle beside a job that waits for five
    submit(queue, 600, job(3, 1, 1, 1))
    queue.handle(JobEnded(900, 0))
    decide(queue, 900)
    assert sizes(queue) == {2: 7, 3: 1}  # it started with five, as long as one waited
    queue.handle(JobEnded(1000, 3))
    decide(queue, 1000)
    assert sizes(queue) == {2: 8}


def test_restored_jobs_have_preferred_sizes_too():
    queue = queue_of(8, SizePolicy(EVEN, FR))
    one = job(0, 1, 4, 8)
    queue.handle(JobRecovered(5, one, ((0, 7),), 0))
    decide(queue, 5)
    queue.handle(JobSubmitted(6, MalleableJob(1, 6, 1000, 6, minimum=2)))
    decide(queue, 6)
    assert sizes(queue) == {0: 4, 1: 4}


@given(
    st.lists(st.tuples(*[st.integers(1, 9)] * 4), min_size=1, max_size=6),
    st.integers(0, 40),
    st.sampled_from([take_evenly, take_least_impact]),
)
def test_surplus_is_taken_first(jobs, wanted, take):
    runs = []
    for number, drawn in enumerate(jobs):
        minimum, preferred, size, ideal = sorted(drawn)
        preferred, size = (size, preferred) if number % 2 else (preferred, size)
        runs.append(ResizableRun(job(number, minimum, preferred, ideal), size, 0))
    amounts = take_surplus_first(take, runs, wanted)
    room = sum(each.size - each.minimum for each in runs)
    assert sum(amounts) == min(wanted, room)
    below = [
        each.size - amount < each.preferred and amount
        for each, amount in zip(runs, amounts, strict=True)
    ]
    for each, amount in zip(runs, amounts, strict=True):
        assert 0 <= amount <= each.size - each.minimum
        if any(below):
            assert amount >= each.surplus


@st.composite
def preferring(draw):
    """A stream, some of whose jobs have a preferred size."""
    jobs, nodes = draw(streams())
    prefer = [replace(each, preferred=draw(st.integers(0, each.size))) for each in jobs]
    return prefer, nodes


class Growths(Watched):
    """Checks that no job has got more than it prefers while another one waits."""

    def handle(self, event):
        before = {number: each.held for number, each in self.planner.running.items()}
        commands = super().handle(event)
        for command in commands:
            if isinstance(command, (StartJob, ResizeJob)) and self.queue.waiting:
                starts = isinstance(command, StartJob)
                number = command.job.number if starts else command.number
                size, had = count(command.nodes), before.get(number, 0)
                if size > had:
                    assert size <= self.planner.running[number].preferred
        return commands


@given(stream=preferring(), policy=policies(UNCONTROLLED))
@settings(deadline=None, max_examples=80)
def test_no_job_grows_beyond_it_while_another_waits(stream, policy):
    jobs, nodes = stream
    schedule, scheduler = run(jobs, nodes, policy, Growths)
    assert scheduler.started == [each.number for each in jobs]
    assert not scheduler.planner.running
    for each in jobs:
        assert schedule.start_ns[each.number] < schedule.end_ns[each.number]


@given(stream=preferring(), harvest=st.sampled_from([EVEN, LOW_IMPACT]))
@settings(deadline=None, max_examples=50)
def test_all_jobs_end_under_easy(stream, harvest):
    jobs, nodes = stream
    schedule = simulate(jobs, nodes, SizePolicy(harvest, FQ), Easy)
    for each in jobs:
        start_ns, end_ns = schedule.start_ns[each.number], schedule.end_ns[each.number]
        assert each.submit_ns <= start_ns < end_ns


@given(stream=streams(), policy=policies())
@settings(deadline=None, max_examples=50)
def test_a_preferred_size_at_the_ideal_changes_nothing(stream, policy):
    jobs, nodes = stream
    same = [replace(each, preferred=each.size) for each in jobs]
    one, other = (simulate(each, nodes, policy, InOrder) for each in (jobs, same))
    assert (one.start_ns, one.end_ns) == (other.start_ns, other.end_ns)


def test_free_nodes_up_to_the_preferred_size_and_beyond_are_added_up():
    gift = Cause(1, Why.GIFT)
    surplus = Cause(-1, Why.SURPLUS, 3, 5)
    gave = "gave 1 node to job 5: it prefers 3, 0 were free"
    assert reason((gift, surplus, gift)) == f"got 2 free nodes; {gave}"
