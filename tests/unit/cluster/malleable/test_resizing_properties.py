"""Malleable jobs, live: any order of events, refusals, late changes and lost nodes."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from msgspec.structs import replace

from cosched.core.cluster.queue.forecast import forecast
from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.nodes import from_numbers, numbers
from cosched.core.cluster.queue.order import FCFS
from cosched.core.cluster.queue.places.elastic import Elastic
from cosched.core.cluster.queue.plans.easy import Easy
from cosched.core.cluster.queue.plans.malleable_easy import MalleableEasy
from cosched.core.cluster.queue.plans.planner import InOrder
from cosched.core.cluster.queue.policies import Policy
from cosched.core.cluster.queue.queue_commands import (
    ContinueJob,
    EndJob,
    ResizeJob,
    StartJob,
    SuspendJob,
    WakeAt,
    WithdrawResize,
)
from cosched.core.cluster.queue.queue_events import (
    BoundsChanged,
    JobCancelled,
    JobContinued,
    JobEnded,
    JobFailedToStart,
    JobRecovered,
    JobSubmitted,
    JobSuspended,
    NodesDrained,
    NodesJoined,
    NodesLost,
    ResizeDone,
    ResizeLate,
    ResizeRefused,
    Sensed,
    SettingsChanged,
    SizeWanted,
    SuspendRefused,
    Ticked,
)
from cosched.core.cluster.queue.sizes.harvest_policies import HARVESTS
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob, least_nodes
from cosched.core.cluster.queue.sizes.settings import Control, Distribution, SizePolicy
from cosched.core.cluster.queue.sizes.suspension import Suspended, Suspension
from cosched.core.cluster.queue.states import State
from cosched.core.errors import CoschedError

NODES = 8
ALL = ((0, NODES - 1),)
CONTROLS = st.builds(
    Control,
    harvest_limit=st.sampled_from([None, 2]),
    change_ns=st.sampled_from([None, 5, 20]),
    spared_ns=st.sampled_from([1, 10]),
)
SIZES = st.builds(
    SizePolicy,
    harvest=st.sampled_from(list(HARVESTS.values())),
    distribution=st.sampled_from(list(Distribution)),
    degree=st.sampled_from([None, 2, 4]),
    control=CONTROLS,
    suspension=st.sampled_from([None, Suspension(40, 1), Suspension(1000, 2)]),
)
IN_ORDER = st.builds(Policy, st.just(FCFS), st.just(InOrder), SIZES)
EASY = st.builds(
    Policy,
    st.just(FCFS),
    st.just(Easy),
    SIZES.filter(lambda sizes: sizes.problem_with_easy is None),
)
POLICIES = st.one_of(IN_ORDER, EASY)
PICK = st.integers(0, 2**16)
SIZE = st.integers(1, NODES)


class Agents(RuleBasedStateMachine):
    """A driver and its nodes. on: the nodes where each job has tasks, now or soon."""

    def __init__(self):
        super().__init__()
        self.now = 0
        self.jobs = {}  # number -> request, of all that were submitted
        self.on = {}  # number -> nodes with tasks, in the order of starts
        self.first = {}  # number -> its first node
        self.changes = {}  # number -> (nodes before, nodes ordered)
        self.withdrawn = set()  # changes
        self.stops = {}  # number -> (what its tasks do, the job that borrows, since when)
        self.stopped = {}  # number -> how often
        self.loans = {}  # number -> the suspended job whose nodes it has
        self.ending = set()
        self.out = set()  # nodes out of service
        self.lost = set()
        self.grace = 10

    @initialize(policy=POLICIES, grace=st.sampled_from([None, 10, 1000]))
    def begin(self, policy, grace):
        self.grace = grace
        self.queue = QueueMachine(Elastic(ALL), policy, grace)

    # --- events ---------------------------------------------------------------------------

    @rule(
        least=st.integers(1, NODES),
        more=st.integers(0, 4),
        run=st.integers(1, 60),
        rigid=st.booleans(),
    )
    def submit(self, least, more, run, rigid):
        number, ideal = len(self.jobs), min(NODES, least + more)
        if rigid:
            job = Job(number, ideal, run, self.now)
        else:
            job = MalleableJob(number, ideal, run, self.now, minimum=min(least, ideal))
        self.jobs[number] = job
        self.feed(JobSubmitted(self.now, job))

    @rule(steps=st.integers(1, 15))
    def wait(self, steps):
        self.now += steps
        self.tick()

    @rule(steps=st.integers(0, 3))
    def sleep_until_woken(self, steps):
        if self.queue.wake_ns is not None:
            self.now = max(self.now, self.queue.wake_ns)
            self.tick()

    @precondition(lambda self: self.on)
    @rule(pick=PICK)
    def end(self, pick):
        self.gone(self.pick(self.on, pick), JobEnded)

    @precondition(lambda self: self.on)
    @rule(pick=PICK, again=st.booleans())
    def fail(self, pick, again):
        number = self.pick(self.on, pick)
        waits = again and number not in self.ending
        self.gone(number, lambda now, number: JobFailedToStart(now, number, again))
        assert (number in self.queue) == (waits or number in self.on)

    @precondition(lambda self: self.queue.jobs)
    @rule(pick=PICK)
    def cancel(self, pick):
        self.feed(JobCancelled(self.now, self.pick(self.queue.jobs, pick)))

    @precondition(lambda self: self.changes)
    @rule(pick=PICK, cost=st.integers(0, 5), tick=st.booleans())
    def done(self, pick, cost, tick):
        number = self.pick(self.changes, pick)
        _, wanted = self.changes[number]
        self.finish(number, wanted, cost)
        if tick:
            self.tick()

    @precondition(lambda self: self.changes)
    @rule(pick=PICK, data=st.data())
    def done_in_part(self, pick, data):
        number = self.pick(self.changes, pick)
        job, (before, wanted) = self.jobs[number], self.changes[number]
        others = sorted((before | wanted) - {self.first[number]})
        least = min(least_nodes(job), len(before), len(wanted))
        most = min(max(job.size, len(before), len(wanted)), len(others) + 1)
        some = data.draw(
            st.sets(st.sampled_from(others), min_size=least - 1, max_size=most - 1)
            if others
            else st.just(set())
        )
        self.finish(number, some | {self.first[number]}, 1)

    def finish(self, number, nodes, cost):
        del self.changes[number]
        self.withdrawn.discard(number)
        self.on[number] = nodes
        self.handle(ResizeDone(self.now, number, from_numbers(nodes), cost))
        if nodes & self.lost:
            assert number in self.ending

    @precondition(lambda self: self.changes)
    @rule(pick=PICK)
    def refuse(self, pick):
        number = self.pick(self.changes, pick)
        self.on[number], _ = self.changes.pop(number)
        self.withdrawn.discard(number)
        self.feed(ResizeRefused(self.now, number))

    @precondition(lambda self: self.changes)
    @rule(pick=PICK)
    def late(self, pick):
        self.feed(ResizeLate(self.now, self.pick(self.changes, pick)))

    def orders(self, word):
        return {number for number, stop in self.stops.items() if stop[0] == word}

    @precondition(lambda self: self.orders("stops"))
    @rule(pick=PICK, tick=st.booleans())
    def suspended(self, pick, tick):
        number = self.pick(self.orders("stops"), pick)
        self.stops[number] = "stopped", self.stops[number][1], self.now
        self.handle(JobSuspended(self.now, number))
        if tick:
            self.tick()

    @precondition(lambda self: self.orders("stops"))
    @rule(pick=PICK)
    def suspend_refused(self, pick):
        number = self.pick(self.orders("stops"), pick)
        del self.stops[number]
        self.feed(SuspendRefused(self.now, number))

    @precondition(lambda self: self.orders("continues"))
    @rule(pick=PICK)
    def continued(self, pick):
        number = self.pick(self.orders("continues"), pick)
        del self.stops[number]
        self.feed(JobContinued(self.now, number))

    @precondition(lambda self: self.on)
    @rule(pick=PICK, event=st.sampled_from([JobSuspended, SuspendRefused, JobContinued]))
    def confirmed_in_vain(self, pick, event):
        number = self.pick(self.on, pick)
        if number not in self.stops and number not in self.ending:
            with pytest.raises(CoschedError):
                self.handle(event(self.now, number))

    @precondition(lambda self: self.on)
    @rule(pick=PICK, size=st.integers(1, NODES), time=st.integers(0, 50))
    def sense(self, pick, size, time):
        self.feed(Sensed(self.now, self.pick(self.on, pick), size, 1, time, 0))

    @precondition(lambda self: self.on)
    @rule(pick=PICK, wants=st.tuples(*[st.integers(0, NODES)] * 3))
    def want(self, pick, wants):
        self.feed(SizeWanted(self.now, self.pick(self.on, pick), *wants))

    @precondition(lambda self: self.elastic())
    @rule(pick=PICK, sizes=st.tuples(SIZE, SIZE), tick=st.booleans())
    def rebound(self, pick, sizes, tick):
        number, (least, ideal) = self.pick(self.elastic(), pick), sorted(sizes)
        self.jobs[number] = self.queue.jobs[number].job.within(least, ideal, 0)
        self.handle(BoundsChanged(self.now, number, least, ideal))
        assert self.queue.jobs[number].job == self.jobs[number]
        if tick:
            self.tick()

    @precondition(lambda self: self.queue.jobs)
    @rule(pick=PICK, least=st.integers(0, NODES), ideal=st.integers(-1, NODES + 1))
    def rebound_in_vain(self, pick, least, ideal):
        number = self.pick(self.queue.jobs, pick)
        if number in self.elastic() and 1 <= least <= ideal <= NODES:
            ideal = NODES + 1
        before = self.queue.jobs[number].job, self.promised()
        with pytest.raises(CoschedError):
            self.handle(BoundsChanged(self.now, number, least, ideal))
        assert (self.queue.jobs[number].job, self.promised()) == before

    def elastic(self):
        """Returns the malleable jobs that were not ordered to end."""
        entries = self.queue.jobs.items()
        kinds = {number for number, each in entries if isinstance(each.job, MalleableJob)}
        return kinds - self.ending

    def promised(self):
        return list(self.queue.planner.promised)

    @rule(nodes=st.sets(st.integers(0, NODES - 1), max_size=2))
    def lose(self, nodes):
        hit = {
            number
            for number, on in self.on.items()
            if self.changes.get(number, (on, on))[0] & nodes
        }
        self.out |= nodes
        self.lost |= nodes
        self.feed(NodesLost(self.now, from_numbers(nodes)))
        assert hit <= self.ending

    @rule(nodes=st.sets(st.integers(0, NODES - 1), max_size=2))
    def drain(self, nodes):
        self.out |= nodes
        self.feed(NodesDrained(self.now, from_numbers(nodes)))

    @rule(nodes=st.sets(st.integers(0, NODES - 1)))
    def join(self, nodes):
        self.out -= nodes
        self.lost -= nodes
        self.feed(NodesJoined(self.now, from_numbers(nodes)))

    @rule(policy=POLICIES, grace=st.sampled_from([None, 1000]))
    def change_settings(self, policy, grace):
        self.feed(SettingsChanged(self.now, policy, grace))

    @rule(policy=POLICIES, kept=st.booleans())
    def restart(self, policy, kept):
        """The controller restarts. Open changes were refused, unless they are kept. Jobs on
        lost nodes are gone; others that were to end are not, which no part remembers."""
        self.on = {n: nodes for n, nodes in self.on.items() if not nodes & self.lost}
        for number in list(self.changes):
            if number not in self.on:
                del self.changes[number]
            elif not kept:
                self.on[number], _ = self.changes.pop(number)
        self.stops = {n: stop for n, stop in self.stops.items() if n in self.on}
        self.loans = {n: o for n, o in self.loans.items() if n in self.on and o in self.on}
        self.withdrawn.clear()
        waiting = list(self.queue.waiting)
        self.queue = QueueMachine(Elastic(ALL), policy, self.grace)
        self.handle(NodesDrained(self.now, ALL))
        self.ending.clear()
        for number in sorted(self.on, key=self.loans.__contains__):
            self.recover(number, self.on[number])
        for job in reversed(waiting):
            self.handle(JobSubmitted(self.now, job))
        here = set(range(NODES)) - self.out
        self.feed(NodesJoined(self.now, from_numbers(here)))

    def recover(self, number, nodes):
        change, job = self.changes.get(number), self.jobs[number]
        if change is None:
            self.first[number] = min(nodes)
            word, for_job, since = self.stops.get(number, ("", None, None))
            times = self.stopped.get(number, 0)
            found = Suspended(for_job, since, word == "continues", times, 7 * times)
            lender = self.loans.get(number)
            held = from_numbers(nodes)
            event = JobRecovered(self.now, job, held, self.now, suspension=found)
            if lender is not None:
                event = replace(event, lender=lender)
            self.handle(event)
            return
        before, after = map(from_numbers, change)
        growths = (from_numbers({self.first[number]}),)
        self.handle(JobRecovered(self.now, job, before, self.now, growths, after))

    @rule()
    def look_ahead(self):
        before = deepcopy(self.queue.jobs)
        forecast(self.queue, self.now)
        assert self.queue.jobs == before

    # --- the driver -----------------------------------------------------------------------

    def pick(self, numbers_, place):
        return sorted(numbers_)[place % len(numbers_)]

    def gone(self, number, event):
        del self.on[number]
        self.changes.pop(number, None)
        self.withdrawn.discard(number)
        self.stops.pop(number, None)
        self.stopped.pop(number, None)
        self.loans.pop(number, None)
        self.loans = {n: lender for n, lender in self.loans.items() if lender != number}
        self.ending.discard(number)
        self.feed(event(self.now, number))

    def feed(self, event):
        self.handle(event)
        self.tick()

    def tick(self):
        self.handle(Ticked(self.now))
        self.check_bounds()

    def check_bounds(self):
        """A job with nodes above its ideal has given them back, and free nodes went to jobs
        below their minimum, unless such a job cannot change now."""
        place, planner = self.queue.place, self.queue.planner
        for number, run in place.running.items():
            if not run.held or not run.is_steady(self.now):
                continue
            assert run.held <= run.ideal
            if isinstance(planner, MalleableEasy):
                continue  # these nodes may be kept for the reserved job
            if run.size < run.minimum:
                assert planner._planned.free == 0
            if run.held < run.minimum and number not in planner._planned.runs:
                assert not place.free or planner.promised or planner._planned.runs

    def handle(self, event):
        for command in self.queue.handle(event):
            match command:
                case StartJob():
                    nodes = set(numbers(command.nodes))
                    self.start(command.job, nodes, command.lender)
                case SuspendJob():
                    self.suspend(command.number, command.for_job)
                case ContinueJob():
                    word, *rest = self.stops[command.number]
                    assert word == "stopped"
                    assert command.number not in self.loans.values()
                    self.stops[command.number] = ("continues", *rest)
                case ResizeJob():
                    self.order(command.number, set(numbers(command.nodes)))
                case WithdrawResize():
                    assert command.number in self.changes
                    assert command.number not in self.withdrawn
                    self.withdrawn.add(command.number)
                case EndJob():
                    assert command.number in self.on
                    assert command.number not in self.ending
                    self.ending.add(command.number)
                case WakeAt():
                    assert command.at_ns is None or command.at_ns > self.now
                case _:
                    raise AssertionError(command)

    def used(self):
        return set().union(*self.on.values())

    def suspend(self, number, for_job):
        assert number in self.on
        assert number not in self.stops
        assert number not in self.ending
        assert number not in self.changes
        assert number not in self.loans
        self.stops[number] = "stops", for_job, None
        self.stopped[number] = self.stopped.get(number, 0) + 1

    def start(self, job, nodes, lender=None):
        if lender is not None:
            assert self.stops[lender][:2] == ("stopped", job.number)
            assert nodes <= self.on[lender]
            assert lender not in self.loans.values()
            self.loans[job.number] = lender
        else:
            assert not nodes & self.used(), "a start waits until its nodes are free"
        assert not nodes & self.out
        assert least_nodes(job) <= len(nodes) <= job.size
        in_service = NODES - len(self.out)
        in_order = not isinstance(self.queue.planner, MalleableEasy)
        for other in self.queue.waiting if in_order else ():
            earlier = (other.submit_ns, other.number) < (job.submit_ns, job.number)
            assert not earlier or least_nodes(other) > in_service
        self.on[job.number], self.first[job.number] = nodes, min(nodes)

    def order(self, number, nodes):
        assert number not in self.changes
        assert number not in self.ending
        job, before = self.jobs[number], self.on[number]
        arriving = nodes - before
        assert not arriving & self.used()
        assert not arriving & self.out
        assert self.first[number] in nodes
        assert nodes != before
        assert len(nodes) <= job.size
        assert least_nodes(job) <= len(nodes) or before < nodes
        self.changes[number] = before, nodes
        self.on[number] = before | nodes

    # --- what always holds ----------------------------------------------------------------

    @invariant()
    def each_node_has_one_job(self):
        stopped = self.orders("stopped")
        used = [node for n, nodes in self.on.items() if n not in stopped for node in nodes]
        assert len(used) == len(set(used))
        owned = [
            node for n, nodes in self.on.items() if n not in self.loans for node in nodes
        ]
        assert len(owned) == len(set(owned))

    @invariant()
    def the_queue_knows_what_its_driver_knows(self):
        if not hasattr(self, "queue"):
            return
        place, jobs = self.queue.place, self.queue.jobs
        held = {
            number: set(numbers(entry.nodes))
            for number, entry in jobs.items()
            if entry.state is not State.WAITING
        }
        assert held == self.on
        assert place.changes.keys() == self.changes.keys()
        free = set(range(NODES)) - self.used() - self.out
        assert set(numbers(place.free_nodes)) == free
        assert place.free == len(free)
        states = {number: jobs[number].state for number in self.on}
        for number, state in states.items():
            assert (state is State.ENDING) == (number in self.ending)
            if state is not State.ENDING:
                assert (state is State.RESIZING) == (number in self.changes)
                word = self.stops.get(number, ("",))[0]
                assert (state is State.SUSPENDING) == (word == "stops")
                assert (state is State.SUSPENDED) == (word in ("stopped", "continues"))
        lenders = {n: run.lender for n, run in place.running.items() if n in place.loans}
        assert lenders == self.loans
        assert place.loans.keys() == self.loans.keys()

    @invariant()
    def plan_promises_no_more_than_there_is(self):
        if not hasattr(self, "queue"):
            return
        place, planner = self.queue.place, self.queue.planner
        needs = [run.size - run.held for run in place.running.values()]
        if not self.queue.planner._ended:
            assert sum(need for need in needs if need > 0) <= place.free + place.coming
        waiting = [job.number for job in self.queue.waiting]
        assert len(waiting) == len(set(waiting))
        states = self.queue.jobs
        assert set(waiting) == {n for n in states if states[n].state is State.WAITING}
        assert not set(waiting) & self.on.keys()
        for number, run in planner.running.items():
            assert run.is_within or number in planner.exchange.outside
            if number in self.on and number not in self.changes:
                assert run.held == len(self.on[number])

    def teardown(self):
        """All nodes return and all jobs end: nothing is left, and every job has run."""
        if not hasattr(self, "queue"):
            return
        self.join(set(range(NODES)))
        rounds = 0
        while self.queue.jobs:
            rounds += 1
            assert rounds < 1000, "jobs wait for ever"
            for number in list(self.changes):
                self.refuse(sorted(self.changes).index(number))
            for number in self.orders("stops"):
                self.suspended(sorted(self.orders("stops")).index(number), True)
            for number in sorted(self.on, key=self.loans.__contains__, reverse=True):
                if number in self.stops and rounds % 2:
                    continue  # it continues once no job has its nodes
                if number in self.on:
                    self.gone(number, JobEnded)
            for number in self.orders("continues"):
                self.continued(sorted(self.orders("continues")).index(number))
            self.now += 100
            self.tick()
        place = self.queue.place
        assert place.free == NODES
        assert place.free_nodes == ALL
        assert not place.running
        assert not place.changes
        assert not place.loans
        assert not place.ends


TestAgents = Agents.TestCase
TestAgents.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    # Some histories are too long for an example, and chance can make many of them.
    suppress_health_check=[HealthCheck.filter_too_much],
)
