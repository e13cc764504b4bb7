"""The controller carries out the changes of sizes that its queue orders.

The nodes are played: they admit jobs, and the root reports the end of a change.
"""

import asyncio
import time
from dataclasses import replace

import pytest

from cosched.cluster.engines.native import changes
from cosched.cluster.engines.native.membership import Membership
from cosched.cluster.engines.native.node_entries import NodeState
from cosched.cluster.keys import load_keys, make_keys
from cosched.cluster.messages import (
    End,
    NodeEnded,
    StartReport,
    SubtreeEnded,
    SubtreePrepared,
)
from cosched.cluster.paths import DomainPaths
from cosched.cluster.record import State
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
from cosched.config.domain import LifeSettings
from cosched.config.queue import ChangeSettings, QueueSettings
from cosched.core.cluster.queue.nodes import numbers
from cosched.core.cluster.queue.states import State as QueueState
from cosched.core.cluster.resizing.agreement import LOOP_ENDED
from cosched.core.cluster.startup.jobobject import decode_object
from cosched.core.cluster.startup.two_phase import Stage
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from tests.unit.cluster.controller.controller_alone import Controller, passes

NODES = ("n0", "n1", "n2", "n3")
MALLEABLE = QueueSettings("fcfs", size="malleable")
TIMES = PhaseTimes(1, 20, 300, 4000, 5000, 6000, 7000, 8, 9)


class Played:
    """A controller of malleable jobs, and its nodes."""

    def __init__(self, store, queue=MALLEABLE, life=None, reports=None, drained=None):
        self.controller = Controller(store, NODES, queue=queue, life=life)
        for name in NODES:
            self.controller.join(name, reports=(reports or {}).get(name, ()))
        if drained is not None:
            member = self.controller.members.by_name[drained]
            member.state, member.drained = NodeState.DRAINED, True
            self.jobs.node_drained(member)
        self.controller.recovery.resolve()

    @property
    def jobs(self):
        return self.controller.jobs

    async def run(self, **more):
        """Submits a job, and begins it; returns its number."""
        number = self.controller.submit(**more)
        await passes()
        self.begin(number)
        await passes()
        return number

    def begin(self, number):
        start = self.jobs.starts.active[number]
        self.controller.take(start.root, SubtreePrepared(number, start.record.start))

    def sent(self, kind):
        """Returns the messages of a kind since the last call, with their receivers."""
        found = [(to, each) for to, each in self.controller.sent if isinstance(each, kind)]
        kept = [each for each in self.controller.sent if not isinstance(each[1], kind)]
        self.controller.sent[:] = kept
        return found

    async def admit(self, problem=None):
        """Lets all nodes admit the jobs that they were asked to. problem: of the nodes that
        arrive."""
        admits = self.sent(Admit)
        for to, each in admits:
            words = problem if problem and each.data else ""
            answer = Admitted(each.job, each.start, each.generation, words)
            self.controller.take(to, answer)
        await passes()
        return admits

    async def end(self, places, refused="", times=TIMES):
        """Lets the root end the change that it has; returns the order."""
        ((root, order),) = self.sent(Resize)
        ended = ChangeEnded(
            order.job,
            order.start,
            order.generation,
            places,
            None if refused else times,
            refused,
        )
        self.controller.take(root, ended)
        await passes()
        return order

    async def change(self, places):
        """Lets the open change be done."""
        await self.admit()
        return await self.end(places)

    async def finish(self, number):
        start = self.jobs.starts.active[number]
        end = SubtreeEnded(number, start.record.start, None)
        self.controller.take(start.root, end)
        await passes()

    def record(self, number):
        return self.controller.store.find(number)

    def nodes(self, number):
        return self.record(number).nodes

    @property
    def free(self):
        return self.jobs.queue.place.free


