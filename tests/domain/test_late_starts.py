"""A start that the controller does not count takes no slots for long."""

import asyncio
import contextlib
import os

from cosched.cluster.keys import CONTROLLER, load_keys
from cosched.cluster.links import Links
from cosched.cluster.messages import (
    Beat,
    Chunk,
    End,
    Hello,
    StartFailed,
    SubtreePrepared,
    Welcome,
)
from cosched.core.cluster.startup.jobobject import JobObject, encode_object
from cosched.core.cluster.startup.seal import Tied, seal

SECRET = b"s" * 32
ONE_NODE = ((0, 0),)


class Played:
    """A member that the test plays. It keeps what arrives in ``messages``."""

    def __init__(self, rig, name):
        keys = load_keys(rig.paths.keys, name, rig.config.members)
        self._links = Links(keys, rig.config.addresses, print)
        self._address = {CONTROLLER: rig.config.controller, **rig.config.nodes}[name]
        self.send = self._links.send
        self.messages = asyncio.Queue()

    @contextlib.asynccontextmanager
    async def listen(self):
        self._links.listen(self._address)
        receiving = asyncio.create_task(self._links.receive(self._keep))
        try:
            yield self
        finally:
            receiving.cancel()
            self._links.close()

    def _keep(self, _sender, message):
        if not isinstance(message, Beat):
            self.messages.put_nowait(message)

    async def receive(self):
        return await asyncio.wait_for(self.messages.get(), 20)


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
            controller.send("n1", Welcome(1, 0.1, SECRET))
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
