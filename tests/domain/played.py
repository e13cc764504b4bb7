"""Plays a member of a domain in a test."""

import asyncio
import contextlib
import os

from cosched.cluster.keys import load_keys
from cosched.cluster.links import Links
from cosched.cluster.messages import Beat, Roster, RosterNode
from cosched.core.cluster.startup.jobobject import JobObject, encode_object
from cosched.core.names import CONTROLLER


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
        if not isinstance(message, Beat | Roster):
            self.messages.put_nowait(message)

    async def receive(self):
        return await asyncio.wait_for(self.messages.get(), 20)

    async def receive_other_than(self, kind):
        """Returns the next message of another kind."""
        while isinstance(message := await self.receive(), kind):
            pass
        return message


def roster_of(rig):
    """Returns the nodes of a domain as its controller sends them."""
    names = rig.config.node_names
    public = load_keys(rig.paths.keys, CONTROLLER, names).public
    nodes = (
        RosterNode(at, name, rig.config.nodes[name], public[name])
        for at, name in enumerate(names)
    )
    return Roster(1, tuple(nodes))


def object_of(rig, number, counts, *argv):
    """Returns the encoded object of a job with this number, without an MPI."""
    return encode_object(
        JobObject(
            name=f"job{number}",
            uid=os.geteuid(),
            gid=os.getegid(),
            argv=argv,
            environ={**rig.environ, "COSCHED_DOMAIN_JOB": str(number)},
            cwd=str(rig.work),
            umask=0o022,
            counts=counts,
            pmi="none",
            pmix_library="",
            bind=False,
            input="/dev/null",
            output="out",
            error="",
            label=False,
            grace_s=1.0,
        )
    )