def test_job_gives_nodes_to_another_one_and_gets_them_back(store):
    async def scenario():
        domain = Played(store)
        first = await domain.run(minimum=1, ideal=4)
        second = domain.controller.submit(nodes=2, ppn=1)
        await passes()
        admits = await domain.admit()
        assert [(to, each.place, each.data) for to, each in admits] == [
            (name, place, b"") for place, name in enumerate(NODES)
        ]
        assert domain.record(second).state is State.QUEUED
        order = await domain.end((0, 1))
        assert (order.leaving, order.arriving) == ((2, 3), ())
        assert domain.nodes(first) == ("n0", "n1")
        assert domain.sent(Dismiss) == [(name, Dismiss(first, 1)) for name in ("n2", "n3")]
        assert domain.nodes(second) == ("n2", "n3")
        domain.begin(second)
        await domain.finish(second)
        admits = await domain.admit()
        assert [(to, each.place) for to, each in admits] == [
            ("n0", 0), ("n1", 1), ("n2", 4), ("n3", 5),
        ]  # fmt: skip
        assert numbers(admits[0][1].nodes) == [0, 1, 2, 3, 2, 3]
        found = decode_object(admits[2][1].data)
        assert (found.malleable, found.environ["COSCHED_DOMAIN_JOB"]) == (True, "1")
        order = await domain.end((0, 1, 4, 5))
        assert [(each.place, each.ranks) for each in order.arriving] == [(4, 1), (5, 1)]
        assert domain.nodes(first) == NODES
        await domain.finish(first)
        assert domain.sent(Dismiss) == [(name, Dismiss(first, 1)) for name in NODES]
        assert domain.free == 4
        changes = store.changes(first)
        assert [(each.before, each.after, each.left, each.came) for each in changes] == [
            (4, 2, ("n2", "n3"), ()),
            (2, 4, (), ("n2", "n3")),
        ]
        assert [each.reason for each in changes] == [
            "gave 2 nodes to job 2: its minimum was 2, 0 were free",
            "got 2 free nodes",
        ]
        assert [(each.times, each.cost_ns) for each in changes] == [(TIMES, 22320)] * 2

    asyncio.run(scenario())


def test_growth_beyond_the_most_places_is_refused(store, monkeypatch):
    """A job keeps a record of each node that came to it, so it cannot grow for ever."""
    monkeypatch.setattr(changes, "PLACES_MOST", 5)

    async def scenario():
        domain = Played(store)
        first = await domain.run(minimum=1, ideal=4)
        second = domain.controller.submit(nodes=2, ppn=1)
        await passes()
        await domain.change((0, 1))
        domain.begin(second)
        await domain.finish(second)
        assert domain.sent(Admit) == []
        record = domain.record(first)
        assert (record.nodes, len(record.hosts)) == (("n0", "n1"), 4)
        (past,) = store.changes(first)[1:]
        assert past.refused.startswith("4 nodes came to it; a start takes 5 at most")
        assert domain.free == 2
        third = await domain.run(nodes=2, ppn=1)
        assert domain.nodes(third) == ("n2", "n3")

    asyncio.run(scenario())


def test_change_waits_until_the_job_has_begun(store):
    async def scenario():
        domain = Played(store)
        number = domain.controller.submit(minimum=1, ideal=4)
        await passes()
        domain.controller.submit(nodes=1)
        await passes()
        assert domain.sent(Admit) == []
        domain.begin(number)
        await domain.change((0, 1, 2))
        assert domain.nodes(number) == ("n0", "n1", "n2")

    asyncio.run(scenario())


def test_start_that_fails_with_a_change_waits_again(store):
    async def scenario():
        domain = Played(store)
        number = domain.controller.submit(minimum=1, ideal=4)
        await passes()
        domain.controller.submit(nodes=1)
        await passes()
        lose(domain, "n1")
        for name in ("n0", "n2", "n3"):
            domain.controller.take(name, NodeEnded(number, 1))
        await passes()
        assert domain.record(number).start == 2
        assert domain.nodes(number) == ("n0", "n2")

    asyncio.run(scenario())


