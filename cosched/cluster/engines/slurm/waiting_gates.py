"""Talks to the gates of jobs: each waits for one order at the controller's socket.

The kernel gives the user of a connection. Only SlurmUser and root are trusted: they have
the number and the user of a job from slurmctld.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from cosched.cluster.user_requests import LONGEST_REQUEST
from cosched.cluster.user_socket import Person, UserSocket
from cosched.core.bounds import Name, Natural, Seconds, UserId
from cosched.core.complaints import Complaints
from cosched.core.decoding import JsonDecoder, Malformed


class GateHello(msgspec.Struct, frozen=True):
    """The message of a gate."""

    job: Natural  #: Slurm's number of the job
    uid: UserId  #: its user
    restarts: Natural  #: how often Slurm has put the job back into its queue
    nodes: str  #: their names, as Slurm writes them
    life: Name  #: differs for each gate of the job
    #: For how long it has waited, perhaps for another controller before.
    waited_s: Seconds = 0.0


_decoder: JsonDecoder[GateHello] = JsonDecoder(
    GateHello, "the hello of a gate", LONGEST_REQUEST
)


class Gates:
    """The gates that wait. users: the trusted ones. came, left: called for each gate
    that begins to wait, and for each that ends. log: takes one line."""

    def __init__(
        self,
        path: Path,
        users: Collection[int],
        came: Callable[[GateHello], None],
        left: Callable[[str], None],
        log: Callable[[str], None],
    ) -> None:
        self._socket = UserSocket(path, lambda person: _Gate(self, person), log)
        self.users = frozenset(users)
        self.came = came
        self.left = left
        self.complaints = Complaints(log, time.monotonic_ns)
        self.waiting: dict[str, asyncio.Future[str]] = {}

    async def open(self) -> None:
        """Starts to listen."""
        await self._socket.open()

    async def close(self) -> None:
        """Stops listening; the gates try again to connect."""
        await self._socket.close()

    def answer(self, life: str, order: str) -> None:
        """Orders ``go`` or ``yield``. A gate that has left comes again or has ended."""
        future = self.waiting.get(life)
        if future is not None and not future.done():
            future.set_result(order)


class _Gate:
    """The connection of one gate, until it is closed."""

    def __init__(self, gates: Gates, person: Person) -> None:
        self._gates = gates
        self._person = person
        self._life: str | None = None

    async def answer(self, body: bytes) -> bytes:
        if self._person.uid not in self._gates.users:
            self._gates.complaints.about(
                self._person.uid, "is not Slurm; refused at the socket of its gates"
            )
            return b'{"error": "only SlurmUser and root may ask"}'
        try:
            hello = _decoder.decode(body)
        except Malformed as error:
            kind = "a gate of another version"
            self._gates.complaints.about(self._person.uid, kind, str(error))
            return b'{"error": "not of this version"}'
        if self._life is not None or hello.life in self._gates.waiting:
            return b'{"error": "it waits already"}'
        self._life = hello.life
        order = asyncio.get_running_loop().create_future()
        self._gates.waiting[hello.life] = order
        self._gates.came(hello)
        return msgspec.json.encode({"ok": await order})

    def leave(self) -> None:
        if self._life is not None:
            self._gates.waiting.pop(self._life, None)
            self._gates.left(self._life)
            self._life = None
