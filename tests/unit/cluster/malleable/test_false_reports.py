"""A program may report any times of its iterations: the queue goes on, and what it plans
for other jobs stays within the limit of that job."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from cosched.core.bounds import NATURAL_MOST
from cosched.core.cluster.queue.forecast import forecast
from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.plans.easy import Easy
from cosched.core.cluster.queue.plans.planner import InOrder
from cosched.core.cluster.queue.queue_events import ResizeDone, Sensed, SizeWanted, Ticked
from cosched.core.cluster.queue.sizes.resizable_run import CHANGES_SHARE
from cosched.core.units import NS_PER_S
from tests.unit.cluster.malleable.test_resizing import Domain, job

IDEAL, LEAST, RUN = 8, 1, 600 * NS_PER_S
#: The latest end of the job, from its start on.
BOUND = RUN * IDEAL / LEAST + RUN * CHANGES_SHARE

NUMBERS = st.one_of(
    st.integers(0, NATURAL_MOST), st.sampled_from([1, 2, NATURAL_MOST - 1, NATURAL_MOST])
)
POINTS = st.lists(
    st.tuples(st.integers(1, IDEAL + 2), NUMBERS), max_size=5, unique_by=lambda one: one[0]
).map(lambda points: tuple(sorted(points)))
STEPS = st.one_of(
    st.tuples(st.just("sense"), st.integers(1, IDEAL), NUMBERS, NUMBERS),
    st.tuples(st.just("predict"), POINTS),
    st.tuples(st.just("submit"), st.integers(1, IDEAL)),
    st.tuples(st.just("done")),
)
#: The time on 6 nodes was interpolated: it was rounded to 0.
ROUNDED = ("predict", ((1, NATURAL_MOST - 1), (6, 1), (8, NATURAL_MOST)))
#: On one node the job would need far more time than it has left.
ENDLESS = [("predict", ((1, NATURAL_MOST), (8, 1))), ("submit", 7), ("done",)]
#: The job gave a node by its program's model, which it then took back.
WITHDRAWN = [("predict", ((1, 3), (8, 1))), ("submit", 1), ("predict", ())]


@given(st.sampled_from([InOrder, Easy]), st.lists(STEPS, max_size=12))
@example(InOrder, [("submit", 2), ROUNDED, ("done",)])
@example(InOrder, ENDLESS)
@example(Easy, ENDLESS)
@example(InOrder, WITHDRAWN)
def test_plans_for_others_stay_within_the_limit_of_the_job(plan, steps):
    domain = Domain(8, plan=plan)
    domain.submit(0, job(0, LEAST, IDEAL, RUN))
    now, others = 0, 0
    for step in steps:
        now += NS_PER_S
        change = domain.queue.place.changes.get(0)
        match step:
            case ("sense", size, iterations, exec_ns):
                domain(Sensed(now, 0, size, iterations, exec_ns, 0))
            case ("predict", points):
                domain(SizeWanted(now, 0, 0, IDEAL, 0, points))
            case ("submit", nodes):
                others += 1
                domain.submit(now, Job(others, nodes, RUN, now))
            case ("done",) if change is not None:
                domain(ResizeDone(now, 0, change.after, 0))
        domain(Ticked(now))
        run = domain.queue.place.running[0]
        assert all(run.end_with_ns(size, now) <= BOUND for size in range(1, IDEAL + 1))
    domain.submit(now, Job(others + 1, IDEAL, RUN, now))
    starts = forecast(domain.queue, now)
    assert max(starts.values()) <= BOUND + RUN * (others + 1)
