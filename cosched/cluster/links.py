"""Carries messages between the controller and the agents of a domain.

Each member has one socket (ROUTER) that receives from all, and opens one (DEALER) to each
member to which it sends. CURVE encrypts both ways, and the key of a connection gives the
sender's name. The senders' queues are bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import zmq
import zmq.asyncio
from zmq.auth.thread import ThreadAuthenticator

from cosched.cluster.keys import KeyRing
from cosched.cluster.messages import LONGEST, AnyMessage, Message, decode, encode
from cosched.core.errors import CoschedError

#: Messages that wait for one peer. A message has at most a chunk or 64 KiB of output.
QUEUE_LENGTH = 4096
_RECONNECT_MS = 100
_RECONNECT_MOST_MS = 2000
_HEARTBEAT_MS = 5000

#: Handles a message; the first argument is the sender's name.
Handler = Callable[[str, AnyMessage], None]


class _Members:
    """Accepts the keys of the domain's members; used by the ZAP authenticator."""

    def __init__(self, keys: KeyRing) -> None:
        self._known = frozenset(keys.public.values())

    def callback(self, _domain: str, key: bytes) -> bool:
        return key in self._known


class Links:
    """The connections of one member.

    addresses: ``HOST:PORT`` of each member. complain: takes one line about a message that
    cannot be read.
    """

    def __init__(
        self,
        keys: KeyRing,
        addresses: Mapping[str, str],
        complain: Callable[[str], None],
    ) -> None:
        self._keys = keys
        self._addresses = addresses
        self._complain = complain
        self._base = zmq.Context()
        self._context = zmq.asyncio.Context(self._base)
        # A thread of its own: AsyncioAuthenticator polls through short-lived sockets, and
        # the collection of an old one stops the watch of the next.
        self._authenticator = ThreadAuthenticator(self._base)
        self._incoming: zmq.asyncio.Socket | None = None
        self._outgoing: dict[str, zmq.asyncio.Socket] = {}
        self._pending: set[asyncio.Future[Any]] = set()

    def listen(self, address: str) -> None:
        """Binds the own address, ``HOST:PORT``. Raises CoschedError if it is taken."""
        self._authenticator.start()
        self._authenticator.configure_curve_callback(
            credentials_provider=_Members(self._keys)
        )
        socket = self._context.socket(zmq.ROUTER)
        socket.curve_server = True
        socket.curve_secretkey = self._keys.secret
        socket.curve_publickey = self._keys.own_public
        socket.maxmsgsize = LONGEST
        socket.rcvhwm = QUEUE_LENGTH
        socket.heartbeat_ivl = _HEARTBEAT_MS
        socket.linger = 0
        try:
            socket.bind(f"tcp://{address}")
        except zmq.ZMQError as error:
            socket.close()
            raise CoschedError(f"cannot listen on {address}: {error.strerror}") from None
        self._incoming = socket

    async def receive(self, handler: Handler) -> None:
        """Passes each message to ``handler``, for ever."""
        assert self._incoming is not None
        while True:
            _, *frames = await self._incoming.recv_multipart(copy=False)
            sender = self._keys.owner(str(frames[-1].get("User-Id"))) if frames else None
            if sender is None:
                self._complain("a message from an unknown key")
                continue
            try:
                message = decode(frames[-1].buffer)
            except CoschedError as error:
                self._complain(f"{sender}: {error}")
                continue
            handler(sender, message)

    def send(self, to: str, message: Message) -> None:
        """Sends without waiting. Heartbeats, not this, detect a dead peer."""
        future: asyncio.Future[Any] = asyncio.ensure_future(
            self._socket(to).send(encode(message))
        )
        if not future.done():
            self._pending.add(future)
            future.add_done_callback(self._pending.discard)

    def forget(self, name: str) -> None:
        """Closes the connection to a peer that is gone; what waits for it is dropped."""
        socket = self._outgoing.pop(name, None)
        if socket is not None:
            socket.close(linger=0)

    def close(self) -> None:
        """Closes all; what was sent gets a moment to leave."""
        for socket in self._outgoing.values():
            socket.close(linger=500)
        if self._incoming is not None:
            self._incoming.close(linger=0)
        self._authenticator.stop()
        self._context.term()  # of ``_base``, which it shadows

    def _socket(self, name: str) -> zmq.asyncio.Socket:
        if name in self._outgoing:
            return self._outgoing[name]
        socket = self._context.socket(zmq.DEALER)
        socket.curve_serverkey = self._keys.public[name]
        socket.curve_secretkey = self._keys.secret
        socket.curve_publickey = self._keys.own_public
        socket.sndhwm = QUEUE_LENGTH
        socket.reconnect_ivl = _RECONNECT_MS
        socket.reconnect_ivl_max = _RECONNECT_MOST_MS
        socket.heartbeat_ivl = _HEARTBEAT_MS
        socket.linger = 0
        socket.connect(f"tcp://{self._addresses[name]}")
        self._outgoing[name] = socket
        return socket