async def growing(store, **more):
    """Returns a domain whose job 1 is to grow from one node to all of them."""
    domain = Played(store, **more)
    rigid = await domain.run(nodes=3, ppn=1)
    number = await domain.run(minimum=1, ideal=4)
    assert domain.nodes(number) == ("n3",)
    await domain.finish(rigid)
    return domain, number


def test_problem_of_an_arriving_node_refuses_the_change(store):
    async def scenario():
        domain, number = await growing(store)
        await domain.admit(problem="no slots")
        assert domain.sent(Resize) == []
        assert domain.nodes(number) == ("n3",)
        names = [to for to, each in domain.sent(Dismiss) if each.job == number]
        assert names == ["n0", "n1", "n2"]
        assert domain.free == 3
        (change,) = store.changes(number)
        assert (change.before, change.after, change.refused) == (1, 1, "no slots")

    asyncio.run(scenario())


def test_root_refuses_a_change(store):
    async def scenario():
        domain, number = await growing(store)
        await domain.admit()
        await domain.end((0,), refused=LOOP_ENDED)
        assert domain.nodes(number) == ("n3",)
        assert len([1 for _, each in domain.sent(Dismiss) if each.job == number]) == 3
        assert domain.free == 3
        assert store.changes(number)[0].refused == LOOP_ENDED

    asyncio.run(scenario())


@pytest.mark.parametrize(("refused", "least", "most"), [(LOOP_ENDED, 1, 1), ("no", 1, 4)])
def test_job_whose_loop_has_ended_keeps_its_nodes_for_good(store, refused, least, most):
    """Otherwise each minute would bring a refused change, until `why` has no others."""

    async def scenario():
        domain, number = await growing(store)
        await domain.admit()
        await domain.end((0,), refused=refused)
        run = domain.jobs.queue.place.running[number]
        assert (run.minimum, run.size, run.ideal) == (least, 1, most)

    asyncio.run(scenario())


