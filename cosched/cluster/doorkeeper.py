"""Admits only the owners of known keys to a member of a domain (ZAP)."""

from __future__ import annotations

from collections.abc import Collection

import zmq
from zmq.auth.thread import ThreadAuthenticator
from zmq.utils import z85

from cosched.core.decoding import printable, shown_text

#: The addresses that are kept until they are taken.
MOST_ADDRESSES = 64
_ACCEPTED, _REFUSED_FOR_NOW = b"200", b"300"


class Doorkeeper(ThreadAuthenticator):
    """Accepts these keys, in Z85. It has a thread of its own: AsyncioAuthenticator polls
    through short-lived sockets, and the collection of an old one stops the watch of the
    next."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], known: Collection[bytes]
    ) -> None:
        super().__init__(context)
        self.admit(known)  # its thread reads them
        self._strange: set[str] = set()  # both threads change it, by one call at a time

    def admit(self, known: Collection[bytes]) -> None:
        """Accepts these keys from now on, and no others."""
        self._keys = frozenset(known)

    def take_strange(self) -> list[str]:
        """Returns the addresses from which unknown keys have come since the last call."""
        return [self._strange.pop() for _ in range(len(self._strange))]

    async def handle_zap_message(self, msg: list[bytes]) -> None:
        """Answers libzmq's question about a connection. An unknown key is refused for now:
        after a final refusal its owner would not connect again, also if keys are mended."""
        version, request, _domain, address, _identity, _mechanism, *credentials = msg
        key = z85.encode(credentials[0]) if len(credentials) == 1 else b""
        known = key in self._keys
        if not known and len(self._strange) < MOST_ADDRESSES:
            self._strange.add(printable(shown_text(address)))
        status = _ACCEPTED if known else _REFUSED_FOR_NOW
        self.zap_socket.send_multipart([version, request, status, b"", key, b""])
