"""A live queue keeps its promises in random histories of all its events."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from msgspec.structs import replace

from cosched.core.cluster.queue.batches import Terms
from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.nodes import from_numbers
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.cluster.queue.queue_commands import Why
from cosched.core.cluster.queue.queue_events import (
    JobCancelled,
    JobEnded,
    JobFailedToStart,
    NodesDrained,
    NodesJoined,
    NodesLost,
    ReservedJobBegan,
    ReservedJobReleased,
    RulesChanged,
    SettingsChanged,
    SharingChanged,
)
from cosched.core.cluster.queue.rules import NO_RULES, PassRules
from tests.unit.cluster.queue.live_queue import (
    KEPT,
    NODES,
    RESERVED,
    RUNNING,
    WAITING,
    LiveQueue,
)

GRACES = st.sampled_from([None, 0, 3])
NAMES = st.sampled_from(sorted(POLICIES))
SIZES, WALLTIMES = st.integers(1, NODES), st.integers(1, 9)
KINDS = st.sampled_from(["plain", "mates", "mates", "alone", "unlimited"])
SOME_NODES = st.sets(st.integers(0, NODES - 1), min_size=1, max_size=2)


def has(*states):
    return precondition(lambda self: self.live.of(*states))


class QueueUnderAllEvents(RuleBasedStateMachine):
    """Random histories of a domain with four nodes."""

    @initialize(policy=NAMES, rows=st.integers(1, 3), grace=GRACES)
    def make(self, policy, rows, grace):
        self.live = LiveQueue(policy, rows, grace)
        self.next_number = 1

    def draw(self, data, *states):
        return data.draw(st.sampled_from(sorted(self.live.of(*states))))

    def number(self):
        self.next_number += 1
        return self.next_number - 1

    # -- jobs ------------------------------------------------------------------------------

    @rule(size=SIZES, walltime=WALLTIMES, kind=KINDS)
    def submit(self, size, walltime, kind):
        job = Job(
            self.number(),
            size,
            walltime,
            self.live.now,
            exclusive=kind == "alone",
            waits_for_mates=kind == "mates",
            limited=kind != "unlimited",
        )
        self.live.submit(job)
        self.live.tick()

    @rule(
        data=st.data(),
        tasks=st.integers(1, 4),
        at_once=st.integers(0, 2),
        size=st.integers(1, 2),
    )
    def submit_batch(self, data, tasks, at_once, size):
        batch, jobs = self.number(), sorted(self.live.jobs)
        chosen = st.frozensets(st.sampled_from(jobs), max_size=2) if jobs else st.just(())
        after, after_ok = frozenset(data.draw(chosen)), frozenset(data.draw(chosen))
        terms = Terms(batch, at_once, after, after_ok)
        self.next_number -= 1  # the batch has the number of its first job
        for _ in range(tasks):
            self.live.submit(Job(self.number(), size, 5, self.live.now), terms)
        self.live.tick()

    @has(RUNNING)
    @rule(data=st.data(), ok=st.booleans())
    def end(self, data, ok):
        number = self.draw(data, RUNNING)
        self.live.give(JobEnded(self.live.now, number))
        self.live.over(number, ok=ok)
        self.live.tick()

    @has(RUNNING, RESERVED)
    @rule(data=st.data(), requeue=st.booleans())
    def fail(self, data, requeue):
        number = self.draw(data, RUNNING, RESERVED)
        ordered = self.live.jobs[number].ordered
        self.live.give(JobFailedToStart(self.live.now, number, requeue))
        if requeue and ordered is None:
            self.live.requeue(number)
        else:
            self.live.over(number, ok=False)
        self.live.tick()

    @has(KEPT, WAITING, RESERVED, RUNNING)
    @rule(data=st.data())
    def cancel(self, data):
        number = self.draw(data, KEPT, WAITING, RESERVED, RUNNING)
        known = self.live.jobs[number]
        self.live.give(JobCancelled(self.live.now, number))
        if known.state == RUNNING:
            assert known.ordered is not None
        else:
            self.live.over(number, ok=False)
        self.live.tick()

    @has(RESERVED)
    @rule(data=st.data(), begins=st.booleans())
    def leave_reservation(self, data, begins):
        number = self.draw(data, RESERVED)
        if begins:
            self.live.give(ReservedJobBegan(self.live.now, number))
            self.live.begin(number)
        else:
            self.live.give(ReservedJobReleased(self.live.now, number))
            self.live.requeue(number)
        self.live.tick()

    # -- time, nodes and settings ----------------------------------------------------------

    @rule(moments=st.integers(1, 6))
    def wait(self, moments):
        for _ in range(moments):
            self.live.now += 1
            self.live.tick()

    @rule(kind=st.sampled_from([NodesLost, NodesDrained, NodesJoined]), nodes=SOME_NODES)
    def change_nodes(self, kind, nodes):
        if kind is NodesJoined:
            self.live.service |= nodes
        else:
            self.live.service -= nodes
        self.live.give(kind(self.live.now, from_numbers(nodes)))
        self.live.tick()

    @rule(policy=NAMES, grace=GRACES)
    def change_settings(self, policy, grace):
        self.live.policy, self.live.grace = policy, grace
        self.change_rules_to(NO_RULES)
        self.live.give(SettingsChanged(self.live.now, POLICIES[policy], grace))
        self.live.tick()

    @has(WAITING)
    @rule(data=st.data(), kind=st.sampled_from(["first", "last", "left_out"]))
    def change_rules(self, data, kind):
        if self.live.queue.planner.takes_rules:
            number = self.draw(data, WAITING)
            self.change_rules_to(PassRules(**{kind: (number,)}))
            self.live.tick()

    def change_rules_to(self, rules):
        self.live.rules = rules
        self.live.give(RulesChanged(self.live.now, rules))

    @rule(data=st.data(), rows=st.integers(1, 3))
    def share(self, data, rows):
        live, walltimes = self.live, {}
        for number in sorted(live.jobs):
            if data.draw(st.booleans()):
                walltimes[number] = data.draw(WALLTIMES)
        live.rows = rows
        live.give(SharingChanged(live.now, rows, walltimes))
        for number, walltime in walltimes.items():
            known = live.jobs[number]
            before = known.job.walltime_ns
            after = max(before, walltime) if known.nodes else walltime
            known.job = replace(known.job, walltime_ns=after)
            if known.limit is not None:
                known.limit += after - before
        live.tick()

    @rule()
    def restart(self):
        """Jobs that were ordered to end are ordered again."""
        ordered = [n for n, known in self.live.jobs.items() if known.ordered is not None]
        self.live.restart()
        for number in ordered:
            self.live.give(JobCancelled(self.live.now, number))
            assert self.live.jobs[number].ordered is Why.CANCELLED
        self.live.tick()

    @precondition(lambda self: len(self.live.jobs) > 4)
    @rule()
    def let_all_end(self):
        """No job is lost: all of them run if nodes serve them and their jobs end well."""
        live = self.live
        self.change_rules_to(NO_RULES)
        self.change_nodes(NodesJoined, set(range(NODES)))
        while live.jobs:
            with_nodes = live.of(RESERVED, RUNNING)
            if (
                not with_nodes
            ):  # conservative backfill may leave a gap before the next start
                assert live.policy == "conservative"
                assert live.wake > live.now
                live.now = live.wake - 1
            for number in with_nodes:
                live.give(JobEnded(live.now, number))
                live.over(number, ok=True)
            live.now += 1
            live.tick()
        assert not live.queue.batches
        assert live.queue.free_for(exclusive=False) == NODES


TestQueueUnderAllEvents = QueueUnderAllEvents.TestCase
TestQueueUnderAllEvents.settings = settings(max_examples=120, stateful_step_count=40)
