"""Changes of size that take time, by examples that can be checked by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.cluster.queue.forecast import forecast
from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.order import FCFS
from cosched.core.cluster.queue.places.elastic import Elastic
from cosched.core.cluster.queue.places.ledger import Ledger
from cosched.core.cluster.queue.plans.easy import Easy
from cosched.core.cluster.queue.plans.planner import InOrder
from cosched.core.cluster.queue.policies import POLICIES, Policy
from cosched.core.cluster.queue.queue_commands import (
    EndJob,
    ResizeJob,
    StartJob,
    WakeAt,
    Why,
    WithdrawResize,
)
from cosched.core.cluster.queue.queue_events import (
    BoundsChanged,
    JobCancelled,
    JobEnded,
    JobRecovered,
    JobSubmitted,
    NodesDrained,
    NodesJoined,
    NodesLost,
    NodesRemoved,
    ResizeDone,
    ResizeLate,
    ResizeRefused,
    Sensed,
    SettingsChanged,
    SizeWanted,
    Ticked,
)
from cosched.core.cluster.queue.sizes.execution import linear
from cosched.core.cluster.queue.sizes.fit import FittedExecution, fit
from cosched.core.cluster.queue.sizes.harvest_policies import EVEN, NEVER
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob
from cosched.core.cluster.queue.sizes.resizable_run import (
    WISH_PAUSE_NS,
    WISHES_AT_ONCE,
    ResizableRun,
    Wants,
)
from cosched.core.cluster.queue.sizes.settings import Control, Distribution, SizePolicy
from cosched.core.cluster.queue.sizes.suspension import Suspended
from cosched.core.cluster.queue.states import State
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S

FR, FQ = Distribution.FAVOUR_RUNNING, Distribution.FAVOUR_QUEUED


def job(number, minimum, ideal, run_ns=1000):
    return MalleableJob(number, ideal, run_ns, number, minimum=minimum)


class Domain:
    """A queue and the commands of its last event and tick, without wake-ups."""

    def __init__(self, nodes=8, grace=None, plan=InOrder, **control):
        sizes = SizePolicy(EVEN, FR, control=Control(**control))
        place = Elastic(((0, nodes - 1),))
        self.queue = QueueMachine(place, Policy(FCFS, plan, sizes), grace)

    def __call__(self, event):
        commands = [*self.queue.handle(event), *self.queue.handle(Ticked(event.now_ns))]
        return [command for command in commands if not isinstance(command, WakeAt)]

    def submit(self, now_ns, *jobs):
        return [command for each in jobs for command in self(JobSubmitted(now_ns, each))]

    def nodes(self, number):
        return self.queue.jobs[number].nodes

    def state(self, number):
        return self.queue.jobs.state(number)

    @property
    def waiting(self):
        return [each.number for each in self.queue.waiting]


def test_start_waits_for_its_nodes_and_no_later_job_gets_them():
    domain = Domain()
    domain.submit(0, job(0, 2, 8))
    new = job(1, 3, 3)
    assert domain.submit(10, new) == [ResizeJob(0, ((0, 4),))]
    assert domain.submit(11, Job(2, 8, 9, 2)) == []
    assert domain.state(0) is State.RESIZING
    assert domain.nodes(0) == ((0, 7),)
    assert domain.waiting == [1, 2]
    assert domain(ResizeDone(20, 0, ((0, 4),), 3)) == [StartJob(new, ((5, 7),))]
    assert domain.nodes(0) == ((0, 4),)
    assert domain.state(0) is State.RUNNING
    assert domain.waiting == [2]


def test_promised_jobs_start_in_order_as_the_nodes_come():
    """Jobs 3 and 4 are promised nodes of 0 and 1. Job 4 would fit first."""
    domain = Domain()
    domain.submit(0, job(0, 1, 4), job(1, 1, 4), Job(2, 8, 9, 2))
    first, second = Job(3, 3, 9, 3), Job(4, 1, 9, 4)
    assert domain.submit(10, first, second) == []
    assert domain(JobCancelled(20, 2)) == [
        ResizeJob(0, ((0, 0),)),
        ResizeJob(1, ((4, 6),)),
    ]
    assert domain(ResizeDone(30, 1, ((4, 6),), 1)) == []
    assert domain.queue.place.free == 1
    assert domain(ResizeDone(31, 0, ((0, 0),), 1)) == [
        StartJob(first, ((1, 3),)),
        StartJob(second, ((7, 7),)),
    ]


def test_promised_start_is_cancelled():
    domain = Domain()
    domain.submit(0, job(0, 2, 8), Job(1, 3, 9, 1))
    assert domain.waiting == [1]
    assert domain(JobCancelled(10, 1)) == []
    assert domain.waiting == []
    # It grows back once it may.
    assert domain(ResizeDone(20, 0, ((0, 4),), 3)) == [ResizeJob(0, ((0, 7),))]


def test_growth_waits_behind_a_promised_start():
    """Job 3 gets the nodes of job 2 instead of those that job 0 gives up; job 4 gets
    these."""
    domain = Domain(nodes=10)
    domain.submit(0, job(0, 1, 3), Job(1, 4, 9, 1), Job(2, 2, 9, 2), job(4, 1, 3))
    new = Job(5, 6, 9, 5)
    domain.submit(1, new)
    assert domain(JobEnded(10, 1)) == [ResizeJob(0, ((0, 0),))]
    assert domain(JobEnded(20, 2)) == [StartJob(new, ((3, 8),))]
    assert domain.queue.place.free == 0
    assert domain(ResizeDone(30, 0, ((0, 0),), 1)) == [ResizeJob(4, ((1, 2), (9, 9)))]


def test_refused_job_is_spared_and_the_start_looks_elsewhere():
    domain = Domain(spared_ns=100)
    domain.submit(0, job(0, 1, 4), job(1, 1, 4))
    new = job(2, 2, 2)
    asked = domain.submit(10, new)
    assert asked == [ResizeJob(0, ((0, 2),)), ResizeJob(1, ((4, 6),))]
    assert domain(ResizeDone(15, 1, ((4, 6),), 0)) == []
    assert domain(ResizeRefused(20, 0)) == [ResizeJob(1, ((4, 5),))]
    assert domain.nodes(0) == ((0, 3),)
    assert domain(ResizeDone(25, 1, ((4, 5),), 0)) == [StartJob(new, ((6, 7),))]


def test_late_change_is_given_up_and_may_be_done_after_all():
    domain = Domain(change_ns=50, spared_ns=100)
    domain.submit(0, job(0, 1, 4), job(1, 1, 4))
    new = job(2, 1, 1)
    assert domain.submit(10, new) == [ResizeJob(0, ((0, 2),), 60)]
    assert domain.queue.wake_ns == 60
    assert domain(Ticked(59)) == []
    assert domain(Ticked(60)) == [WithdrawResize(0), ResizeJob(1, ((4, 6),), 110)]
    assert domain(ResizeLate(61, 0)) == []  # it is known
    assert domain(ResizeDone(70, 1, ((4, 6),), 0)) == [StartJob(new, ((7, 7),))]
    assert domain.state(0) is State.RESIZING
    assert domain.nodes(0) == ((0, 3),)
    assert domain(ResizeDone(80, 0, ((0, 2),), 0)) == [ResizeJob(1, ((3, 6),), 130)]


def test_spared_job_gives_nodes_again_without_an_event():
    domain = Domain(nodes=4, spared_ns=100)
    domain.submit(0, job(0, 1, 4))
    domain.submit(10, job(1, 2, 2))
    assert domain(ResizeRefused(20, 0)) == []
    assert domain.queue.wake_ns == 120
    assert domain(Ticked(120)) == [ResizeJob(0, ((0, 1),))]


def test_arriving_nodes_are_the_jobs_own_until_it_refuses_them():
    domain = Domain()
    domain.submit(0, job(0, 4, 4), job(1, 2, 6))
    assert domain(JobEnded(10, 0)) == [ResizeJob(1, ((0, 1), (4, 7)))]
    assert domain.nodes(1) == ((0, 1), (4, 7))
    assert domain.queue.place.free == 2
    domain(ResizeRefused(20, 1))
    assert domain.nodes(1) == ((4, 7),)
    assert domain.queue.place.free == 4


@pytest.mark.parametrize(
    ("amount", "kept"),
    [
        (1, ((0, 3), (5, 5))),  # a part of the last growth
        (2, ((0, 2), (5, 5))),  # the last growth
        (3, ((0, 1), (5, 5))),  # and a part of the first one
        (5, ((5, 5),)),
    ],
)
def test_whole_growths_leave_last_first(amount, kept):
    """Job 2 began on node 5, and grew by 0-2, then by 3 and 4."""
    domain = Domain(nodes=6)
    domain.submit(0, Job(0, 3, 9, 0), Job(1, 2, 9, 1), job(2, 1, 6))
    domain(JobEnded(1, 0))
    domain(ResizeDone(2, 2, ((0, 2), (5, 5)), 1))
    domain(JobEnded(3, 1))
    domain(ResizeDone(4, 2, ((0, 5),), 1))
    assert domain.submit(5, Job(3, amount, 9, 3)) == [ResizeJob(2, kept)]


def test_drained_node_makes_a_job_smaller_first():
    domain = Domain(nodes=4)
    domain.submit(0, job(0, 1, 4))
    assert domain(NodesDrained(10, ((1, 1),))) == [ResizeJob(0, ((0, 0), (2, 3)))]
    domain(ResizeDone(20, 0, ((0, 0), (2, 3)), 0))
    assert domain.queue.place.free == 0
    assert domain(NodesDrained(30, ((0, 0),))) == []  # its first node stays
    assert domain(NodesJoined(40, ((0, 1),))) == [ResizeJob(0, ((0, 3),))]


@pytest.mark.parametrize("plan", [InOrder, Easy])
def test_removed_nodes_are_no_part_of_the_domain(plan):
    domain = Domain(4, plan=plan)
    domain.submit(0, job(0, 1, 4))
    domain(NodesDrained(1, ((3, 3),)))
    domain(ResizeDone(2, 0, ((0, 2),), 0))
    domain.submit(3, Job(1, 4, 9, 3))
    domain(NodesRemoved(4, ((3, 3),)))
    place = domain.queue.place
    assert (place.total, place.capacity, place._unwanted) == (3, 3, ())
    with pytest.raises(CoschedError, match="at most the machine's 3"):
        domain(BoundsChanged(5, 0, 4, 4))
    assert domain.submit(6, job(2, 1, 1)) == [ResizeJob(0, ((0, 1),))], "1 waits on"
    (start,) = domain(ResizeDone(7, 0, ((0, 1),), 0))
    assert (start.job.number, start.nodes) == (2, ((2, 2),))


def test_lost_node_ends_its_job_but_not_one_to_which_it_was_to_come():
    domain = Domain()
    domain.submit(0, job(0, 4, 4), job(1, 2, 6))
    domain(JobEnded(10, 0))
    assert domain(NodesLost(11, ((0, 0),))) == [WithdrawResize(1)]
    domain(ResizeRefused(12, 1))
    assert domain.state(1) is State.RUNNING
    assert domain(NodesLost(13, ((5, 5),))) == [EndJob(1, Why.NODE_LOST)]


def test_lost_node_that_came_after_all_ends_its_job():
    domain = Domain()
    domain.submit(0, job(0, 4, 4), job(1, 2, 6))
    domain(JobEnded(10, 0))
    domain(NodesLost(11, ((0, 0),)))
    ended = domain(ResizeDone(12, 1, ((0, 1), (4, 7)), 0))
    assert ended == [EndJob(1, Why.NODE_LOST)]


def test_change_that_ended_otherwise_is_taken_if_it_can_be():
    domain = Domain()
    domain.submit(0, job(0, 2, 8), Job(1, 3, 9, 1))
    for nodes, words in [
        (((1, 5),), "want its first node"),
        (((0, 0),), "and 2 to 8 nodes"),
        (((0, 8),), "ordered to have 0-4"),
    ]:
        with pytest.raises(CoschedError, match=words):
            domain(ResizeDone(5, 0, nodes, 0))
    with pytest.raises(CoschedError, match="job 1: no change of its size is open"):
        domain(ResizeRefused(5, 1))
    assert domain.state(0) is State.RESIZING
    # Two other nodes left, of three: the queue orders the third one.
    assert domain(ResizeDone(9, 0, ((0, 1), (4, 7)), 0)) == [ResizeJob(0, ((0, 1), (4, 6)))]


def test_resize_does_not_count_against_the_walltime():
    """Half the nodes at half of its time: it may take twice as long from then on."""
    domain = Domain(grace=10)
    domain.submit(0, job(0, 1, 8))
    assert domain.queue.jobs[0].limit_ns == 1010
    domain.submit(500, Job(1, 4, 100, 1))
    domain(ResizeDone(540, 0, ((0, 3),), 40))
    assert domain.queue.jobs[0].limit_ns == 500 + 40 + 1000 + 10
    domain(JobEnded(600, 1))
    domain(ResizeDone(600, 0, ((0, 7),), 0))
    assert domain.queue.jobs[0].limit_ns == 1550
    assert domain(Ticked(1549)) == []
    assert domain(Ticked(1550)) == [EndJob(0, Why.WALLTIME)]


def test_measured_cost_replaces_the_expected_one():
    domain = Domain()
    domain.submit(0, job(0, 1, 8), Job(1, 4, 100, 1))
    domain(ResizeDone(10, 0, ((0, 3),), 8))
    run = domain.queue.planner.running[0]
    # Alone until it stood still at 2, and with half the nodes from 10 on.
    assert run.end_ns == 10 + 2 * (1000 - 2)
    assert run.cost.ns(4, 3) == 8
    domain(JobEnded(20, 1))
    domain(ResizeDone(50, 0, ((0, 7),), 20))
    assert run.cost.ns(8, 7) == 8
    assert run.cost.ns(4, 8) == 20


def test_recovered_jobs_have_their_nodes_and_change_again():
    domain = Domain(grace=10)
    domain(NodesDrained(0, ((0, 7),)))
    domain(JobRecovered(100, job(0, 2, 4), ((0, 2),), 50))
    with pytest.raises(CoschedError, match="cannot have nodes 2, which job 0 has"):
        domain(JobRecovered(100, Job(1, 2, 9, 0), ((2, 3),), 50))
    assert domain(JobRecovered(100, Job(1, 1, 9, 0), ((3, 3),), 95)) == []
    # With its minimum it might take twice its time.
    assert domain.queue.jobs[0].limit_ns == 50 + 2000 + 10
    assert domain(NodesJoined(110, ((0, 4),))) == [ResizeJob(0, ((0, 2), (4, 4)))]


def test_no_job_counts_on_nodes_out_of_service_that_another_one_gives():
    domain = Domain()
    domain(NodesDrained(0, ((0, 7),)))
    domain(JobRecovered(0, job(0, 7, 7), ((0, 6),), 0))
    domain(NodesJoined(0, ((0, 5), (7, 7))))
    domain.queue.handle(BoundsChanged(1, 0, 1, 1))
    new = job(1, 5, 7)
    assert domain.submit(2, new) == [ResizeJob(0, ((0, 0),))]
    place = domain.queue.place
    assert place.running[1].size == place.free + place.coming == 6
    done = ResizeDone(3, 0, ((0, 0),), 0)
    assert domain(done) == [StartJob(new, ((1, 5), (7, 7)))]


def test_restored_job_keeps_the_first_node_of_its_start():
    domain = Domain(nodes=4)
    domain(JobRecovered(5, job(0, 1, 4), ((0, 3),), 0, (((2, 3),), ((0, 1),))))
    assert domain.submit(6, Job(1, 3, 9, 1)) == [ResizeJob(0, ((2, 2),))]


def test_changed_settings_keep_running_jobs_and_open_changes():
    domain = Domain()
    domain.submit(0, job(0, 2, 8), Job(1, 3, 9, 1))
    counts = replace(domain.queue.planner.counts)
    policy = Policy(FCFS, InOrder, SizePolicy(NEVER, FQ))
    assert domain(SettingsChanged(10, policy, None)) == []
    assert domain.queue.planner.counts.passes == counts.passes + 1
    assert domain.queue.planner.counts.requests == counts.requests == 1
    assert domain.waiting == [1]
    done = domain(ResizeDone(20, 0, ((0, 4),), 1))
    assert done == [StartJob(Job(1, 3, 9, 1), ((5, 7),))]


def test_forecast_expects_changes_at_once():
    domain = Domain()
    domain.submit(0, job(0, 4, 8), Job(1, 3, 9, 1), Job(2, 4, 9, 2))
    assert forecast(domain.queue, 5) == {1: 5, 2: 14}


def test_execution_is_fitted_to_two_sizes():
    assert fit({4: 100.0}) is None
    truth = FittedExecution(800.0, 5.0)
    fitted = fit({size: truth.time_ns(size) for size in (2, 4, 8)})
    assert fitted.time_ns(16) == pytest.approx(truth.time_ns(16))
    assert fitted(8, 8) == 1.0
    assert fit({2: 50.0, 4: 20.0}).growing_ns == 0.0
    assert fit({2: 20.0, 4: 50.0}).shared_ns == 0.0


NS = st.integers(1, 10**18)


def test_times_that_are_too_far_apart_are_not_fitted():
    assert fit({1: 1, 2: 10**10}) is None
    assert fit({1: 10**10, 2: 1}) is None


@given(st.dictionaries(st.integers(1, 10**6), NS, min_size=2, max_size=5))
def test_fit_of_any_times_gives_positive_times(times_ns):
    fitted = fit(times_ns)
    if fitted is None:
        return
    assert fitted.shared_ns >= 0.0
    assert fitted.growing_ns >= 0.0
    for size in times_ns:
        assert 0.0 < fitted(size, max(times_ns)) < math.inf


@given(st.lists(st.tuples(st.integers(0, 12), NS, NS), max_size=6))
def test_any_sensed_times_leave_a_model(sensed):
    """Only sizes from 2 to 8 are the job's."""
    run = ResizableRun(job(0, 2, 8), 8, 0)
    for each in sensed:
        run.sense(*each)
    assert 0.0 < run.execution(4, 8) < math.inf
    known = {size for size, _, _ in sensed if 2 <= size <= 8}
    if len(known) < 2:
        assert run.execution is linear


