"""Owners change the bounds of their malleable jobs."""

import asyncio

import pytest

from cosched.cluster.record import State
from cosched.config.queue import QueueSettings
from cosched.core.units import NS_PER_S
from tests.unit.cluster.controller.controller_alone import NODES, Controller, passes

MALLEABLE = QueueSettings("fcfs", size="malleable")
HOUR_NS = 3600 * NS_PER_S


def with_a_held_job(store, *, queue=MALLEABLE, **more):
    """Returns a controller of these nodes, and the number of a job."""
    controller = Controller(store, queue=queue)
    for name in NODES:
        controller.join(name)
    controller.recovery.resolve()
    sizes = {"minimum": 1, "ideal": 2, "time_ns": HOUR_NS, "held": True}
    return controller, controller.submit(**{**sizes, **more})


async def resize(controller, number, uid=7, **bounds):
    return await controller.ask(uid, do="resize", job=number, **bounds)


@pytest.mark.parametrize(
    ("asked", "bounds"),
    [
        ({"minimum": 2, "ideal": 3}, (2, 3)),
        ({"minimum": 2}, (2, 2)),
        ({"minimum": None, "ideal": 3}, (1, 3)),
        ({"ideal": 1}, (1, 1)),
    ],
)
def test_new_bounds_are_stored_with_the_job(store, asked, bounds):
    async def scenario():
        controller, number = with_a_held_job(store)
        answer = await resize(controller, number, **asked)
        shown = {"minimum": bounds[0], "ideal": bounds[1], "preferred": None}
        assert answer == {"ok": {"job": number, **shown}}
        job = store.find(number).submission
        assert (job.minimum, job.ideal) == bounds
        assert job.time_ns == HOUR_NS * 2 // bounds[1], "the work stays as it is"
        shown = (await controller.ask(do="job", job=number))["ok"]
        assert (shown["minimum"], shown["ideal"]) == bounds

    asyncio.run(scenario())


def test_job_that_waits_for_another_one_gets_other_bounds(store):
    async def scenario():
        controller, first = with_a_held_job(store)
        number = controller.submit(minimum=1, ideal=2, after=str(first))
        assert "ok" in await resize(controller, number, minimum=2, ideal=3)
        controller.submitting.cancel(first)
        await passes()
        assert controller.starts() == [(number, 1, ((0, 2),))]

    asyncio.run(scenario())


def test_each_task_of_an_array_that_has_not_ended_gets_other_bounds(store):
    async def scenario():
        controller, first = with_a_held_job(store, array="1-3")
        controller.submitting.cancel(first + 1)
        assert "ok" in await resize(controller, first, minimum=2)
        assert "ok" in await resize(controller, first, tasks="3", ideal=3)
        jobs = [store.find(first + task).submission for task in range(3)]
        assert [(job.minimum, job.ideal) for job in jobs] == [(2, 2), (1, 2), (2, 3)]
        refused = await resize(controller, first, tasks="2", ideal=3)
        assert refused["error"].startswith(f"job {first + 1}: ")

    asyncio.run(scenario())


def test_ideal_of_all_nodes_stays_so(store):
    async def scenario():
        controller, number = with_a_held_job(store, ideal=0)
        answer = await resize(controller, number, minimum=2)
        shown = {"minimum": 2, "ideal": 3, "preferred": None}
        assert answer == {"ok": {"job": number, **shown}}
        assert store.find(number).submission.ideal == 0

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("asked", "preferred"),
    [
        ({"preferred": 3}, 3),
        ({"minimum": 2}, 2),
        ({"minimum": 3, "ideal": 3}, 3),
        ({"minimum": 1, "ideal": 1}, 1),
        ({"minimum": 1, "preferred": 1}, 1),
    ],
)
def test_preferred_size_is_kept_within_the_bounds(store, asked, preferred):
    async def scenario():
        controller, number = with_a_held_job(store, ideal=3, preferred=2)
        answer = await resize(controller, number, **asked)
        assert answer["ok"]["preferred"] == preferred
        assert store.find(number).submission.preferred == preferred
        shown = (await controller.ask(do="job", job=number))["ok"]
        assert shown["preferred"] == preferred

    asyncio.run(scenario())


def test_queue_plans_with_a_new_preferred_size(store):
    async def scenario():
        controller, number = with_a_held_job(store, ideal=3, preferred=2, held=False)
        await passes()
        run = controller.jobs.queue.place.running[number]
        assert run.preferred == 2
        await resize(controller, number, preferred=1)
        assert run.preferred == 1

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (
            {"minimum": 3},
            "minimum 3 is above ideal 2; give both, such as 2..3",
        ),
        ({"minimum": 0}, "minimum 0: must be 1 or more"),
        ({"minimum": 1, "ideal": 0}, "ideal 0: must be 1 or more"),
        ({"minimum": 2, "ideal": 4}, "ideal 4: the domain has 3 nodes"),
        ({"minimum": -1}, "the minimum of a job"),
        ({"minimum": 1 << 70}, "the minimum of a job"),
        ({"ideal": "2"}, "the ideal of a job"),
        ({"uid": 8, "ideal": 1}, "belongs to another user"),
        ({"preferred": 3}, "3: is not between the minimum of 1 and the ideal of 2 nodes"),
        ({"preferred": 0}, "0: is not between the minimum of 1 and the ideal of 2 nodes"),
        ({"preferred": "1"}, "the preferred of a job"),
    ],
)
def test_bounds_that_are_refused_change_nothing(store, asked, reason):
    async def scenario():
        controller, number = with_a_held_job(store)
        before = store.find(number)
        error = (await resize(controller, number, **asked))["error"]
        assert reason in error
        assert "\n" not in error
        assert store.find(number) == before

    asyncio.run(scenario())


def test_root_may_resize(store):
    async def scenario():
        controller, number = with_a_held_job(store)
        assert "ok" in await resize(controller, number, uid=0, ideal=1)

    asyncio.run(scenario())


def test_rigid_and_ended_jobs_are_refused(store):
    async def scenario():
        controller, rigid = with_a_held_job(store, minimum=0, ideal=0, nodes=2)
        error = (await resize(controller, rigid, ideal=1))["error"]
        assert error == (
            f"job {rigid}: is rigid: it was not submitted with --min and --ideal"
        )
        controller.submitting.cancel(rigid)
        assert store.find(rigid).state is State.CANCELLED
        error = (await resize(controller, rigid, ideal=1))["error"]
        assert error == f"job {rigid}: has ended (cancelled)"
        error = (await resize(controller, 99, ideal=1))["error"]
        assert error == "job 99: there is no such job"

    asyncio.run(scenario())


def test_domain_of_rigid_jobs_changes_none(store):
    """Its job is from before ``size`` was changed."""

    async def scenario():
        _, number = with_a_held_job(store)
        controller = Controller(store, queue=QueueSettings("fcfs"))
        controller.recovery.resolve()
        before = store.find(number)
        error = (await resize(controller, number, ideal=1))["error"]
        assert error == (
            f'job {number}: this domain does not change it; [queue] size is "rigid"'
        )
        assert store.find(number) == before

    asyncio.run(scenario())


def test_bounds_outlive_a_restart(store):
    async def scenario():
        controller, number = with_a_held_job(store)
        await resize(controller, number, minimum=2, ideal=3)
        again = Controller(store, queue=MALLEABLE)
        again.recovery.resolve()
        shown = (await again.ask(do="job", job=number))["ok"]
        assert (shown["minimum"], shown["ideal"]) == (2, 3)

    asyncio.run(scenario())
