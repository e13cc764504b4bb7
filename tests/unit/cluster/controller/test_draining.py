"""An operator drains nodes on which jobs run."""

import asyncio

import pytest

from cosched.cluster.engines.native.node_entries import NodeEntry, NodeState
from cosched.cluster.messages import SubtreeEnded
from tests.unit.cluster.controller.controller_alone import (
    NODES,
    Controller,
    passes,
    run_jobs,
)


async def states(controller):
    nodes = (await controller.ask(uid=0, do="nodes"))["ok"]
    return [(node["state"], node["jobs"]) for node in nodes]


def test_drained_node_is_draining_until_its_jobs_have_ended(store):
    async def scenario():
        controller = Controller(store)
        await run_jobs(controller, {"nodes": 2})
        await controller.ask(uid=0, do="drain", names=["n0", "n2"])
        assert await states(controller) == [("draining", [1]), ("up", [1]), ("drained", [])]
        waiting = controller.ask(uid=0, do="drain", names=["n0"], wait=True)
        waiting = asyncio.create_task(waiting)
        await passes()
        assert not waiting.done()
        controller.take("n0", SubtreeEnded(1, 1, None))
        assert "ok" in await asyncio.wait_for(waiting, 10)
        assert await states(controller) == [("drained", []), ("up", []), ("drained", [])]

    asyncio.run(scenario())


def test_node_may_have_jobs_until_a_restarted_controller_knows_them(store):
    async def scenario():
        await run_jobs(Controller(store), {"nodes": 1})
        again = Controller(store)
        again.members.restore({}, {"n0": "new disk"})
        for name in NODES:
            again.join(name)
        again.members.by_name["n0"].state = NodeState.DRAINED
        assert (await states(again))[0] == ("draining", [])
        refused = await again.ask(uid=0, do="drain", names=["n0"], wait=True)
        assert refused["error"].endswith("asks its nodes; try again")
        again.recovery.resolve()
        assert (await states(again))[0] == ("drained", [])

    asyncio.run(scenario())


@pytest.mark.parametrize("busy", [True, False])
def test_node_that_leaves_does_not_drain(busy):
    node = NodeEntry("n0", 0, "host:1", NodeState.DRAINED, drained=True, leaving=True)
    assert node.shown_state(busy=busy) == "leaving"
