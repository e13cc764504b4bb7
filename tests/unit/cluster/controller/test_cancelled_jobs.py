"""A cancel that was accepted is never forgotten, and a domain that ends starts no job."""

import asyncio
import os

import pytest

from cosched.cluster.messages import (
    End,
    Failure,
    GiveInput,
    NodeEnded,
    Order,
    StartReport,
    SubtreeEnded,
    SubtreePrepared,
)
from cosched.cluster.record import State
from cosched.config.domain import LifeSettings
from cosched.core.cluster.startup.two_phase import Stage
from cosched.core.errors import CoschedError
from tests.unit.cluster.controller.controller_alone import Controller, passes

FULL = "jobs.sqlite: database or disk is full"
NODES = ("n1", "n2")


def up(store, *, reports=(), lost=(), life=None):
    """Returns a controller whose nodes but ``lost`` answer with these reports."""
    controller = Controller(store, NODES, life=life)
    for name in NODES:
        if name not in lost:
            controller.join(name, reports=reports)
    controller.recovery.resolve()
    return controller


async def started(controller, *, begins=True, **more):
    """Submits a job on both nodes, or as ``more`` has it; returns its number."""
    number = controller.submit(**{"nodes": 2, "ppn": 1, **more})
    await passes()
    if begins:
        start = controller.jobs.starts.active[number]
        controller.take(start.root, SubtreePrepared(number, start.record.start))
    return number


def ends_of(controller, number):
    return [m for _, m in controller.sent if isinstance(m, End) and m.job == number]


def test_cancel_counts_after_the_loss_of_a_node(store):
    """Without it the job would wait again, because it may be requeued."""

    async def scenario():
        controller = up(store)
        number = await started(controller, requeue=True)
        controller.jobs.node_lost(controller.members.by_name["n2"])
        controller.submitting.cancel(number)
        controller.take("n1", NodeEnded(number, 1))
        assert store.find(number).state is State.CANCELLED

    asyncio.run(scenario())


def test_cancel_counts_for_a_start_that_took_too_long(store):
    async def scenario():
        controller = up(store, life=LifeSettings(prepare_ns=1))
        number = await started(controller, begins=False)
        while not ends_of(controller, number):
            await asyncio.sleep(0)
        controller.submitting.cancel(number)
        for name in NODES:
            controller.take(name, NodeEnded(number, 1))
        assert store.find(number).state is State.CANCELLED

    asyncio.run(scenario())


@pytest.mark.parametrize("stage", [Stage.PREPARED, Stage.GONE])
def test_cancel_outlives_the_controller(store, stage):
    async def scenario():
        begins = stage is Stage.GONE
        controller = up(store)
        number = await started(controller, begins=begins, requeue=True)
        controller.submitting.cancel(number)
        again = up(store, reports=[StartReport(number, 1, stage.value, int(begins), True)])
        await passes()
        if begins:
            assert len(ends_of(again, number)) == 1
            again.take("n1", SubtreeEnded(number, 1, Failure(143, "cancelled")))
        assert store.find(number).state is State.CANCELLED
        assert not [m for _, m in again.sent if isinstance(m, Order)]

    asyncio.run(scenario())


def test_cancelled_job_of_a_lost_node_is_cancelled_after_a_restart(store):
    async def scenario():
        controller = up(store)
        number = await started(controller, requeue=True)
        controller.submitting.cancel(number)
        report = StartReport(number, 1, Stage.GONE.value, 1, True)
        up(store, reports=[report], lost=("n2",))
        assert store.find(number).state is State.CANCELLED

    asyncio.run(scenario())