@pytest.mark.parametrize(("cost_ns", "counts_ns"), [(1 << 62, 20), (-5, 0), (15, 15)])
def test_reported_cost_is_at_most_the_time_since_the_order(cost_ns, counts_ns):
    run = ResizableRun(job(0, 2, 8), 8, 0)
    run.settle(0)
    run.size = 4
    run.order(100)
    run.finish(120, 4, cost_ns)
    assert run.since_ns == 120
    assert run.end_ns == 120 + 2 * (1000 - (120 - counts_ns))
    assert run.cost.ns(8, 4) == counts_ns


def test_sensed_iterations_replace_the_model_of_the_job():
    domain = Domain()
    domain.submit(0, job(0, 1, 8))
    run = domain.queue.planner.running[0]
    domain(Sensed(10, 0, 8, 10, 1400, 0))
    assert run.execution(4, 8) == 2.0  # one size: as the job says
    domain(Sensed(20, 0, 4, 0, 0, 0))
    domain(Sensed(20, 0, 4, 10, 2200, 0))
    assert run.execution(4, 8) == pytest.approx(220 / 140)
    assert run.execution(2, 8) == pytest.approx((800 / 2 + 2 * 5) / 140)
    assert domain(Sensed(30, 7, 4, 1, 1, 0)) == []  # it has ended


