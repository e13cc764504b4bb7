"""Random small streams of malleable jobs, and a scheduler that is watched all the time."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import strategies as st

from cosched.core.cluster.malleable.execution import AdaptationCost, linear, parabolic
from cosched.core.cluster.malleable.harvest import EVEN, HARVESTS, LOW_IMPACT
from cosched.core.cluster.malleable.messages import (
    JobEnded,
    JobSubmitted,
    MalleableJob,
    StartJob,
)
from cosched.core.cluster.malleable.scheduler import MalleableScheduler
from cosched.core.cluster.malleable.settings import Control, Distribution, Policy
from cosched.sim.engine import Engine
from cosched.sim.malleable.driver import MalleableDomain

#: A moment: long enough that rounding to nanoseconds does not matter.
MOMENT = 1_000_000

COSTS = st.sampled_from(
    [AdaptationCost(), AdaptationCost(MOMENT // 2), AdaptationCost(7, 3 * MOMENT, MOMENT)]
)
CONTROLS = st.builds(
    Control,
    harvest_limit=st.sampled_from([None, 0, 1, 3]),
    protected_ns=st.sampled_from([0, 5 * MOMENT]),
    least_benefit=st.sampled_from([0.0, 0.5, 2.0]),
)
UNCONTROLLED = st.just(Control())


def policies(controls=CONTROLS):
    return st.builds(
        Policy,
        harvest=st.sampled_from(list(HARVESTS.values())),
        distribution=st.sampled_from(list(Distribution)),
        degree=st.sampled_from([None, 1, 2, 4]),
        control=controls,
    )


@st.composite
def streams(draw, most=16):
    """Jobs by time of submission, and the machine's nodes."""
    nodes = draw(st.integers(1, 12))
    jobs, submit = [], 0
    for number in range(draw(st.integers(1, most))):
        submit += draw(st.integers(0, 5)) * MOMENT
        ideal = draw(st.integers(1, nodes))
        jobs.append(
            MalleableJob(
                number=number,
                minimum=draw(st.integers(1, ideal)),
                ideal=ideal,
                run_ns=draw(st.integers(0, 20)) * MOMENT,
                submit_ns=submit,
                execution=draw(st.sampled_from([linear, parabolic])),
                cost=draw(COSTS),
            )
        )
    return jobs, nodes


class Watched(MalleableScheduler):
    """Checks what must hold after every event; keeps who had how many nodes since when."""

    def __init__(self, nodes, policy):
        super().__init__(nodes, policy)
        self.history = defaultdict(list)  # number -> (time, size); 0 at its end
        self.started = []
        self.resizes = 0

    def handle(self, event):
        commands = super().handle(event)
        if isinstance(event, JobEnded):
            self.history[event.number].append((event.now_ns, 0))
        for command in commands:
            self._note(command, event.now_ns)
        self._check(event)
        return commands

    def _note(self, command, now_ns):
        starts = isinstance(command, StartJob)
        number = command.job.number if starts else command.number
        if starts:
            self.started.append(number)
        else:
            before = self.history[number][-1][1]
            assert command.size != before
            self.resizes += 1
        self.history[number].append((now_ns, command.size))
        assert command.end_ns >= now_ns

    def _check(self, event):
        sizes = [job.size for job in self.running.values()]
        assert sum(sizes) + self.free == self.nodes
        assert self.free >= 0
        for number, job in self.running.items():
            assert job.minimum <= job.size <= job.ideal
            assert job.held == job.size == self.history[number][-1][1]
        if isinstance(event, JobSubmitted):
            number = event.job.number
            assert (number in self.running) != any(
                job.number == number for job in self.waiting
            )
        slack = sum(job.size - job.minimum for job in self.running.values())
        assert self._slack == slack
        if self.waiting:
            minimum = self.waiting[0].minimum
            assert minimum > self.free
            if self.policy.control == Control() and self.policy.harvest in (
                EVEN,
                LOW_IMPACT,
            ):
                # Beyond the degree, or not even all slack would do.
                degree = self.policy.degree or self.nodes
                assert len(self.running) >= degree or minimum > self.free + slack


def run(jobs, nodes, policy):
    """The stream under a policy: its schedule and the watched scheduler."""
    engine = Engine()
    scheduler = Watched(nodes, policy)
    domain = MalleableDomain(engine, jobs, scheduler)
    engine.run(lambda: None)
    return domain.schedule, scheduler


def work_done(job, history):
    """Returns the share of a job that its nodes did over time, step by step."""
    done, standing, size, since = 0.0, 0, 0, 0
    for now_ns, new_size in history:
        if size:
            passed = now_ns - since
            worked = max(0, passed - standing)
            standing = max(0, standing - passed)
            done += worked / (max(1, job.run_ns) * job.execution(size, job.ideal))
            if new_size:
                standing += job.cost.ns(size, new_size)
        size, since = new_size, now_ns
    return done
