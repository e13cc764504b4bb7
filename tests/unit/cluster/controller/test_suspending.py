"""The controller carries out the suspensions of its queue. The nodes are played."""

import asyncio
from dataclasses import replace

import msgspec
import pytest

from cosched.cluster.messages import NodeEnded, StartReport, SubtreeEnded, SubtreePrepared
from cosched.cluster.record import State
from cosched.cluster.suspend_messages import (
    ContinueTasks,
    SuspendTasks,
    TasksContinued,
    TasksSuspended,
)
from cosched.config.queue import ChangeSettings, QueueSettings
from cosched.core.cluster.queue.states import State as Queued
from cosched.core.cluster.startup.two_phase import Stage
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from tests.unit.cluster.controller.controller_alone import Controller, passes

NODES = ("n0", "n1", "n2")
CHANGES = ChangeSettings(suspend_ns=600 * NS_PER_S)
QUEUE = QueueSettings("fcfs", size="malleable", changes=CHANGES)
SHORT = {"time_ns": 60 * NS_PER_S}


class Played:
    """A controller that suspends jobs, and its nodes."""

    def __init__(self, store, queue=QUEUE, reports=None):
        self.controller = Controller(store, NODES, queue=queue)
        for name in NODES:
            self.controller.join(name, reports=(reports or {}).get(name, ()))
        self.controller.recovery.resolve()

    @property
    def jobs(self):
        return self.controller.jobs

    async def begin(self, number):
        start = self.jobs.starts.active[number]
        self.controller.take(start.root, SubtreePrepared(number, start.record.start))
        await passes()

    async def run(self, **more):
        number = self.controller.submit(**more)
        await passes()
        await self.begin(number)
        return number

    async def submit(self, **more):
        number = self.controller.submit(**more)
        await passes()
        return number

    def sent(self, kind):
        """Returns the messages of a kind since the last call, with their receivers."""
        found = [(to, each) for to, each in self.controller.sent if isinstance(each, kind)]
        self.controller.sent[:] = [
            each for each in self.controller.sent if not isinstance(each[1], kind)
        ]
        return found

    async def answer(self, kind, *names, problem=""):
        """Lets nodes answer the orders of a kind that were sent; returns the orders. names:
        these nodes; all of them if none is named."""
        orders = self.sent(kind)
        for to, each in orders:
            if names and to not in names:
                continue
            about = (each.job, each.start, each.times)
            if kind is SuspendTasks:
                self.controller.take(to, TasksSuspended(*about, problem))
            else:
                self.controller.take(to, TasksContinued(*about))
        await passes()
        return orders

    async def finish(self, number):
        start = self.jobs.starts.active[number]
        ended = SubtreeEnded(number, start.record.start, None)
        self.controller.take(start.root, ended)
        await passes()

    def record(self, number):
        return self.controller.store.find(number)

    def queued(self, number):
        return self.jobs.queue.jobs.state(number)


async def lending(store, **more):
    """Returns a domain whose first job has all nodes, and was ordered to stop for the
    second one; and the numbers of both."""
    domain = Played(store)
    first = await domain.run(nodes=3)
    second = await domain.submit(nodes=2, **{**SHORT, **more})
    return domain, first, second


async def lent(store):
    """Returns the same once the second job runs."""
    domain, first, second = await lending(store)
    await domain.answer(SuspendTasks)
    await domain.begin(second)
    return domain, first, second


def restarted(store, *numbers, queue=QUEUE, without=()):
    """Returns the domain after a restart of the controller. numbers: the jobs that run.
    without: these nodes have lost them."""
    reports = {name: [] for name in NODES}
    for number in numbers:
        record = store.find(number)
        for place, name in enumerate(record.hosts):
            gone = Stage.GONE.value
            since_ns = record.started_ns
            report = StartReport(number, record.start, gone, since_ns, root=place == 0)
            if name not in without:
                reports[name].append(report)
    return Played(store, queue, reports)