def test_job_above_its_new_ideal_gives_nodes_back_at_the_next_pass():
    domain = Domain()
    domain.submit(0, job(0, 2, 8), Job(1, 7, 9, 1))
    assert domain.waiting == [1]
    assert domain(BoundsChanged(10, 0, 2, 3)) == [ResizeJob(0, ((0, 2),))]
    assert domain(JobCancelled(11, 1)) == []
    assert domain(ResizeDone(20, 0, ((0, 2),), 1)) == []
    assert domain.queue.place.free == 5


def test_job_below_its_new_minimum_gets_nodes_before_a_waiting_job_does():
    """Nodes 4 to 7 become free. Job 2 came first, and needs four."""
    domain = Domain()
    domain.submit(0, job(0, 1, 4), Job(1, 4, 9, 1), Job(2, 4, 9, 2))
    assert domain(BoundsChanged(10, 0, 6, 6)) == []
    assert domain(JobEnded(20, 1)) == [ResizeJob(0, ((0, 5),))]
    assert domain.waiting == [2]


def test_job_below_its_new_minimum_gets_nodes_of_another_job():
    domain = Domain()
    domain.submit(0, job(0, 1, 4), job(1, 1, 4))
    assert domain(BoundsChanged(10, 0, 6, 8)) == [ResizeJob(1, ((4, 5),))]
    assert domain(ResizeDone(20, 1, ((4, 5),), 1)) == [ResizeJob(0, ((0, 3), (6, 7)))]


