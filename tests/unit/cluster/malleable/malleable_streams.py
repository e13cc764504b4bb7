"""Random small streams of malleable jobs, and a scheduler that is watched all the time."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import strategies as st

from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.nodes import count, numbers
from cosched.core.cluster.queue.order import FCFS
from cosched.core.cluster.queue.places.elastic import Elastic
from cosched.core.cluster.queue.plans.planner import InOrder
from cosched.core.cluster.queue.policies import Policy
from cosched.core.cluster.queue.queue_commands import ResizeJob, StartJob, WakeAt
from cosched.core.cluster.queue.queue_events import JobEnded, ResizeDone, Ticked
from cosched.core.cluster.queue.sizes.execution import (
    FREE,
    AdaptationCost,
    linear,
    parabolic,
)
from cosched.core.cluster.queue.sizes.harvest_policies import EVEN, HARVESTS, LOW_IMPACT
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob
from cosched.core.cluster.queue.sizes.settings import Control, Distribution, SizePolicy
from cosched.sim.malleable.driver import MalleableDomain
from cosched.sim.virtual_time import VirtualTime

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
        SizePolicy,
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
                size=ideal,
                walltime_ns=max(1, draw(st.integers(0, 20)) * MOMENT),
                submit_ns=submit,
                execution=draw(st.sampled_from([linear, parabolic])),
                cost=draw(COSTS),
            )
        )
    return jobs, nodes


def queue_of(nodes, sizes):
    return QueueMachine(Elastic(((0, nodes - 1),)), Policy(FCFS, InOrder, sizes))


def decide(queue, now_ns):
    """Ticks; each change is done at once. Returns the commands of this moment."""
    commands = []
    done = True
    while done:
        now = queue.handle(Ticked(now_ns))
        commands += now
        done = [each for each in now if isinstance(each, ResizeJob)]
        for each in done:
            run = queue.planner.running[each.number]
            cost_ns = run.job.cost.ns(run.before.held, count(each.nodes))
            queue.handle(ResizeDone(now_ns, each.number, each.nodes, cost_ns))
    return commands


class Watched:
    """A queue, checked after every event; keeps who had how many nodes since when."""

    def __init__(self, nodes, sizes):
        self.nodes, self.policy = nodes, sizes
        self.queue = queue_of(nodes, sizes)
        self.history = defaultdict(list)  # number -> (time, size); 0 at its end
        self.started = []
        self.resizes = 0

    @property
    def planner(self):
        return self.queue.planner

    def handle(self, event):
        commands = self.queue.handle(event)
        if isinstance(event, JobEnded):
            self.history[event.number].append((event.now_ns, 0))
        for command in commands:
            self._note(command, event.now_ns)
        if isinstance(event, Ticked) and not self.queue.place.changes:
            self._check()
        return commands

    def _note(self, command, now_ns):
        if isinstance(command, WakeAt):
            return
        starts, size = isinstance(command, StartJob), count(command.nodes)
        number = command.job.number if starts else command.number
        if starts:
            self.started.append(number)
        else:
            before = self.history[number][-1][1]
            assert size != before
            self.resizes += 1
        self.history[number].append((now_ns, size))

    def _check(self):
        running, waiting = self.queue.planner.running, self.queue.waiting
        free = self.queue.place.free
        sizes = [job.size for job in running.values()]
        assert sum(sizes) + free == self.nodes
        assert free >= 0
        for number, job in running.items():
            assert job.minimum <= job.size <= job.ideal
            assert job.held == job.size == self.history[number][-1][1]
            assert count(self.queue.jobs[number].nodes) == job.size
        assert not running.keys() & {job.number for job in waiting}
        held = [node for e in self.queue.jobs.values() for node in numbers(e.nodes)]
        assert len(held) == len(set(held)), "no node has two jobs"
        slack = sum(job.size - job.minimum for job in running.values())
        if waiting:
            minimum = waiting[0].minimum
            assert minimum > free
            if self.policy.control == Control() and self.policy.harvest in (
                EVEN,
                LOW_IMPACT,
            ):
                # Beyond the degree, or not even all slack would do.
                degree = self.policy.degree or self.nodes
                assert len(running) >= degree or minimum > free + slack


class WatchedNodes(Watched):
    """A queue whose changes last. Each node has one job at most, between changes too."""

    def handle(self, event):
        commands = super().handle(event)
        held = [node for e in self.queue.jobs.values() for node in numbers(e.nodes)]
        assert len(held) == len(set(held)), "no node has two jobs"
        return commands

    def _check(self):
        held = sum(count(each.nodes) for each in self.queue.jobs.values())
        assert held + self.queue.place.free == self.nodes


def run(jobs, nodes, policy, watch=Watched, lasts=FREE):
    """The stream under a policy: its schedule and the watched scheduler."""
    engine = VirtualTime()
    scheduler = watch(nodes, policy)
    domain = MalleableDomain(engine, jobs, scheduler, lasts=lasts)
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
            done += worked / (max(1, job.walltime_ns) * job.execution(size, job.size))
            if new_size:
                standing += job.cost.ns(size, new_size)
        size, since = new_size, now_ns
    return done