def test_job_lends_its_nodes_and_continues(store):
    async def scenario():
        domain, first, second = await lending(store)
        orders = await domain.answer(SuspendTasks, "n0", "n2")
        assert [to for to, _ in orders] == ["n0", "n1", "n2"]
        assert domain.queued(first) is Queued.SUSPENDING
        assert domain.record(second).state is State.QUEUED
        domain.controller.take("n1", TasksSuspended(first, 1, 1))
        await passes()
        assert domain.record(first).suspension.is_suspended
        assert domain.record(second).nodes == ("n0", "n1")
        await domain.begin(second)
        await domain.finish(second)
        orders = await domain.answer(ContinueTasks)
        assert [to for to, _ in orders] == ["n0", "n1", "n2"]
        assert domain.queued(first) is Queued.RUNNING
        stored = domain.record(first).suspension
        assert (stored.for_job, stored.done, stored.is_suspended) == (None, 1, False)
        assert stored.total_ns > 0
        await domain.finish(first)
        assert domain.jobs.queue.place.free == 3

    asyncio.run(scenario())


def test_node_that_cannot_stop_its_tasks_refuses(store):
    async def scenario():
        domain, first, second = await lending(store)
        await domain.answer(SuspendTasks, "n1", problem="no memory")
        domain.controller.take("n0", TasksSuspended(first, 1, 1))  # it comes too late
        assert domain.queued(first) is Queued.SUSPENDING
        await domain.answer(ContinueTasks)
        assert domain.queued(first) is Queued.RUNNING
        assert domain.record(second).state is State.QUEUED
        assert f"job {first}: is not suspended: n1: no memory" in domain.controller.log
        stored = domain.record(first).suspension
        assert (stored.done, stored.total_ns, stored.refused) == (0, 0, "")

    asyncio.run(scenario())


@pytest.mark.parametrize("own", ["", "x", "3"])
@pytest.mark.parametrize("other", ["", "5"])
def test_nodes_check_the_memory_of_both_jobs(store, own, other):
    def environ(text):
        return {"COSCHED_MEMORY": text} if text else {}

    async def scenario():
        domain = Played(store)
        record = domain.controller._record(nodes=3)
        record.submission = replace_environ(record.submission, environ(own))
        first = domain.controller.submitting.submit(record).number
        await passes()
        await domain.begin(first)
        record = domain.controller._record(nodes=1, **SHORT)
        record.submission = replace_environ(record.submission, environ(other))
        domain.controller.submitting.submit(record)
        await passes()
        orders = domain.sent(SuspendTasks)
        wanted = 8 if (own, other) == ("3", "5") else 0
        assert [each.memory_bytes for _, each in orders] == [wanted] * 3

    asyncio.run(scenario())


def replace_environ(submission, environ):
    return msgspec.structs.replace(submission, environ=environ)


def test_job_that_has_not_begun_is_not_suspended(store):
    async def scenario():
        domain = Played(store)
        first = await domain.submit(nodes=3)
        await domain.submit(nodes=3, **SHORT)
        assert domain.sent(SuspendTasks) == []
        assert domain.queued(first) is Queued.RUNNING
        await domain.begin(first)

    asyncio.run(scenario())


def test_answers_to_no_order_are_ignored(store):
    async def scenario():
        domain, first, _ = await lending(store)
        for message in (TasksContinued(first, 1, 1), TasksSuspended(first, 1, 2)):
            domain.controller.take("n0", message)
        await domain.answer(SuspendTasks, "n0", "n1")
        domain.controller.take("n0", TasksSuspended(first, 1, 1))  # it answers twice
        await passes()
        assert domain.queued(first) is Queued.SUSPENDING

    asyncio.run(scenario())


def test_cancelled_borrower_lets_the_job_continue(store):
    async def scenario():
        domain, first, second = await lending(store)
        domain.controller.submitting.cancel(second)
        await domain.answer(SuspendTasks)
        await domain.answer(ContinueTasks)
        assert domain.queued(first) is Queued.RUNNING

    asyncio.run(scenario())


def test_suspended_job_can_be_cancelled(store):
    async def scenario():
        domain, first, second = await lent(store)
        domain.controller.submitting.cancel(first)
        await domain.finish(first)
        assert domain.record(first).state is State.CANCELLED
        assert domain.record(first).suspension.for_job is None
        assert domain.queued(second) is Queued.RUNNING
        assert domain.jobs.queue.place.free == 1
        await domain.finish(second)
        assert domain.jobs.queue.place.free == 3

    asyncio.run(scenario())


