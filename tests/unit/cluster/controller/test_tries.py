"""How often a job is tried whose start fails."""

import asyncio

from cosched.cluster.engines.native.starts.running import ATTEMPTS
from cosched.cluster.messages import NodeEnded, StartFailed, SubtreeEnded
from cosched.cluster.record import State
from tests.unit.cluster.controller.controller_alone import Controller, passes

NODES = ("n1", "n2")


async def submitted(store, **more):
    """Returns a controller with two nodes, and the number of its job on both."""
    controller = begun(store)
    number = controller.submit(nodes=2, ppn=1, **more)
    await passes()
    return controller, number


def begun(store):
    """Returns a controller with two nodes, which have no starts."""
    controller = Controller(store, NODES)
    for name in NODES:
        controller.join(name)
    controller.recovery.resolve()
    return controller


async def lose_a_node(controller, number):
    """Loses a node of the job, which has not begun. The node joins again."""
    start = controller.jobs.starts.active[number].record.start
    controller.jobs.node_lost(controller.members.by_name["n2"])
    controller.take("n1", NodeEnded(number, start))
    controller.join("n2")
    await passes()


async def fail(controller, number):
    """Fails the start of the job because a node cannot make it."""
    active = controller.jobs.starts.active[number]
    start = active.record.start
    controller.take(active.root, StartFailed(number, start, 1, "no slots", True))
    controller.take(active.root, SubtreeEnded(number, start, None))
    await passes()


def test_lost_nodes_do_not_end_a_job_that_has_not_begun(store):
    async def scenario():
        controller, number = await submitted(store)
        for _ in range(2 * ATTEMPTS):
            await lose_a_node(controller, number)
        assert store.find(number).state is State.STARTING
        assert store.find(number).start == 2 * ATTEMPTS + 1

    asyncio.run(scenario())


def test_lost_nodes_end_a_job_that_cannot_wait(store):
    async def scenario():
        controller, number = await submitted(store, at_once=True)
        await lose_a_node(controller, number)
        assert store.find(number).state is State.NODE_LOST

    asyncio.run(scenario())


def test_a_start_that_nodes_cannot_make_is_tried_a_few_times(store):
    """Starts that a lost node has ended do not count."""

    async def scenario():
        controller, number = await submitted(store)
        await lose_a_node(controller, number)
        for _ in range(ATTEMPTS):
            assert store.find(number).state is State.STARTING
            await fail(controller, number)
        ended = store.find(number)
        assert ended.state is State.FAILED
        assert ended.reason == "no slots; 3 starts have failed, the job is not tried again"

    asyncio.run(scenario())


def test_tries_count_across_a_restart_of_the_controller(store):
    async def scenario():
        controller, number = await submitted(store)
        await fail(controller, number)
        controller = begun(store)
        for _ in range(ATTEMPTS - 1):
            await passes()
            assert store.find(number).state is State.STARTING
            await fail(controller, number)
        assert store.find(number).state is State.FAILED

    asyncio.run(scenario())