def test_job_that_lacks_more_than_there_is_gets_what_is_free():
    domain = Domain()
    domain.submit(0, job(0, 1, 2), Job(1, 5, 9, 1))
    assert domain(BoundsChanged(10, 0, 6, 6)) == [ResizeJob(0, ((0, 1), (7, 7)))]
    assert domain(ResizeDone(20, 0, ((0, 1), (7, 7)), 1)) == []
    assert domain(JobEnded(30, 1)) == [ResizeJob(0, ((0, 4), (7, 7)))]


def test_no_job_takes_nodes_from_one_below_its_minimum():
    domain = Domain()
    domain.submit(0, job(0, 1, 4), job(1, 1, 4))
    domain(BoundsChanged(10, 0, 6, 6))
    domain(ResizeRefused(11, 1))
    assert domain.queue.place.running[0].size == 4
    assert domain.submit(12, job(2, 2, 2)) == []


def test_bounds_that_change_during_a_change_follow_its_end():
    domain = Domain()
    domain.submit(0, job(0, 2, 8), Job(1, 3, 9, 1))
    assert domain.nodes(0) == ((0, 7),)
    assert domain(BoundsChanged(10, 0, 1, 2)) == []
    starts = domain(ResizeDone(20, 0, ((0, 4),), 1))
    assert [type(each) for each in starts] == [ResizeJob, StartJob]
    assert starts[0] == ResizeJob(0, ((0, 1),))


