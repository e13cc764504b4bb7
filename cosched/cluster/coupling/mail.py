"""Carries messages about groups between the controllers of coupled domains.

They travel as the messages inside a domain do (``links``): the key of a connection gives
the sender. One that is lost is asked for again (``core.cluster.coupling.mail``). A domain
that sends too many of them loses some.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from cosched.cluster.keys import load_keys, make_keys
from cosched.cluster.links import Links
from cosched.cluster.messages import AnyMessage as InDomain
from cosched.cluster.messages import BetweenDomains
from cosched.cluster.paths import DomainPaths
from cosched.config.coupling import Coupled
from cosched.core.cluster.coupling.mate_messages import AnyMessage
from cosched.core.complaints import Complaints
from cosched.core.decoding import Malformed, MessagePackDecoder
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S

#: Messages that a domain may send at once, and each second in the long run. A pair of jobs
#: needs some ten. Those beyond are dropped; the other domain sends them again.
MOST_AT_ONCE = 2000
MOST_PER_S = 500
#: The longest message between domains, in bytes.
LONGEST = 64 << 10
#: An envelope adds some bytes to a message.
_ENVELOPE = 256
_REMEDY = "copy the NAME.public of each coupled domain from its controller"

_encoder = msgspec.msgpack.Encoder()
_decoder: MessagePackDecoder[AnyMessage] = MessagePackDecoder(
    AnyMessage, "a message between domains", LONGEST
)


class MessageRate:
    """Admits MOST_AT_ONCE messages at once, and MOST_PER_S a second in the long run."""

    __slots__ = ("_at_ns", "_left")

    def __init__(self) -> None:
        self._left = float(MOST_AT_ONCE)
        self._at_ns = 0

    def admit(self, now_ns: int) -> bool:
        """Returns whether a message may pass that came at ``now_ns``."""
        more = max(0, now_ns - self._at_ns) * MOST_PER_S / NS_PER_S
        self._left = min(MOST_AT_ONCE, self._left + more)
        self._at_ns = now_ns
        if self._left < 1:
            return False
        self._left -= 1
        return True


class DomainMail:
    """The connections to other domains. complain: takes one line about a message that is
    none."""

    def __init__(self, links: Links, complain: Callable[[str], None]) -> None:
        self._links = links
        self._complaints = Complaints(complain, time.monotonic_ns)
        self._rates: dict[str, MessageRate] = {}

    def send(self, to: str, message: AnyMessage) -> None:
        """Sends without waiting; the message may be lost. Jobs may still name a domain that
        the configuration does not name any more: to them it is down."""
        if not self._links.has_address(to):
            self._complaints.about(to, "jobs name this domain, but [coupling] does not")
            return
        self._links.send(to, BetweenDomains(_encoder.encode(message)))

    async def receive(self, handler: Callable[[str, AnyMessage], None]) -> None:
        """Passes each message and its sender to ``handler``, for ever. A message whose
        handler fails is dropped (``Links.receive``)."""

        def take(sender: str, message: InDomain) -> None:
            rate = self._rates.setdefault(sender, MessageRate())
            if not rate.admit(time.monotonic_ns()):
                kind = "sends too many messages; some are dropped"
                self._complaints.about(sender, kind)
                return
            if not isinstance(message, BetweenDomains):
                raise Malformed(f"{type(message).__name__} is not between domains")
            handler(sender, _decoder.decode(message.data))

        await self._links.receive(take)

    def complain(self, peer: str, error: CoschedError) -> None:
        """Logs that a message of another domain is dropped."""
        self._complaints.about(peer, "a message is dropped", str(error))

    def listen(self, address: str) -> None:
        """Listens for the other domains at ``HOST:PORT``. Raises CoschedError if it is
        taken."""
        self._links.listen(address)

    def close(self) -> None:
        """Closes the connections."""
        self._links.close()


def connect(
    paths: DomainPaths, coupled: Coupled, complain: Callable[[str], None]
) -> DomainMail:
    """Returns the connections to the domains with which this one is coupled; makes its pair
    of keys if there is none. Raises CoschedError for a key that is missing."""
    make_keys(paths.peers, [coupled.name])
    keys = load_keys(paths.peers, coupled.name, coupled.addresses, _REMEDY)
    links = Links(keys, coupled.addresses, complain, LONGEST + _ENVELOPE)
    return DomainMail(links, complain)
