"""Plays a member of a domain in a test."""

import asyncio
import contextlib

from cosched.cluster.keys import CONTROLLER, load_keys
from cosched.cluster.links import Links
from cosched.cluster.messages import Beat


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