def test_waiting_job_gets_other_bounds_and_keeps_its_place():
    domain = Domain()
    domain.submit(0, Job(0, 6, 9, 0), job(1, 4, 4), job(2, 4, 4))
    assert domain.waiting == [1, 2]
    started = domain(BoundsChanged(10, 1, 1, 2))
    assert [each.nodes for each in started] == [((6, 7),)]
    assert started[0].job.walltime_ns == 2000  # the same work on half the nodes
    assert domain.waiting == [2]


def test_promised_job_gets_other_bounds():
    domain = Domain()
    domain.submit(0, job(0, 2, 8), job(1, 3, 3))
    assert domain(BoundsChanged(10, 1, 5, 6)) == []
    assert domain.waiting == [1]
    # Three nodes come, and it needs five: two more leave.
    assert domain(ResizeDone(20, 0, ((0, 4),), 1)) == [ResizeJob(0, ((0, 2),))]
    assert [each.nodes for each in domain(ResizeDone(30, 0, ((0, 2),), 1))] == [((3, 7),)]


def test_expected_end_and_limit_stay_when_bounds_change():
    domain = Domain(grace=10)
    domain.submit(0, job(0, 1, 8))
    domain(BoundsChanged(10, 0, 8, 8))
    assert domain.queue.place.ends == [(1000, 0, 8)]
    assert domain.queue.jobs[0].limit_ns == 1010
    domain(BoundsChanged(20, 0, 1, 4))
    domain(ResizeDone(20, 0, ((0, 3),), 0))
    assert domain.queue.place.ends == [(1980, 0, 4)]
    assert domain.queue.jobs[0].limit_ns == 1990