def test_lost_node_ends_both_jobs(store):
    async def scenario():
        domain, first, second = await lent(store)
        domain.jobs.node_lost(domain.controller.members.by_name["n1"])
        for name in ("n0", "n2"):
            domain.controller.take(name, NodeEnded(first, 1))
        domain.controller.take("n0", NodeEnded(second, 1))
        await passes()
        for number in (first, second):
            assert domain.record(number).state is State.NODE_LOST

    asyncio.run(scenario())


# --- restarts of the controller -----------------------------------------------------------


def test_restart_before_all_nodes_have_stopped_asks_again(store):
    async def scenario():
        domain, first, second = await lending(store)
        await domain.answer(SuspendTasks, "n0")
        domain = restarted(store, first)
        await passes()
        assert domain.queued(first) is Queued.SUSPENDING
        orders = await domain.answer(SuspendTasks)
        assert [to for to, _ in orders] == ["n0", "n1", "n2"]
        assert domain.record(second).nodes == ("n0", "n1")

    asyncio.run(scenario())


def test_restart_while_the_borrower_runs(store):
    async def scenario():
        domain, first, second = await lent(store)
        domain = restarted(store, second, first)
        await passes()
        assert domain.queued(first) is Queued.SUSPENDED
        assert domain.jobs.queue.place.loans.keys() == {second}
        assert not domain.sent((SuspendTasks, ContinueTasks))
        await domain.finish(second)
        await domain.answer(ContinueTasks)
        assert domain.queued(first) is Queued.RUNNING

    asyncio.run(scenario())


def test_restart_after_the_borrower_has_ended(store):
    async def scenario():
        domain, first, second = await lent(store)
        await domain.finish(second)
        await domain.answer(ContinueTasks, "n1")
        domain = restarted(store, first)
        await passes()
        await domain.answer(ContinueTasks)
        assert domain.queued(first) is Queued.RUNNING

    asyncio.run(scenario())


def test_restart_while_a_refused_job_is_to_continue(store):
    async def scenario():
        domain, first, _ = await lending(store)
        await domain.answer(SuspendTasks, "n1", problem="no memory")
        domain = restarted(store, first)
        await passes()
        assert domain.queued(first) is Queued.SUSPENDING
        await domain.answer(ContinueTasks)
        assert domain.queued(first) is Queued.RUNNING

    asyncio.run(scenario())


def test_restart_that_has_lost_the_borrower_lets_the_job_continue(store):
    async def scenario():
        domain, first, second = await lent(store)
        domain = restarted(store, first)
        await passes()
        assert domain.record(second).state is State.NODE_LOST
        await domain.answer(ContinueTasks)
        assert domain.queued(first) is Queued.RUNNING

    asyncio.run(scenario())


def test_restart_that_has_lost_the_owner_leaves_the_borrower_its_nodes(store):
    async def scenario():
        domain, first, second = await lent(store)
        domain = restarted(store, second)
        await passes()
        assert domain.record(first).state is State.NODE_LOST
        assert domain.jobs.queue.place.free == 1
        await domain.finish(second)
        assert domain.jobs.queue.place.free == 3

    asyncio.run(scenario())


def test_domain_without_the_setting_lets_suspended_jobs_continue(store):
    async def scenario():
        domain, first, second = await lent(store)
        queue = QueueSettings("easy", size="malleable")
        config = replace(domain.controller.config, queue=queue)
        domain.jobs.configure(config)
        await passes()
        await domain.finish(second)
        await domain.answer(ContinueTasks)
        assert domain.queued(first) is Queued.RUNNING

    asyncio.run(scenario())


def test_moldable_domain_suspends_jobs_too(store):
    async def scenario():
        queue = QueueSettings("fcfs", size="moldable", changes=CHANGES)
        domain = Played(store, queue)
        first = await domain.run(minimum=1, ideal=3)
        second = await domain.submit(minimum=2, ideal=2, **SHORT)
        await domain.answer(SuspendTasks)
        assert domain.record(second).nodes == ("n0", "n1")
        assert domain.queued(first) is Queued.SUSPENDED

    asyncio.run(scenario())


def test_answers_of_nodes_about_ended_jobs_end_them(store):
    async def scenario():
        domain, first, _ = await lending(store)
        await domain.finish(first)
        domain.controller.take("n0", TasksSuspended(first, 1, 1))
        with pytest.raises(CoschedError, match="there is no job"):
            domain.controller.take("n0", TasksSuspended(1 << 50, 1, 1))

    asyncio.run(scenario())
