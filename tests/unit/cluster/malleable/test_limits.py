"""No report of a program puts the limit of its job off for ever."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from cosched.core.cluster.queue.queue_commands import EndJob, Why
from cosched.core.cluster.queue.queue_events import (
    JobRecovered,
    ResizeDone,
    ResizeRefused,
    Sensed,
    SizeWanted,
    Ticked,
)
from cosched.core.cluster.queue.sizes.resizable_run import CHANGES_SHARE, WISH_PAUSE_NS
from cosched.core.cluster.queue.states import LIVE
from cosched.core.units import NS_PER_S
from tests.unit.cluster.malleable.test_resizing import Domain, job

LEAST, IDEAL = 2, 8
GRACE, RUN = 2 * NS_PER_S, 200 * NS_PER_S
#: The latest end of the job, from its start on.
BOUND = RUN * IDEAL / LEAST + RUN * CHANGES_SHARE + GRACE
SIZES = st.integers(0, 9)
TIMES = st.integers(0, 1 << 60)
STEPS = st.one_of(
    st.tuples(st.just("wait"), st.integers(1, 40 * NS_PER_S)),
    st.tuples(st.just("want"), SIZES, SIZES, SIZES),
    st.tuples(st.just("sense"), SIZES, TIMES, TIMES),
    st.tuples(st.just("done"), TIMES),
    st.tuples(st.just("refuse")),
)


def alternating(*between):
    """Returns steps by which a program wants 4 and 8 nodes in turn, and stands still on
    paper. between: steps after each change."""
    steps = []
    for at in range(200):
        wait = ("wait", WISH_PAUSE_NS)
        steps += [("want", 0, 0, (4, 8)[at % 2]), wait, ("done", WISH_PAUSE_NS)]
        steps += [step for make in between for step in make(at)]
    return steps


def forged(at):
    """Returns reports by which the next change doubles the time that is left: work that the
    nodes share before the job shrinks, and work that grows with them before it grows."""
    if at > 15:
        return []
    count = 1000**at
    times = (100, 200) if at % 2 else (200, 100)
    return [
        ("sense", size, count, count * ns) for size, ns in zip((8, 4), times, strict=True)
    ]


class Job:
    """A job whose program reports anything. restarted: its controller found it."""

    def __init__(self, restarted):
        self.domain = Domain(grace=GRACE)
        self.now, self.ended = 0, False
        if restarted:
            self.domain(JobRecovered(0, job(0, LEAST, IDEAL, RUN), ((0, 7),), 0))
        else:
            self.domain.submit(0, job(0, LEAST, IDEAL, RUN))

    def __call__(self, step):
        if self.ended:
            return
        kind, *values = step
        change = self.domain.queue.place.changes.get(0)
        match kind:
            case "wait":
                self.now += values[0]
                self.feed(Ticked(self.now))
            case "want":
                self.feed(SizeWanted(self.now, 0, *values))
            case "sense":
                self.feed(Sensed(self.now, 0, *values, 0))
            case "done" if change is not None:
                self.feed(ResizeDone(self.now, 0, change.after, *values))
            case "refuse" if change is not None:
                self.feed(ResizeRefused(self.now, 0))

    def feed(self, event):
        self.ended = EndJob(0, Why.WALLTIME) in self.domain(event)
        entry = self.domain.queue.jobs[0]
        assert entry.limit_ns <= BOUND
        assert self.ended == (entry.state not in LIVE)


@given(st.booleans(), st.lists(STEPS, max_size=40))
@example(False, alternating())
@example(True, alternating())
@example(False, alternating(forged))
def test_limit_is_bounded_whatever_a_program_reports(restarted, steps):
    run = Job(restarted)
    for step in steps:
        run(step)
    for _ in range(2):
        run(("wait", int(BOUND)))
    assert run.ended


def test_costs_of_changes_count_up_to_their_share():
    run = Job(restarted=False)
    for step in alternating():
        run(step)
    assert run.ended
    stood_ns = run.domain.queue.place.running[0].stood_ns
    limit_ns = run.domain.queue.jobs[0].limit_ns
    assert stood_ns > RUN * CHANGES_SHARE
    assert limit_ns == BOUND