@pytest.mark.parametrize(
    ("number", "minimum", "ideal", "reason"),
    [
        (0, 0, 4, "job 0 wants 0 to 4 nodes"),
        (0, 5, 4, "job 0 wants 5 to 4 nodes"),
        (0, 1, 9, "job 0 wants 1 to 9 nodes; .* at most the machine's 8"),
        (1, 1, 2, "job 1: is rigid"),
        (2, 1, 2, "job 2: was ordered to end, and cannot be given other bounds"),
        (3, 1, 2, "job 3: neither waits nor runs, and cannot be given other bounds"),
    ],
)
def test_bounds_that_are_refused(number, minimum, ideal, reason):
    domain = Domain()
    domain.submit(0, job(0, 1, 3), Job(1, 2, 9, 1), job(2, 1, 3))
    domain(JobCancelled(5, 2))
    before = dict(domain.queue.jobs)
    with pytest.raises(CoschedError, match=reason):
        domain(BoundsChanged(10, number, minimum, ideal))
    assert dict(domain.queue.jobs) == before


def test_queue_of_rigid_jobs_has_no_bounds():
    queue = QueueMachine(Ledger(((0, 7),)), POLICIES["fcfs"])
    queue.handle(JobSubmitted(0, Job(0, 2, 9, 0)))
    with pytest.raises(CoschedError, match="job 0: its queue changes no sizes"):
        queue.handle(BoundsChanged(1, 0, 1, 2))


