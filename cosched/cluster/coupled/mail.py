"""Carries messages about groups between the controllers of coupled domains.

They travel as the messages inside a domain do (``links``): the key of a connection gives
the sender. One that is lost is asked for again (``core.cluster.coupling.mail``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from cosched.cluster.links import Links
from cosched.cluster.messages import AnyMessage as InDomain
from cosched.cluster.messages import BetweenDomains
from cosched.core.cluster.coupling.mail.messages import AnyMessage

#: The longest message between domains, in bytes.
LONGEST = 64 << 10

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(AnyMessage)


class DomainMail:
    """The connections to other domains. complain: takes one line about a message that is
    none."""

    def __init__(self, links: Links, complain: Callable[[str], None]) -> None:
        self._links = links
        self._complain = complain

    def send(self, to: str, message: AnyMessage) -> None:
        """Sends without waiting; the message may be lost."""
        self._links.send(to, BetweenDomains(_encoder.encode(message)))

    async def receive(self, handler: Callable[[str, AnyMessage], None]) -> None:
        """Passes each message and its sender to ``handler``, for ever."""

        def take(sender: str, message: InDomain) -> None:
            if not isinstance(message, BetweenDomains):
                self._complain(
                    f"{sender}: sent {type(message).__name__}; not between domains"
                )
                return
            try:
                inner: AnyMessage = _decoder.decode(message.data)
            except msgspec.MsgspecError as error:
                self._complain(f"{sender}: not a message between domains: {error}")
                return
            handler(sender, inner)

        await self._links.receive(take)