def test_running_job_is_shown_and_cancelled_while_its_nodes_are_asked(store):
    """A command that ends by Ctrl-C asks once."""

    async def scenario():
        number = await started(up(store))
        controller = Controller(store, NODES)
        (shown,) = (await controller.ask(do="queue"))["ok"]
        assert (shown["job"], shown["state"]) == (number, "running")
        assert await controller.ask(do="cancel", job=number) == {"ok": {"job": number}}
        report = StartReport(number, 1, Stage.GONE.value, 1, root=True)
        for name in NODES:
            controller.join(name, reports=[report])
        controller.recovery.resolve()
        assert len(ends_of(controller, number)) == 1
        controller.take("n1", SubtreeEnded(number, 1, None))
        assert store.find(number).state is State.CANCELLED
        assert (await controller.ask(do="queue"))["ok"] == []

    asyncio.run(scenario())


def test_domain_does_not_end_before_the_nodes_have_reported_their_jobs(store):
    async def scenario():
        await started(up(store))
        controller = Controller(store, NODES)
        answer = await controller.ask(0, do="down", end_jobs=True)
        assert answer["error"].endswith("asks its nodes; try again")
        assert not controller.ended

    asyncio.run(scenario())


def test_domain_that_ends_starts_no_job_that_waits(store):
    async def scenario():
        controller = up(store)
        running = [await started(controller, nodes=1) for _ in NODES]
        waits = controller.submit(nodes=1, ppn=1)
        down = asyncio.ensure_future(controller.ask(0, do="down", end_jobs=True))
        for number in running:
            await passes()
            assert controller.jobs.records.live[waits].state is State.QUEUED
            root = controller.jobs.starts.active[number].root
            controller.take(root, SubtreeEnded(number, 1, None))
        await down
        await passes()
        assert controller.ended
        assert store.find(waits).state is State.QUEUED

    asyncio.run(scenario())


def test_domain_that_ends_takes_no_more_jobs(store):
    """Such a job would wait in a domain that is down."""

    async def scenario():
        controller = up(store)
        controller.jobs.ends = True
        job = {"token": "t", "name": "a", "argv": ["/bin/true"], "environ": {}, "cwd": "/"}
        submit = asyncio.ensure_future(controller.ask(os.geteuid(), do="submit", job=job))
        await passes()
        assert not submit.done()
        assert store.live() == []
        submit.cancel()

    asyncio.run(scenario())


def test_domain_goes_on_if_the_operator_does_not_wait_for_its_end(store):
    async def scenario():
        controller = up(store)
        number = await started(controller)
        down = asyncio.ensure_future(controller.ask(0, do="down", end_jobs=True))
        await passes()
        down.cancel()
        await asyncio.wait({down})
        controller.take("n1", SubtreeEnded(number, 1, None))
        other = await started(controller)
        assert other in controller.jobs.starts.active

    asyncio.run(scenario())


def test_input_for_a_start_that_is_not_there_ends_nothing(store):
    """An agent passes on to the controller what its users give."""

    async def scenario():
        controller = up(store)
        with pytest.raises(CoschedError, match="GiveInput is not for the controller"):
            controller.take("n1", GiveInput(9, 1, 1, 7, 0, b"", True))
        assert controller.sent == []

    asyncio.run(scenario())


def test_release_without_nodes_changes_nothing(store):
    async def scenario():
        number = up(store).submit(nodes=1, ppn=1, held=True)
        with pytest.raises(CoschedError):
            up(store, lost=NODES).jobs.batch_jobs.unhold([number])
        assert store.find(number).state is State.HELD

    asyncio.run(scenario())


def test_start_that_cannot_be_stored_ends_the_controller(store, monkeypatch):
    """The queue believes that the job runs, so no request may answer for it."""

    def fail(_record):
        raise CoschedError(FULL)

    async def scenario():
        controller = up(store)
        monkeypatch.setattr(store, "save", fail)
        job = {"token": "t", "name": "a", "argv": ["/bin/true"], "environ": {}, "cwd": "/"}
        with pytest.raises(Exception, match=FULL) as caught:
            await controller.ask(0, do="submit", job={**job, "at_once": True})
        assert not isinstance(caught.value, CoschedError)

    asyncio.run(scenario())