def test_job_outside_its_bounds_is_recovered_and_meets_them():
    """Its bounds changed, and the controller restarted before the job did."""
    domain = Domain()
    assert domain(JobRecovered(100, job(0, 2, 4), ((0, 5),), 50)) == [
        ResizeJob(0, ((0, 3),))
    ]


def test_open_change_is_recovered_and_goes_on():
    domain = Domain()
    growths = (((5, 5),), ((0, 1),))
    event = JobRecovered(100, job(0, 1, 8), ((0, 1), (5, 5)), 50, growths, ((0, 0), (5, 7)))
    assert domain(event) == []
    assert domain.state(0) is State.RESIZING
    assert domain.nodes(0) == ((0, 1), (5, 7))
    assert domain.queue.place.free == 3
    assert domain(ResizeRefused(110, 0)) == []
    assert domain.queue.place.free == 5
    domain = Domain()
    domain(event)
    domain(ResizeDone(110, 0, ((0, 0), (5, 7)), 2))
    assert domain.queue.place._growths._of[0] == [((5, 5),), ((0, 0),), ((6, 7),)]


def test_recovered_change_is_late_in_its_time():
    domain = Domain()
    event = JobRecovered(100, job(0, 1, 8), ((0, 3),), 50, (), ((0, 1),), by_ns=120)
    assert domain(event) == []
    assert domain(Ticked(120)) == [WithdrawResize(0)]


@pytest.mark.parametrize(
    ("ordered", "suspension", "words"),
    [
        (((1, 3),), None, "cannot change to nodes 1-3"),
        (((0, 8),), None, "cannot change to nodes 0-8"),
        (((0, 5),), None, "cannot have nodes 5, which job 1 has"),
        (((0, 1),), Suspended(2, 60, False, 1, 0), "is suspended, so its size is fixed"),
    ],
)
def test_change_that_cannot_be_is_not_recovered(ordered, suspension, words):
    domain = Domain()
    domain(JobRecovered(90, Job(1, 3, 90, 0), ((5, 7),), 40))
    event = JobRecovered(100, job(0, 1, 4), ((0, 3),), 50, (), ordered)
    with pytest.raises(CoschedError, match=f"^job 0: {words}"):
        domain(msgspec.structs.replace(event, suspension=suspension))
    assert domain.queue.place.free == 5
    assert domain.state(0) is State.ABSENT
    # Without the change it is recovered as if nothing had come before.
    domain(msgspec.structs.replace(event, ordered=None))
    assert domain.nodes(0) == ((0, 3),)


def test_changes_are_explained():
    domain = Domain()
    domain.submit(0, job(0, 1, 8))
    domain.submit(10, job(31, 4, 4))
    harvest = "gave 4 nodes to job 31: its minimum was 4, 0 were free"
    assert domain.queue.why_resized(0) == harvest
    domain(ResizeDone(20, 0, ((0, 3),), 0))
    domain(JobEnded(30, 31))
    assert domain.queue.why_resized(0) == "got 4 free nodes"
    domain(ResizeDone(40, 0, ((0, 7),), 0))
    domain(BoundsChanged(50, 0, 1, 7))
    assert domain.queue.why_resized(0) == "gave 1 node: it wants 7 at most"
    domain(ResizeDone(60, 0, ((0, 6),), 0))
    domain(NodesDrained(70, ((2, 2), (7, 7))))
    assert domain.queue.why_resized(0) == "gave 1 node out of service"
    domain(ResizeDone(80, 0, ((0, 1), (3, 6)), 0))
    domain(NodesJoined(90, ((7, 7),)))
    assert domain.queue.why_resized(0) == "got 1 free node"