def test_job_keeps_its_size_for_a_while_after_a_refused_change(store):
    async def scenario():
        domain, _ = await growing(store, queue=QueueSettings(
            "fcfs", size="malleable", changes=ChangeSettings(spared_ns=NS_PER_S // 20)
        ))  # fmt: skip
        await domain.admit(problem="no slots")
        assert [to for to, _ in domain.sent(Admit)] == ["n3"]
        async with asyncio.timeout(20):
            while not domain.sent(Admit):
                await asyncio.sleep(0.001)

    asyncio.run(scenario())


def late(after_ns):
    changes = ChangeSettings(late_after_ns=after_ns)
    return QueueSettings("fcfs", size="malleable", changes=changes)


def test_late_change_that_no_root_has_is_refused(store):
    async def scenario():
        domain, number = await growing(store, queue=late(NS_PER_S // 20))
        async with asyncio.timeout(20):
            while not store.changes(number):
                await asyncio.sleep(0.001)
        assert "it took more than 0." in store.changes(number)[0].refused
        assert domain.sent(WithdrawChange) == domain.sent(Resize) == []
        await domain.admit()  # too late
        assert domain.sent(Resize) == []

    asyncio.run(scenario())


@pytest.mark.parametrize("refused", ["", "it took more than 0.1 s"])
def test_root_decides_about_a_late_change(store, refused):
    async def scenario():
        domain, number = await growing(store, queue=late(NS_PER_S // 20))
        await domain.admit()
        async with asyncio.timeout(20):
            while not (withdrawn := domain.sent(WithdrawChange)):
                await asyncio.sleep(0.001)
        assert [(to, each.generation) for to, each in withdrawn] == [("n3", 1)]
        await domain.end((0,) if refused else (0, 1, 2, 3), refused)
        assert len(domain.nodes(number)) == (1 if refused else 4)

    asyncio.run(scenario())


def test_end_of_a_job_ends_its_change(store):
    async def scenario():
        domain, number = await growing(store)
        domain.sent(Dismiss)
        await domain.finish(number)
        assert [to for to, _ in domain.sent(Dismiss)] == ["n3", "n0", "n1", "n2"]
        assert store.changes(number)[0].refused == "the job ended"
        assert domain.free == 4
        await domain.admit()  # answers that were on their way
        assert domain.sent(Resize) == []
        assert len(domain.sent(Dismiss)) == 4

    asyncio.run(scenario())


def test_cancelled_job_ends_in_the_middle_of_a_change(store):
    async def scenario():
        domain, number = await growing(store)
        await domain.admit()
        domain.controller.submitting.cancel(number)
        await domain.end((0, 1, 2, 3))
        await domain.finish(number)
        assert domain.record(number).state is State.CANCELLED
        assert domain.free == 4

    asyncio.run(scenario())


def lose(domain, name):
    domain.jobs.node_lost(lost_member(domain, name))


def lost_member(domain, name):
    member = domain.controller.members.by_name[name]
    member.state = type(member.state).LOST
    return member


def test_lost_node_that_was_to_arrive_refuses_the_change(store):
    async def scenario():
        domain, number = await growing(store)
        lose(domain, "n1")
        await passes()
        assert store.changes(number)[0].refused == "node n1 was lost"
        assert domain.record(number).state is State.RUNNING
        assert domain.free == 2

    asyncio.run(scenario())


def test_root_refuses_a_change_to_a_lost_node(store):
    async def scenario():
        domain, number = await growing(store)
        await domain.admit()
        lose(domain, "n1")
        await passes()
        withdrawn = {(each.reason, each.lost) for _, each in domain.sent(WithdrawChange)}
        assert withdrawn == {("node n1 was lost", (2,))}
        domain.sent(Dismiss)
        await domain.end((0,), refused="node n1 was lost")
        assert [to for to, each in domain.sent(End) if each.direct] == ["n0", "n1", "n2"]
        assert domain.sent(Dismiss) == []
        ((to, admit),) = domain.sent(Admit)
        assert (to, admit.places, admit.data) == ("n3", (0,), b"")
        assert domain.record(number).state is State.RUNNING
        assert domain.free == 2

    asyncio.run(scenario())


@pytest.mark.parametrize("done", [True, False])
def test_job_ends_if_its_ranks_may_be_on_a_lost_node(store, done):
    """Either the change is done after all, or the root does not answer."""

    async def scenario():
        life = LifeSettings(prepare_ns=NS_PER_S // 20)
        domain, number = await growing(store, life=life)
        await domain.admit()
        lose(domain, "n1")
        if done:
            await domain.end((0, 1, 2, 3))
        async with asyncio.timeout(20):
            while not (ends := domain.sent(End)):
                await asyncio.sleep(0.001)
        assert {to for to, each in ends if each.direct} == {"n0", "n1", "n2", "n3"}
        for name in ("n0", "n2", "n3"):
            domain.controller.take(name, NodeEnded(number, 1))
        await passes()
        record = domain.record(number)
        assert (record.state, record.reason) == (State.NODE_LOST, "node n1 was lost")
        assert domain.free == 3

    asyncio.run(scenario())


def test_loss_of_a_node_that_left_does_not_matter(store):
    async def scenario():
        domain = Played(store)
        number = await domain.run(minimum=1, ideal=4)
        domain.controller.submit(nodes=2)
        await passes()
        await domain.change((0, 1))
        lose(domain, "n3")
        await passes()
        assert domain.record(number).state is State.RUNNING
        lose(domain, "n1")
        assert [each.direct for to, each in domain.sent(End) if each.job == number] == [
            True, True,
        ]  # fmt: skip

    asyncio.run(scenario())


def test_drained_node_leaves_the_job(store):
    async def scenario():
        domain = Played(store)
        number = await domain.run(minimum=1, ideal=4)
        domain.jobs.node_drained(domain.controller.members.by_name["n2"])
        await passes()
        await domain.change((0, 1, 3))
        assert domain.nodes(number) == ("n0", "n1", "n3")
        assert store.changes(number)[0].reason == "gave 1 node out of service"
        assert domain.free == 0

    asyncio.run(scenario())


def restarted(store, number, *names, more=None, **others):
    """Returns the domain after a restart of the controller. names: the nodes that have a
    part of the job; the first one is its root."""
    reports = {
        name: (
            StartReport(number, 1, Stage.GONE.value, time.time_ns(), root=name == names[0]),
        )
        for name in names
    }
    return Played(store, reports={**reports, **(more or {})}, **others)


def test_restarted_controller_asks_all_nodes_again(store):
    async def scenario():
        domain, number = await growing(store)
        for sent in (False, True):
            domain = restarted(store, number, "n3", "n0", "n1", "n2")
            await passes()
            assert domain.free == 0
            assert len(await domain.admit()) == 4
            ((_, order),) = domain.sent(Resize)
            assert order.generation == 1, sent
        ended = ChangeEnded(number, 1, 1, (0, 1, 2, 3), TIMES)
        for _ in range(2):
            domain.controller.take("n3", ended)
            await passes()
        assert len(domain.nodes(number)) == 4
        assert len(store.changes(number)) == 1
        await domain.finish(number)
        assert domain.free == 4

    asyncio.run(scenario())


def test_restarted_controller_has_the_end_of_a_change(store):
    """The root repeats it. Nodes that left still have the job."""

    async def scenario():
        domain = Played(store)
        number = await domain.run(minimum=1, ideal=4)
        domain.controller.submit(nodes=2)
        await passes()
        await domain.change((0, 1))
        domain = restarted(store, number, *NODES)
        domain.controller.take("n0", ChangeEnded(number, 1, 1, (0, 1), TIMES))
        await passes()
        assert domain.nodes(number) == ("n0", "n1")
        ends = [(to, each.job, each.direct) for to, each in domain.sent(End)]
        assert ends == [("n2", number, True), ("n3", number, True)]
        for name in ("n2", "n3"):
            domain.controller.take(name, NodeEnded(number, 1))
        await passes()
        assert domain.nodes(2) == ("n2", "n3")

    asyncio.run(scenario())


def test_drained_node_leaves_its_job_after_a_restart_of_the_controller(store):
    async def scenario():
        number = await Played(store).run(minimum=1, ideal=4)
        domain = restarted(store, number, *NODES, drained="n2")
        await passes()
        await domain.change((0, 1, 3))
        assert domain.nodes(number) == ("n0", "n1", "n3")

    asyncio.run(scenario())


@pytest.mark.parametrize("sent", [True, False])
def test_arriving_node_is_lost_while_the_controller_is_away(store, sent):
    async def scenario():
        domain, number = await growing(store)
        if sent:
            await domain.admit()
        domain = restarted(store, number, "n3", "n0", "n1")
        domain.controller.members.by_name["n2"].restarted = True
        # It has no start, and the recovery asks again.
        await passes()
        assert domain.record(number).state is State.RUNNING

    asyncio.run(scenario())


def test_pace_reaches_the_queue_and_wishes_change_the_size(store):
    async def scenario():
        domain = Played(store)
        number = await domain.run(minimum=1, ideal=4)

        async def sensed(size, iterations, **wants):
            wants = {"minimum": 0, "ideal": 0, "wanted": 0, "asked": 0, **wants}
            exec_ns = iterations * (800 // size)
            report = JobSensed(number, 1, size, iterations, exec_ns, 0, *wants.values())
            domain.controller.take("n0", report)
            await passes()

        run = domain.jobs.queue.place.running[number]
        await sensed(4, 10)
        await sensed(4, 30)
        assert run._sensed == {4: (30, 6000)}
        await sensed(4, 30, wanted=2)
        await domain.change((0, 1))
        assert domain.nodes(number) == ("n0", "n1")
        assert store.changes(number)[0].reason == "gave 2 nodes: it wants 2 at most"
        await sensed(2, 5)
        assert run.execution(2, 4) == pytest.approx(2.0)
        await sensed(2, 5, wanted=9)
        assert len((await domain.admit())[2][1].data) > 0

    asyncio.run(scenario())


def test_program_asks_for_nodes_where_running_jobs_get_none(store):
    async def scenario():
        changes = ChangeSettings(distribution="queued-only")
        queue = QueueSettings("fcfs", size="malleable", changes=changes)
        domain, number = await growing(store, queue=queue)
        assert await domain.admit() == []
        asked = JobSensed(number, 1, 1, 0, 0, 0, 0, 0, 3, 1)
        domain.controller.take("n3", asked)
        await passes()
        await domain.change((0, 1, 2))
        assert domain.nodes(number) == ("n3", "n0", "n1")

    asyncio.run(scenario())


def test_program_keeps_its_minimum(store):
    async def scenario():
        domain = Played(store)
        number = await domain.run(minimum=1, ideal=4)
        report = JobSensed(number, 1, 4, 0, 0, 0, 3, 0, 0, 0)
        domain.controller.take("n0", report)
        domain.controller.submit(nodes=2)
        await passes()
        assert domain.sent(Admit) == []
        domain.controller.submit(nodes=1)
        domain.controller.submitting.cancel(2)
        await passes()
        await domain.change((0, 1, 2))
        assert domain.nodes(number) == ("n0", "n1", "n2")

    asyncio.run(scenario())


def test_messages_that_nodes_may_not_send(store):
    async def scenario():
        domain, number = await growing(store)
        with pytest.raises(CoschedError, match="n0 is not its root"):
            domain.controller.take("n0", ChangeEnded(number, 1, 1, (0,)))
        with pytest.raises(CoschedError, match="n0 is not its root"):
            domain.controller.take("n0", JobSensed(number, 1, 1, 0, 0, 0, 0, 0, 0, 0))
        domain = Played(store)
        rigid = await domain.run(nodes=1)
        with pytest.raises(CoschedError, match="is rigid"):
            domain.controller.take("n0", Admitted(rigid, 1, 1))

    asyncio.run(scenario())


def test_job_ends_if_its_root_reports_other_nodes(store):
    async def scenario():
        domain, number = await growing(store)
        await domain.admit()
        await domain.end((0, 1))
        for name in ("n0", "n1", "n2", "n3"):
            domain.controller.take(name, NodeEnded(number, 1))
        await passes()
        record = domain.record(number)
        assert (record.state, record.reason) == (
            State.FAILED,
            "the root reports places (0, 1)",
        )
        assert domain.free == 4

    asyncio.run(scenario())


def test_reload_during_a_change(store):
    async def scenario():
        domain, number = await growing(store)
        changes = ChangeSettings(distribution="queued-only")
        queue = QueueSettings("fcfs", size="malleable", changes=changes)
        domain.controller.jobs.configure(replace(domain.controller.config, queue=queue))
        await passes()
        await domain.change((0, 1, 2, 3))
        other = await run_beside(domain, number)
        await domain.finish(other)
        assert domain.sent(Admit) == []  # the nodes wait for jobs
        assert domain.free == 2

    asyncio.run(scenario())


async def run_beside(domain, number):
    """Runs a job on two nodes of another one, which has all four."""
    other = domain.controller.submit(nodes=2, ppn=1)
    await passes()
    await domain.change((0, 1))
    assert len(domain.nodes(number)) == 2
    domain.begin(other)
    await passes()
    return other


def test_rigid_domain_refuses_malleable_jobs(store):
    async def scenario():
        controller = Controller(store, NODES)
        controller.join("n0")
        controller.recovery.resolve()
        with pytest.raises(CoschedError, match="this domain keeps the sizes of jobs"):
            controller.submit(minimum=1, ideal=2)

    asyncio.run(scenario())


def test_moldable_job_keeps_the_nodes_that_were_free(store):
    async def scenario():
        domain = Played(store, queue=QueueSettings("fcfs", size="moldable"))
        rigid = await domain.run(nodes=2, ppn=1)
        number = await domain.run(minimum=1, ideal=4)
        assert domain.nodes(number) == ("n2", "n3")
        assert domain.record(number).size is None
        await domain.finish(rigid)
        assert domain.sent(Admit) == []
        domain = restarted(store, number, "n2", "n3")
        assert domain.record(number).state is State.RUNNING

    asyncio.run(scenario())


async def shrinking(store):
    """Returns a domain whose job has n1, n2 and n3, and gives n3 by an order that the root
    has; and its number."""
    domain = Played(store)
    filler = await domain.run(nodes=1)
    number = await domain.run(minimum=1, ideal=3)
    assert domain.nodes(filler) == ("n0",)
    assert domain.nodes(number) == ("n1", "n2", "n3")
    domain.controller.submit(nodes=1)
    await passes()
    await domain.admit()
    return domain, number


@pytest.mark.parametrize("end", ["lost", "reported"])
def test_end_of_a_change_does_not_free_nodes_of_a_job_that_ends(store, end):
    """A node of the job was lost, and the root's report was under way. The tasks on the
    leaving node may be in their grace."""

    async def scenario():
        domain, number = await shrinking(store)
        lose(domain, "n2")
        await domain.end((0, 1))
        assert domain.record(3).state is State.QUEUED
        domain.controller.take("n1", NodeEnded(number, 1))
        await passes()
        assert domain.record(number).state is State.RUNNING
        if end == "lost":
            lose(domain, "n3")
        else:
            domain.controller.take("n3", NodeEnded(number, 1))
        await passes()
        assert domain.record(number).state is State.NODE_LOST
        assert domain.record(3).state is State.STARTING

    asyncio.run(scenario())


def test_answer_about_a_change_is_too_late_if_the_job_ends(store):
    async def scenario():
        domain, number = await growing(store)
        domain.jobs.starts.lose(domain.jobs.starts.active[number], "n3")
        await domain.admit(problem="no slots")
        assert store.changes(number) == []
        assert domain.free == 0  # the arriving nodes have not reported
        for name in ("n0", "n1", "n2"):
            domain.controller.take(name, NodeEnded(number, 1))
        await passes()
        assert domain.record(number).state is State.NODE_LOST

    asyncio.run(scenario())


def membership_of(domain, directory):
    """Returns the membership of the domain's nodes, without links."""
    config = domain.controller.config
    make_keys(directory / "keys", config.members)
    keys = load_keys(directory / "keys", "controller", config.members)
    members, jobs = domain.controller.members, domain.jobs
    paths, log = DomainPaths(directory), domain.controller.log.append
    return Membership(paths, keys, members, None, jobs, None, None, log)


@pytest.mark.parametrize("out", ["drained", "removed", "strays"])
def test_moldable_job_keeps_a_node_that_leaves_service(store, tmp_path, out):
    async def scenario():
        domain = Played(store, queue=QueueSettings("fcfs", size="moldable"))
        number = await domain.run(minimum=1, ideal=4)
        member = domain.controller.members.by_name["n2"]
        match out:
            case "drained":
                domain.jobs.node_drained(member)
            case "removed":
                membership_of(domain, tmp_path).mark_leaving({"n0", "n1", "n3"})
            case "strays":
                domain.jobs.strays.end("n2", 99, 1)
        await passes()
        assert domain.sent(Admit) == []
        assert domain.nodes(number) == NODES
        assert domain.jobs.queue.jobs.state(number) is QueueState.RUNNING
        await domain.finish(number)
        assert domain.free == 3

    asyncio.run(scenario())
