"""Random events against a controller whose queue changes the sizes of jobs: no node leaks.

The nodes are models. They keep what the controller has let them have, lose it when they
are killed, and may be out of reach for a while. Their messages wait until a rule delivers
them, in their order.
"""

import asyncio
import itertools
import shutil
import tempfile
import time
from collections import deque
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cosched.cluster.engines.native.job_bounds import Wanted, change_all
from cosched.cluster.engines.native.node_entries import NodeState
from cosched.cluster.messages import (
    Chunk,
    End,
    EndNoted,
    Failure,
    NodeEnded,
    Order,
    StartReport,
    SubtreeEnded,
    SubtreePrepared,
)
from cosched.cluster.size_messages import (
    Admit,
    Admitted,
    ChangeEnded,
    Dismiss,
    JobSensed,
    PhaseTimes,
    Resize,
    WithdrawChange,
)
from cosched.cluster.store import JobStore
from cosched.config.queue import ChangeSettings, QueueSettings
from cosched.core.cluster.queue.nodes import numbers
from cosched.core.cluster.queue.states import State as Queued
from cosched.core.cluster.startup.two_phase import Stage
from tests.unit.cluster.controller.controller_alone import Controller, passes

NODES = ("n0", "n1", "n2", "n3", "n4")
JOBS_MOST = 8
TIMES = PhaseTimes(*[1] * 9)
#: The most rounds in which all that is under way comes to its end.
ROUNDS = 200


class Part:
    """What a node has of a start: a part of a job, at its root also the job's change."""

    def __init__(self, hosts=()):
        self.hosts = hosts  # at the root: of its first tasks
        self.prepared = self.gone = self.ending = self.over = False
        self.parent = ""
        self.places = set(range(len(hosts)))
        self.names = dict(enumerate(hosts))
        self.change = self.last = self.report = None
        self.committed = False


class Node:
    """A node: its parts by start, and messages from and to the controller. ended: starts
    that it was ordered to end; it takes no part of them any more. life: of its agent."""

    def __init__(self):
        self.up = True
        self.life = 1
        self.ended = set()
        self.parts = {}
        self.inbox, self.outbox = deque(), deque()


