"""A start that the controller does not count takes no slots for long, and an agent takes
the controller's newest secret."""

import asyncio
import os

from cosched.cluster.keys import CONTROLLER
from cosched.cluster.messages import (
    Chunk,
    End,
    Hello,
    StartFailed,
    SubtreePrepared,
    Welcome,
)
from cosched.core.cluster.startup.jobobject import JobObject, encode_object
from cosched.core.cluster.startup.seal import Tied, seal
from tests.domain.played import Played

SECRET = b"s" * 32
ONE_NODE = ((0, 0),)


def start_of(rig, job, tasks):
    """Returns the only chunk of a start on the first node."""
    found = JobObject(
        name=f"job{job}",
        uid=os.geteuid(),
        gid=os.getegid(),
        argv=("/bin/true",),
        environ={**rig.environ, "COSCHED_DOMAIN_JOB": str(job)},
        cwd=str(rig.work),
        umask=0o022,
        counts=(tasks,),
        pmi="none",
        pmix_library="",
        bind=False,
        input="/dev/null",
        output="/dev/null",
        error="",
        label=False,
        grace_s=1.0,
    )
    data = seal(encode_object(found), Tied(job, 1, ONE_NODE, 2, "siblings"), [SECRET])
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
    assert "n2 prepared start 1 late" in rig.log("n1")


def test_node_without_free_slots_reports_the_starts_that_have_them(make_rig):
    rig = make_rig(1)

    async def start_too_much():
        async with Played(rig, CONTROLLER).listen() as controller:
            rig.start("n1")
            hello = await controller.receive()
            assert hello.starts == ()
            controller.send("n1", Welcome(1, 0.1, SECRET, hello.incarnation))
            controller.send("n1", start_of(rig, 1, rig.config.slots - 1))
            while not isinstance(await controller.receive(), SubtreePrepared):
                pass  # a further Hello may be on its way
            controller.send("n1", start_of(rig, 2, 2))
            return await controller.receive(), await controller.receive()

    hello, failed = asyncio.run(start_too_much())
    assert isinstance(hello, Hello)
    assert (1, 1) in {(each.job, each.start) for each in hello.starts if each.has_tasks}
    assert isinstance(failed, StartFailed)
    assert "needs 2 slots on this node, which has 1 free" in failed.reason


def test_welcome_to_a_former_life_of_the_agent_is_not_taken(make_rig):
    rig = make_rig(1)

    async def start_after_two_welcomes():
        async with Played(rig, CONTROLLER).listen() as controller:
            rig.start("n1")
            hello = await controller.receive()
            former = Welcome(1, 0.1, b"f" * 32, hello.incarnation + 1)
            controller.send("n1", former)
            controller.send("n1", Welcome(1, 0.1, SECRET, hello.incarnation))
            controller.send("n1", start_of(rig, 1, 1))
            while isinstance(answer := await controller.receive(), Hello):
                pass
            return answer

    assert isinstance(asyncio.run(start_after_two_welcomes()), SubtreePrepared)


def test_agent_takes_a_new_secret_of_the_same_controller(make_rig):
    rig = make_rig(1)

    async def start_after_two_secrets():
        async with Played(rig, CONTROLLER).listen() as controller:
            rig.start("n1")
            hello = await controller.receive()
            for secret in (b"f" * 32, b"g" * 32, SECRET):
                controller.send("n1", Welcome(1, 0.1, secret, hello.incarnation))
            controller.send("n1", start_of(rig, 1, 1))
            while isinstance(answer := await controller.receive(), Hello):
                pass
            return answer

    assert isinstance(asyncio.run(start_after_two_secrets()), SubtreePrepared)
