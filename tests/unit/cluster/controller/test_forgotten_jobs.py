"""Jobs that ended so long ago that the controller forgets them."""

import asyncio

import pytest

from cosched.cluster import store as store_module
from cosched.cluster.messages import SubtreeEnded, SubtreePrepared
from cosched.cluster.record import State
from tests.unit.cluster.controller.controller_alone import NODES, Controller, passes

__all__ = ["NODES"]


async def up(store):
    controller = Controller(store, rows=9)
    for name in controller.members.by_name:
        controller.join(name)
    controller.recovery.resolve()
    return controller


async def end(controller, *numbers):
    """Runs jobs that wait, and ends them."""
    await passes()
    for number in numbers:
        start = controller.jobs.starts.active[number]
        controller.take(start.root, SubtreePrepared(number, start.record.start))
        controller.take(start.root, SubtreeEnded(number, start.record.start, None))
        await passes()
        assert controller.store.find(number).state is State.DONE


def forget(controller, before_ns=None):
    """Forgets what ended before, by default all."""
    before_ns = controller.jobs.clock.now_ns() + 1 if before_ns is None else before_ns
    return controller.jobs.records.forget_ended(before_ns)


def numbers_in(store):
    return [
        number for (number,) in store._file.rows("SELECT number FROM jobs ORDER BY number")
    ]


def test_ended_jobs_are_forgotten_unless_a_job_needs_them(store):
    async def scenario():
        controller = await up(store)
        old, named = controller.submit(), controller.submit()
        await end(controller, old, named)
        waits = controller.submit(after=str(named))
        array = controller.submit(array="1-2")
        await end(controller, array)
        assert forget(controller, before_ns=1) == 0
        assert forget(controller) == 1
        assert numbers_in(store) == [named, waits, array, array + 1]
        answer = await controller.ask(do="job", job=old)
        assert "there is no such job" in answer["error"]
        # The array goes as a whole, and a named job with the last one that names it.
        await end(controller, waits, array + 1)
        assert forget(controller) == 4
        assert numbers_in(store) == []
        assert store._file.find("SELECT count(*) FROM arrays") == (0,)
        assert forget(controller) == 0
        assert controller.submit() == array + 2  # no number is given again

    asyncio.run(scenario())


def test_named_array_stays(store):
    async def scenario():
        controller = await up(store)
        array = controller.submit(array="1-2")
        await end(controller, array, array + 1)
        waits = controller.submit(after=f"{array}_2")
        assert forget(controller) == 0
        await end(controller, waits)
        assert forget(controller) == 3

    asyncio.run(scenario())


def test_jobs_that_stay_do_not_keep_later_ones(store, monkeypatch):
    """Held jobs, and tasks of an array that has not ended, may stay for ever."""
    monkeypatch.setattr(store_module, "FORGET_MOST", 2)

    async def scenario():
        controller = await up(store)
        held = [controller.submit(held=True) for _ in range(3)]
        array = controller.submit(array="1-4")
        controller.jobs.batch_jobs.hold([array + 3])
        await end(controller, array, array + 1, array + 2)
        later = controller.submit()
        await end(controller, later)
        assert forget(controller) == 1
        assert numbers_in(store) == [*held, *range(array, array + 4)]

    asyncio.run(scenario())


@pytest.mark.parametrize("most", [1, 2, 3])
def test_few_jobs_are_forgotten_together(store, monkeypatch, most):
    monkeypatch.setattr(store_module, "FORGET_MOST", most)

    async def scenario():
        controller = await up(store)
        numbers = [controller.submit() for _ in range(5)]
        await end(controller, *numbers)
        removed = []
        while numbers_in(store):
            removed.append(forget(controller))
        assert sum(removed) == 5
        assert max(removed) == most

    asyncio.run(scenario())