def test_wishes_of_a_program_stay_within_the_bounds_of_its_owner():
    run = ResizableRun(job(0, 2, 6), 4, 0)
    for wants, bounds in [
        (Wants(0, 0, 0), (2, 6)),
        (Wants(1, 9, 0), (2, 6)),
        (Wants(3, 5, 0), (3, 5)),
        (Wants(9, 1, 1), (6, 6)),
        (Wants(0, 5, 4), (2, 4)),
        (Wants(3, 0, 1), (3, 3)),
        (Wants(0, 0, 9), (2, 6)),
    ]:
        run.want(wants)
        assert (run.minimum, run.ideal) == bounds
    run.rebound(job(0, 1, 3))
    assert (run.minimum, run.ideal) == (1, 3)


def test_queue_gives_no_more_nodes_than_the_program_predicts_to_be_fastest():
    """The job wants 3 of 8 nodes by its prediction; another one gets them when it comes."""
    domain = Domain()
    domain.submit(0, job(0, 1, 8))
    points = ((1, 90), (2, 50), (3, 40), (4, 45), (8, 80))
    (order,) = domain(SizeWanted(10, 0, 1, 0, 0, points))
    assert order == ResizeJob(0, ((0, 2),))
    assert domain.queue.why_resized(0) == "gave 5 nodes: it wants 3 at most"
    domain(ResizeDone(20, 0, order.nodes, 0))
    assert domain(SizeWanted(30, 0, 1, 0, 0, points)) == []
    assert domain(SizeWanted(40, 0, 1, 0, 0, ())) == [ResizeJob(0, ((0, 7),))]


def test_program_that_changes_its_wishes_gets_a_change_now_and_then():
    domain = Domain()
    domain.submit(0, job(0, 1, 8, 10_000 * NS_PER_S))
    orders = []
    for second in range(1, 201):
        wanted = 8 if second % 2 else 4
        commands = domain(SizeWanted(second * NS_PER_S, 0, 1, 8, wanted))
        for order in commands:
            orders.append(second)
            domain(ResizeDone(second * NS_PER_S, 0, order.nodes, 0))
    assert orders[:WISHES_AT_ONCE] == list(range(2, WISHES_AT_ONCE + 2))
    paced = 200 * NS_PER_S // WISH_PAUSE_NS
    assert paced // 2 <= len(orders) <= WISHES_AT_ONCE + paced
    assert domain.nodes(0) == ((0, 3),)
    assert domain.submit(200 * NS_PER_S, job(1, 6, 6)) == [], "it waits for the pause"
    at_ns = domain.queue.wake_ns
    assert at_ns <= 200 * NS_PER_S + WISH_PAUSE_NS
    assert domain(Ticked(at_ns)) == [ResizeJob(0, ((0, 1),))], "it gives nodes then"


def test_wish_is_met_after_the_pause():
    domain = Domain()
    domain.submit(0, job(0, 1, 8, 10_000 * NS_PER_S))
    for at in range(WISHES_AT_ONCE):
        (order,) = domain(SizeWanted(at, 0, 1, 8, 4 if at % 2 == 0 else 8))
        domain(ResizeDone(at, 0, order.nodes, 0))
    assert domain(SizeWanted(100, 0, 1, 8, 3)) == [], "it waits"
    at_ns = domain.queue.wake_ns
    assert at_ns <= WISH_PAUSE_NS + 100
    assert domain(Ticked(at_ns)) == [ResizeJob(0, ((0, 2),))]


def test_wish_of_a_rigid_job_changes_nothing():
    domain = Domain()
    domain.submit(0, Job(0, 3, 9, 0))
    assert domain(SizeWanted(10, 0, 1, 8, 2)) == []
    assert domain(SizeWanted(10, 7, 1, 8, 2)) == []  # it has ended
