"""Jobs of which the queue knows less than the simulator."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.order import FCFS
from cosched.core.cluster.queue.places.elastic import Elastic
from cosched.core.cluster.queue.plans.easy import Easy
from cosched.core.cluster.queue.plans.planner import InOrder
from cosched.core.cluster.queue.policies import Policy
from cosched.core.cluster.queue.queue_events import Sensed, SizeWanted
from cosched.core.cluster.queue.sizes.execution import linear, parabolic
from cosched.core.cluster.queue.sizes.harvest_policies import EVEN
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob
from cosched.core.cluster.queue.sizes.settings import Distribution, SizePolicy
from cosched.core.errors import CoschedError
from cosched.sim.malleable.driver import MalleableDomain, simulate
from cosched.sim.malleable.true_times import KNOWN, Knowledge, OwnCourses, knowledge_of
from cosched.sim.virtual_time import VirtualTime
from tests.unit.cluster.malleable.malleable_streams import (
    MOMENT,
    Watched,
    policies,
    streams,
    work_done,
)

FR = SizePolicy(EVEN, Distribution.FAVOUR_RUNNING)
KNOWLEDGE = [Knowledge("fit"), Knowledge("0%", 0), Knowledge("30%", 30)]
S = 1_000_000_000


def job(number, minimum, ideal, run_s, submit_s=0, execution=parabolic):
    return MalleableJob(
        number, ideal, run_s * S, submit_s * S, minimum=minimum, execution=execution
    )


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("known", KNOWN),
        ("fit", Knowledge("fit")),
        ("5%", Knowledge("5%", 5)),
        ("07", Knowledge("7%", 7)),
    ],
)
def test_words_of_knowledge(word, wanted):
    assert knowledge_of(word) == wanted


@pytest.mark.parametrize("word", ["", "100%", "-1", "1.5%", "guess", "12345678901%"])
def test_other_words_get_one_line(word):
    with pytest.raises(CoschedError, match="is neither known, fit nor a percentage"):
        knowledge_of(word)


@pytest.mark.parametrize("knowledge", KNOWLEDGE, ids=lambda each: each.name)
def test_jobs_end_by_their_true_model_whatever_the_queue_expects(knowledge):
    """The first job loses half of its nodes at 50 s: by the parabola the rest of its work
    takes 1.25 times as long, not twice."""
    jobs = [job(0, 2, 8, 100), job(1, 4, 4, 20, 50, linear)]
    schedule = simulate(jobs, 8, FR, InOrder, knowledge)
    left_s = 50 - 20 / 1.25  # at 70 s, when it has 8 nodes again
    assert list(schedule.start_ns) == [0, 50 * S]
    assert schedule.end_ns[1] == 70 * S
    assert schedule.end_ns[0] == pytest.approx((70 + left_s) * S)


class Heard(QueueMachine):
    """A queue that keeps the reports of programs."""

    def __init__(self, nodes):
        super().__init__(Elastic(((0, nodes - 1),)), Policy(FCFS, InOrder, FR))
        self.reports = []

    def handle(self, event):
        if isinstance(event, (Sensed, SizeWanted)):
            self.reports.append(event)
        return super().handle(event)


def reports(jobs, nodes, knowledge, seed=0):
    """Returns the queue and what programs report to it."""
    engine, queue = VirtualTime(), Heard(nodes)
    courses = OwnCourses(engine, queue, jobs, knowledge, seed)
    MalleableDomain(engine, jobs, queue, courses)
    engine.run(lambda: None)
    return queue.reports


def test_iterations_are_measured_on_each_size_once():
    jobs = [job(0, 2, 8, 100), job(1, 4, 4, 20, 50, linear)]
    found = reports(jobs, 8, Knowledge("fit"))
    assert [(each.number, each.size) for each in found] == [(0, 8), (0, 4)]
    assert [each.exec_ns / S for each in found] == pytest.approx([0.1, 0.125])


def test_exact_predictions_are_the_true_times():
    (found,) = reports([job(0, 2, 8, 100)], 8, Knowledge("0%", 0))
    assert [size for size, _ in found.predicted] == list(range(2, 9))
    for size, time_ns in found.predicted:
        assert time_ns == pytest.approx(0.1 * S * parabolic(size, 8), abs=1)


def test_errors_of_predictions_are_drawn_and_bounded():
    one = [job(0, 1, 60, 100, execution=linear)]
    first, same, other = (
        reports(one, 60, Knowledge("10%", 10), seed)[0].predicted for seed in (1, 1, 2)
    )
    assert first == same != other
    errors = [time_ns / (0.1 * S * 60 / size) - 1 for size, time_ns in first]
    assert max(map(abs, errors)) <= 0.1 + 1e-6
    assert min(errors) < -0.02
    assert max(errors) > 0.02


@given(
    stream=streams(), policy=policies(), knowledge=st.sampled_from(KNOWLEDGE),
    seed=st.integers(0, 3),
)  # fmt: skip
@settings(deadline=None, max_examples=60)
def test_each_job_does_its_work(stream, policy, knowledge, seed):
    jobs, nodes = stream
    engine = VirtualTime()
    watched = Watched(nodes, policy)
    courses = OwnCourses(engine, watched, jobs, knowledge, seed)
    domain = MalleableDomain(engine, jobs, watched, courses)
    engine.run(lambda: None)
    assert watched.started == [each.number for each in jobs]
    for each in jobs:
        history = watched.history[each.number]
        assert history[-1] == (domain.schedule.end_ns[each.number], 0)
        if each.walltime_ns > MOMENT:
            assert work_done(each, history) == pytest.approx(1.0, abs=1e-4)


@given(stream=streams(), knowledge=st.sampled_from(KNOWLEDGE))
@settings(deadline=None, max_examples=60)
def test_all_jobs_end_under_easy_with_less_knowledge(stream, knowledge):
    jobs, nodes = stream
    sizes = SizePolicy(EVEN, Distribution.FAVOUR_QUEUED)
    schedule = simulate(jobs, nodes, sizes, Easy, knowledge)
    for each in jobs:
        start_ns, end_ns = schedule.start_ns[each.number], schedule.end_ns[each.number]
        assert each.submit_ns <= start_ns < end_ns
