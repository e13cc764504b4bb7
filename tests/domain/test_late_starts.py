"""A start that the controller does not count takes no slots for long, and an agent takes
the controller's newest secret."""

import asyncio

from cosched.cluster.messages import (
    Chunk,
    End,
    Hello,
    StartFailed,
    SubtreePrepared,
    Welcome,
)
from cosched.core.cluster.startup.seal import Tied, seal
from cosched.core.names import CONTROLLER
from tests.domain.played import Played, object_of, roster_of

SECRET = b"s" * 32
ONE_NODE = ((0, 0),)


def start_of(rig, job, tasks):
    """Returns the only chunk of a start on the first node."""
    found = object_of(rig, job, (tasks,), "/bin/true")
    data = seal(found, Tied(job, 1, ONE_NODE, 2, "siblings"), [SECRET])
    return Chunk(job, 1, 0, ONE_NODE, 2, "siblings", 0, 1, 0, data)


def test_parent_ends_a_start_that_it_does_not_have_any_more(make_rig):
    rig = make_rig(2)
    rig.start(CONTROLLER, "n1")
    rig.until_up("n1")

    async def prepare_late():
        async with Played(rig, "n2").listen() as child:
            child.send("n1", SubtreePrepared(7, 1))
            return await child.receive()

    answer = asyncio.run(prepare_late())
    assert isinstance(answer, End)
    assert (answer.job, answer.start, answer.direct) == (7, 1, False)
    assert "n2: prepared a start late: start 1" in rig.log("n1")


def test_node_without_free_slots_reports_the_starts_that_have_them(make_rig):
    rig = make_rig(1)

    async def start_too_much():
        async with Played(rig, CONTROLLER).listen() as controller:
            rig.start("n1")
            hello = await controller.receive()
            assert hello.starts == ()
            controller.send("n1", roster_of(rig))
            controller.send("n1", Welcome(1, SECRET, hello.incarnation))
            controller.send("n1", start_of(rig, 1, rig.config.slots - 1))
            prepared = await controller.receive_other_than(Hello)
            assert isinstance(prepared, SubtreePrepared)
            controller.send("n1", start_of(rig, 2, 2))
            return await controller.receive(), await controller.receive()

    hello, failed = asyncio.run(start_too_much())
    assert isinstance(hello, Hello)
    assert (1, 1) in {(each.job, each.start) for each in hello.starts if each.has_tasks}
    assert isinstance(failed, StartFailed)
    assert "needs 2 slots on this node, which has 1 free" in failed.reason


def prepared_after(rig, *welcomes):
    """Returns the answer to a start by SECRET after these welcomes: a secret each, and what
    to add to the incarnation of the agent."""

    async def start():
        async with Played(rig, CONTROLLER).listen() as controller:
            rig.start("n1")
            hello = await controller.receive()
            controller.send("n1", roster_of(rig))
            for secret, more in welcomes:
                welcome = Welcome(1, secret, hello.incarnation + more)
                controller.send("n1", welcome)
            controller.send("n1", start_of(rig, 1, 1))
            return await controller.receive_other_than(Hello)

    return asyncio.run(start())


def test_welcome_to_a_former_life_of_the_agent_is_not_taken(make_rig):
    answer = prepared_after(make_rig(1), (b"f" * 32, 1), (SECRET, 0))
    assert isinstance(answer, SubtreePrepared)
    answer = prepared_after(make_rig(1), (b"f" * 32, 0), (SECRET, 1))
    assert isinstance(answer, StartFailed)


def test_agent_takes_a_new_secret_of_the_same_controller(make_rig):
    answer = prepared_after(make_rig(1), (b"f" * 32, 0), (b"g" * 32, 0), (SECRET, 0))
    assert isinstance(answer, SubtreePrepared)