class Domain(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp())
        self.nodes = {name: Node() for name in NODES}
        self.lives = {}  # of the nodes when a start was sent
        self.submitted = 0
        self.failures = 0
        self.controller = None
        self.boot()

    def boot(self):
        """Starts a controller, also after the end of another one."""
        self.store = JobStore(self.folder / "jobs.sqlite", NODES)
        changes = ChangeSettings(harvest="even", spared_ns=1_000_000)
        queue = QueueSettings("fcfs", size="malleable", changes=changes)

        async def begin():
            self.controller = Controller(self.store, NODES, queue=queue)
            for name, node in self.nodes.items():
                if node.up:
                    self.controller.join(name, reports=self.reports(name))
            self.controller.recovery.resolve()
            for node in self.nodes.values():
                if node.up:
                    self.repeat(node)

        self.run(begin())

    def run(self, work):
        self.loop.run_until_complete(work)
        self.loop.run_until_complete(passes())
        sent, self.controller.sent[:] = list(self.controller.sent), []
        for name, message in sent:
            node = self.nodes[name]
            if isinstance(message, Chunk):
                start = (message.job, message.start)
                self.lives[start] = {each: one.life for each, one in self.nodes.items()}
            if node.up or self.lasts(name):
                node.inbox.append(message)

    def lasts(self, name):
        """Whether the controller takes a node for up that is not there."""
        return self.controller.members.by_name[name].answers

    def call(self, function, *arguments):
        async def work():
            function(*arguments)

        self.run(work())

    def reports(self, name):
        """What a node reports when it joins."""
        return [
            StartReport(
                *start,
                Stage.GONE.value if part.gone or not part.hosts else Stage.PREPARED.value,
                time.time_ns() if part.gone else 0,
                root=bool(part.hosts),
            )
            for start, part in self.nodes[name].parts.items()
            if not part.over
        ]

    def repeat(self, node):
        """Sends again what a new life of the controller may not have."""
        for part in node.parts.values():
            node.outbox.extend(each for each in (part.last, part.report) if each)

    def roots(self):
        return [
            (name, start, part)
            for name, node in self.nodes.items()
            if node.up
            for start, part in node.parts.items()
            if part.hosts and not part.over
        ]

    def pick(self, found, at):
        found = list(found)
        return found[at % len(found)] if found else None

    # --- a node's side --------------------------------------------------------------------

    def deliver(self, name):
        """Lets a node take its next message."""
        node = self.nodes[name]
        if not node.up or not node.inbox:
            return
        message = node.inbox.popleft()
        start = (message.job, message.start)
        part = node.parts.get(start)
        match message:
            case Chunk():
                hosts = [NODES[number] for number in numbers(message.nodes)]
                for host in hosts:
                    part = Part(hosts if host == name else ())
                    part.parent = name
                    self.begin(start, host, part)
            case Order() if part is not None:
                part.gone = True
            case Admit():
                if part is None:
                    assert message.data, (name, message)
                    part = node.parts[start] = Part()
                if part.hosts:
                    hosts = [NODES[number] for number in numbers(message.nodes)]
                    part.names = dict(enumerate(hosts))
                node.outbox.append(Admitted(*start, message.generation))
            case Dismiss() | EndNoted() if part is not None:
                if part.over or not part.hosts:
                    del node.parts[start]
            case End() if message.direct:
                node.parts.pop(start, None)
                node.ended.add(start)
                node.outbox.append(NodeEnded(*start))
            case End() if part is not None:
                part.ending = True
            case Resize() if part is not None:
                self.order(node, part, message)
            case WithdrawChange() if part is not None:
                self.withdraw(node, part, message)

    def begin(self, start, host, part):
        """Gives a node a part of a start, if it has the secret that opens the object."""
        node = self.nodes[host]
        is_same = self.lives[start][host] == node.life
        if node.up and is_same and start not in node.ended:
            node.parts[start] = part

    def order(self, node, part, message):
        last = part.last
        if last is not None and last.generation >= message.generation:
            node.outbox.append(last)
        elif part.change is None:
            part.change, part.committed = message, False

    def withdraw(self, node, part, message):
        change = part.change
        if change is not None and change.generation == message.generation:
            if not part.committed:
                self.end_change(node, part, message.reason)
        elif part.last is None or part.last.generation < message.generation:
            places = tuple(sorted(part.places))
            part.last = ChangeEnded(
                message.job, message.start, message.generation, places, None, "withdrawn"
            )
            node.outbox.append(part.last)

    def end_change(self, node, part, refused=""):
        change, part.change = part.change, None
        if not refused:
            part.places -= set(change.leaving)
            part.places |= {each.place for each in change.arriving}
        places = tuple(sorted(part.places))
        times = None if refused else TIMES
        part.last = ChangeEnded(
            change.job, change.start, change.generation, places, times, refused
        )
        node.outbox.append(part.last)

    def send_next(self, name):
        """Lets the controller take a node's next message."""
        node = self.nodes[name]
        if node.up and node.outbox and self.lasts(name):
            self.call(self.controller.take, name, node.outbox.popleft())

    def end_tasks(self, name, start, part, failure=None):
        node = self.nodes[name]
        part.over, part.change = True, None
        part.report = SubtreeEnded(*start, failure)
        node.outbox.append(part.report)
        if not part.gone:  # it has not begun: its nodes forget it
            for other in self.nodes.values():
                if other is not node:
                    other.parts.pop(start, None)
        record = self.store.find(start[0])
        if record.size is None:
            for other in part.hosts[1:]:
                self.nodes[other].parts.pop(start, None)

    # --- rules ----------------------------------------------------------------------------

    @initialize(rigid=st.integers(1, 3))
    def begin_with_two_jobs(self, rigid):
        """The first one runs on all nodes, and has to give some to the other."""
        self.submit_malleable(1, 4, requeue=False)
        self.submit_rigid(rigid)

    @rule(least=st.integers(1, 2), more=st.integers(1, 4), requeue=st.booleans())
    def submit_malleable(self, least, more, requeue):
        self.submit(minimum=least, ideal=min(least + more, 5), requeue=requeue)
        self.go_on(0)

    @rule(nodes=st.integers(1, 3))
    def submit_rigid(self, nodes):
        self.submit(nodes=nodes, ppn=1)

    def submit(self, **more):
        ready = (
            any(node.up for node in self.nodes.values()) and self.controller.members.slots
        )
        if self.submitted < JOBS_MOST and ready:
            self.submitted += 1
            self.call(lambda: self.controller.submit(**more))

    @rule(names=st.lists(st.sampled_from(NODES), min_size=1, max_size=8))
    def pass_messages(self, names):
        for name in names:
            self.deliver(name)
            self.send_next(name)

    @rule(changes=st.integers(0, 2), refused=st.booleans())
    def go_on(self, changes, refused=False):
        """Lets all starts begin, and so many changes end."""
        self.settle_messages()
        for at in range(len(self.roots())):
            self.prepare(at)
            self.settle_messages()
        for at in range(changes):
            self.finish_change(at, refused=refused)
            self.settle_messages()

    @rule(at=st.integers(0, 9))
    def prepare(self, at):
        waiting = [each for each in self.roots() if not each[2].prepared]
        found = self.pick(waiting, at)
        if found is not None:
            name, start, part = found
            if all(start in self.nodes[host].parts for host in part.hosts):
                part.prepared = True
                self.nodes[name].outbox.append(SubtreePrepared(*start))

    @rule(at=st.integers(0, 9))
    def commit(self, at):
        found = self.pick([each for each in self.roots() if each[2].change], at)
        if found is not None:
            found[2].committed = True

    @rule(at=st.integers(0, 9), refused=st.booleans())
    def finish_change(self, at, refused):
        found = self.pick([each for each in self.roots() if each[2].change], at)
        if found is not None:
            name, start, part = found
            come = [part.names[each.place] for each in part.change.arriving]
            there = all(start in self.nodes[host].parts for host in come)
            words = "" if there and not refused else "MPI_Comm_spawn has failed"
            self.end_change(self.nodes[name], part, words)

    @rule(at=st.integers(0, 9), fails=st.booleans())
    def end_job(self, at, fails):
        found = self.pick([each for each in self.roots() if each[2].gone], at)
        if found is not None:
            self.end_tasks(*found, Failure(1, "it failed") if fails else None)

    @rule(at=st.integers(0, 9), wanted=st.integers(0, 6), least=st.integers(0, 6))
    def sense(self, at, wanted, least):
        found = self.pick([each for each in self.roots() if each[2].gone], at)
        if found is not None:
            name, start, part = found
            if self.store.find(start[0]).size is not None:
                size = len(part.places)
                report = JobSensed(*start, size, 1, 9, 0, least, 0, wanted, 1)
                self.nodes[name].outbox.append(report)

    @rule(at=st.integers(0, 9))
    def cancel(self, at):
        number = self.pick(self.controller.jobs.records.live, at)
        if number is not None:
            self.call(self.controller.submitting.cancel, number)

    @rule(at=st.integers(0, 9), least=st.integers(1, 4), more=st.integers(0, 3))
    def rebound(self, at, least, more):
        jobs = self.controller.jobs
        number = self.pick(jobs.queue.jobs, at)
        live = (Queued.WAITING, Queued.RUNNING, Queued.RESIZING)
        if number is None or jobs.queue.jobs.state(number) not in live:
            return
        if jobs.records.live[number].submission.malleable:
            most = min(5, least + more)
            wanted = Wanted(least, most, None)
            self.call(change_all, jobs, [number], wanted, "malleable")

    @rule(name=st.sampled_from(NODES), killed=st.booleans())
    def lose(self, name, killed):
        """A node is killed, or out of reach, and the controller sees it."""
        node = self.nodes[name]
        if not node.up:
            return
        node.up = False
        node.inbox.clear()
        node.outbox.clear()
        if killed:
            node.parts.clear()
            node.ended.clear()
            node.life += 1
        member = self.controller.members.by_name[name]
        if member.answers:
            member.state = NodeState.LOST
            self.call(self.controller.jobs.node_lost, member)

    @rule(name=st.sampled_from(NODES))
    def join(self, name):
        node = self.nodes[name]
        if node.up:
            return
        node.up = True
        member = self.controller.members.by_name[name]
        member.state, member.slots, member.secret = NodeState.UP, 1, bytes(32)
        member.starts = tuple(self.reports(name))

        def joined():
            self.controller.jobs.end_strays(member)
            self.controller.jobs.node_joined(member)

        self.call(joined)
        self.repeat(node)

    @rule(name=st.sampled_from(NODES), back=st.booleans())
    def drain(self, name, back):
        member = self.controller.members.by_name[name]
        if not member.answers:
            return
        if back:
            member.state = NodeState.UP
            self.call(self.controller.jobs.node_joined, member)
        else:
            member.state = NodeState.DRAINED
            self.call(self.controller.jobs.node_drained, member)

    @rule()
    def restart(self):
        """The controller ends. Messages that are under way are lost."""
        self.loop.run_until_complete(passes())
        self.controller.jobs.driver.close()
        self.store.close()
        for node in self.nodes.values():
            node.inbox.clear()
            node.outbox.clear()
        self.boot()

    # --- what holds -----------------------------------------------------------------------

    @invariant()
    def nodes_have_one_job(self):
        jobs = self.controller.jobs
        for one, other in itertools.combinations(jobs.starts.active.values(), 2):
            assert not set(one.record.admitted) & set(other.record.admitted)
        for number, start in jobs.starts.active.items():
            held = self.controller.members.names(jobs.queue.place.nodes_of(number))
            assert set(start.record.admitted) == set(held), (number, start)

    def end_late(self):
        """Ends tasks of starts that their root was ordered to end before they were ready:
        it answers a node that is prepared with End."""
        for node in self.nodes.values():
            for start, part in list(node.parts.items()):
                if part.parent and start in self.nodes[part.parent].ended:
                    del node.parts[start]

    def settle_messages(self):
        busy = True
        while busy:
            busy = False
            for name, node in self.nodes.items():
                if node.up and (node.inbox or (node.outbox and self.lasts(name))):
                    busy = True
                    self.deliver(name)
                    self.send_next(name)

    def teardown(self):
        try:
            self.settle()
        finally:
            self.controller.jobs.driver.close()
            self.store.close()
            self.loop.run_until_complete(passes())
            self.loop.close()
            shutil.rmtree(self.folder)

    def settle(self):
        """Lets all come to its end; then nothing may be left."""
        for name in NODES:
            self.join(name)
            self.drain(name, back=True)
        for _ in range(ROUNDS):
            self.settle_messages()
            for _, _, part in self.roots():
                if part.change is not None:
                    self.finish_change(0, refused=False)
            self.prepare(0)
            self.settle_messages()
            ready = [each for each in self.roots() if each[2].gone or each[2].ending]
            for name, start, part in ready[:1]:
                self.end_tasks(name, start, part)
            if not self.controller.jobs.records.live and not self.roots():
                break
        self.settle_messages()
        self.end_late()
        jobs = self.controller.jobs
        assert not jobs.records.live
        assert not jobs.starts.active
        assert {name: node.parts for name, node in self.nodes.items()} == {
            name: {} for name in NODES
        }
        assert jobs.queue.place.free == len(NODES)
        for number in range(1, self.submitted + 1):
            record = self.store.find(number)
            assert record.state.over
            assert record.size is None or record.size.change is None


Domain.TestCase.settings = settings(
    max_examples=25,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
test_no_node_leaks = Domain.TestCase
