"""Carries messages between the controller and the agents of a domain.

Each member has one socket (ROUTER) that receives from all, and opens one (DEALER) to each
member to which it sends. CURVE encrypts both ways, and the key of a connection gives the
sender's name. ``core.cluster.delivery`` makes up for what broken connections lose, so the
sockets drop what their bounded queues cannot hold.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import msgspec
import zmq

from cosched.cluster.doorkeeper import Doorkeeper
from cosched.cluster.intake import Intake, Taken
from cosched.cluster.keys import KeyRing, owners_of
from cosched.cluster.message_kinds import Message
from cosched.cluster.messages import (
    ANY_LIFE,
    LASTING,
    LONGEST,
    PLAIN,
    AnyMessage,
    decode,
    encode,
)
from cosched.core.bounds import Natural
from cosched.core.cluster.delivery import Delivery, Envelope
from cosched.core.complaints import Complaints, fault
from cosched.core.decoding import Malformed, MessagePackDecoder
from cosched.core.errors import CoschedError, StateLost
from cosched.core.units import NS_PER_MS, NS_PER_S

#: Messages that wait for one peer. A message has at most a chunk or 64 KiB of output.
QUEUE_LENGTH = 4096
#: Messages of one sender that wait in the receiver. The others wait at the sender, so a
#: sender that rests fills no memory here.
RECEIVE_LENGTH = 4
#: The most bytes that an envelope adds to a message.
_ENVELOPE_MOST = 128
#: The usual longest pause between two tries to connect.
LONGEST_PAUSE_NS = 2 * NS_PER_S
_RECONNECT_MS = 100
#: A connection that is not made after this time is closed, and its owner tries again. The
#: owner of an unknown key waits so long, too: libzmq closes no refused connection.
_HANDSHAKE_MS = 5000
#: The kernel closes a connection whose peer does not answer for this time.
_SILENCE_S = 10

#: The fields of an ``Envelope``.
_Wire = tuple[Natural, Natural, Natural, Natural, Natural, Natural, Natural, Natural, bytes]
_encoder = msgspec.msgpack.Encoder()
_decoder: MessagePackDecoder[_Wire] = MessagePackDecoder(
    _Wire, "an envelope", LONGEST + _ENVELOPE_MOST
)

#: Handles a message; the first argument is the sender's name.
Handler = Callable[[str, AnyMessage], None]


@dataclass(frozen=True, slots=True)
class Former:
    """The public keys of former members by name. Each of their messages gets ``answer``,
    an encoded message; nothing else of it is read."""

    keys: Mapping[str, bytes] = field(default_factory=dict)  #: by name
    answer: bytes = b""  #: an encoded message


@dataclass(slots=True)
class _Peer:
    """A member to which this one sends. wake_ns: when its timer fires."""

    delivery: Delivery
    socket: zmq.Socket[bytes] | None = None
    timer: asyncio.TimerHandle | None = None
    wake_ns: int = 0


class Links:
    """The connections of one member.

    addresses: ``HOST:PORT`` of each member. complain: takes one line about a message that
    cannot be read. longest: bytes of a message; the connection of a longer one is closed.
    pause_ns: the longest one between two tries to connect, if it is less than
    LONGEST_PAUSE_NS.
    """

    def __init__(
        self,
        keys: KeyRing,
        addresses: Mapping[str, str],
        complain: Callable[[str], None],
        longest: int = LONGEST,
        pause_ns: int = LONGEST_PAUSE_NS,
    ) -> None:
        self._keys = keys
        self._longest = longest
        self._pause_ms = max(_RECONNECT_MS, min(pause_ns, LONGEST_PAUSE_NS) // NS_PER_MS)
        known = self._take_members(addresses, keys.public, Former())
        self._complaints = Complaints(complain, time.monotonic_ns)
        self._context = zmq.Context()
        self._turned_away: set[str] = set()
        self._doorkeeper = Doorkeeper(self._context, known)
        self._unreadable: set[str] = set()
        self._incoming: zmq.Socket[bytes] | None = None
        self._peers: dict[str, _Peer] = {}
        self._settling: tuple[asyncio.Future[None], frozenset[str]] | None = None

    def has_address(self, name: str) -> bool:
        """Returns whether there is an address for a peer."""
        return name in self._addresses

    def meet(
        self,
        addresses: Mapping[str, str],
        public: Mapping[str, bytes],
        former: Former = Former(),
    ) -> None:
        """Takes other members, with their addresses and public keys, in place of those of
        before. Closes the connections to members that have gone, and to those with another
        address or key, and drops the messages for them. former: members that may connect,
        but only get an answer."""
        before = self._addresses, self._public
        self._doorkeeper.admit(self._take_members(addresses, public, former))
        for name in list(self._peers):
            now = addresses.get(name), public.get(name)
            if now != tuple(each.get(name) for each in before):
                self._close(self._peers.pop(name), linger=0)

    def _take_members(
        self, addresses: Mapping[str, str], public: Mapping[str, bytes], former: Former
    ) -> tuple[bytes, ...]:
        """Notes the members; returns the keys that may connect."""
        self._owners = owners_of(public)
        self._former = owners_of(former.keys)
        self._answer = former.answer
        self._addresses, self._public = dict(addresses), dict(public)
        return (*public.values(), *former.keys.values())

    def listen(self, address: str) -> None:
        """Binds the own address, ``HOST:PORT``. Raises CoschedError if it is taken."""
        self._doorkeeper.start()
        socket = self._context.socket(zmq.ROUTER)
        socket.curve_server = True
        socket.curve_secretkey = self._keys.secret
        socket.curve_publickey = self._keys.own_public
        socket.maxmsgsize = self._longest
        socket.rcvhwm = RECEIVE_LENGTH
        socket.handshake_ivl = _HANDSHAKE_MS
        _watch(socket)
        socket.linger = 0
        try:
            socket.bind(f"tcp://{address}")
        except zmq.ZMQError as error:
            socket.close()
            raise CoschedError(
                f"cannot listen on {address}: {error.strerror}; domain.toml has this "
                "address"
            ) from None
        self._incoming = socket

    async def receive(self, handler: Handler) -> None:
        """Passes each message to ``handler``, for ever. A message that cannot be read, or
        whose handler fails, is dropped: it costs its sender only. Raises StateLost of a
        handler."""
        assert self._incoming is not None

        def take() -> Taken | None:
            try:
                return self._take_one(handler)
            except StateLost:
                raise
            except Exception as error:  # noqa: BLE001  (it costs its sender only)
                self._complaints.about(None, "an envelope is dropped", fault(error))
                return Taken("", useless=True)

        await Intake(self._incoming, take).run()

    def _take_one(self, handler: Handler) -> Taken | None:
        """Passes one envelope's messages on."""
        assert self._incoming is not None
        try:
            route, *frames = self._incoming.recv_multipart(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return None
        owner = str(frames[-1].get("User-Id")) if frames else ""
        if owner in self._former:
            self._note_turned_away(self._former[owner])
            with contextlib.suppress(zmq.Again):  # it asks again
                self._incoming.send_multipart([route.bytes, self._answer], zmq.NOBLOCK)
            return Taken(owner, useless=True)
        sender = self._owners.get(owner)
        if sender is None:
            self._complaints.about(None, "a message from an unknown key")
            return Taken("", useless=True)
        messages = self._open(sender, frames[-1].buffer)
        if messages is None:
            return Taken(sender, useless=True)
        passed = [self._pass_on(sender, data, handler) for data in messages]
        return Taken(sender, useless=not all(passed))

    def _pass_on(self, sender: str, data: bytes, handler: Handler) -> bool:
        """Passes a message on; returns False if it is dropped."""
        try:
            message = decode(data)
        except Malformed as error:
            self._note_unreadable(sender, error)
            return False
        kind = f"its {type(message).__name__} is dropped"
        return self._complaints.attempt(sender, kind, lambda: handler(sender, message))

    def _note_unreadable(self, sender: str, error: Malformed) -> None:
        self._unreadable.add(sender)
        self._complaints.about(sender, "a message is dropped", str(error))

    def send(self, to: str, message: Message) -> None:
        """Sends without waiting. It arrives if the peer lives long enough and is not given
        up before; the kernel's keep-alive finds a dead one. One that is too long is
        dropped: the peer would close the connection each time, and later messages would
        wait behind it. One for a member that has gone is dropped, too."""
        if to not in self._addresses:
            return
        data = encode(message)
        if len(data) > self._longest - _ENVELOPE_MOST:
            what = f"{type(message).__name__} of {len(data)} bytes"
            kind = "a message for it is too long and is not sent"
            self._complaints.about(to, kind, f"{what}, the most are {self._longest}")
            return
        peer = self._peer(to)
        if isinstance(message, PLAIN):
            self._transmit(to, peer.delivery.send_plain(data))
        else:
            lasts = isinstance(message, LASTING)
            any_life = isinstance(message, ANY_LIFE)
            envelope = peer.delivery.send(
                data, time.monotonic_ns(), lasts=lasts, any_life=any_life
            )
            self._transmit(to, envelope)
            self._set_timer(to, peer)

    def take_answer(self, name: str) -> AnyMessage | None:
        """Returns the answer of a peer of which this is a former member; None as long as
        there is none. Only the owner of the peer's key can give it."""
        peer = self._peers.get(name)
        if peer is None or peer.socket is None:
            return None
        with contextlib.suppress(zmq.Again, Malformed):
            return decode(peer.socket.recv(zmq.NOBLOCK))
        return None

    def take_unreadable(self) -> list[str]:
        """Returns the members whose messages could not be read since the last call."""
        found, self._unreadable = self._unreadable, set()
        return sorted(found)

    def take_strange(self) -> list[str]:
        """Returns the addresses from which unknown keys have come since the last call."""
        return self._doorkeeper.take_strange()

    def has_confirmed(self, name: str) -> bool:
        """Returns whether a peer has confirmed all that must arrive."""
        peer = self._peers.get(name)
        return peer is None or peer.delivery.is_confirmed

    def is_full(self, name: str) -> bool:
        """Returns whether a peer has so much to confirm that it should get no more."""
        peer = self._peers.get(name)
        return peer is not None and peer.delivery.is_full

    def give_up(self, name: str) -> bool:
        """Closes the connection to a peer that does not answer. Drops the messages for it,
        but for those that last. Returns whether it has kept all that last."""
        peer = self._peers.get(name)
        if peer is None:
            return True
        self._close(peer, linger=0)
        all_kept = peer.delivery.give_up(time.monotonic_ns())
        self._set_timer(name, peer)
        return all_kept

    async def settle(self, names: Collection[str], within_s: float) -> None:
        """Returns once these peers have confirmed all messages, or after this time."""
        self._settling = asyncio.get_running_loop().create_future(), frozenset(names)
        self._check_settled()
        await asyncio.wait({self._settling[0]}, timeout=within_s)

    def close(self) -> None:
        """Closes all connections; messages under way, and confirmations, get a moment to
        leave."""
        for name, peer in self._peers.items():
            for envelope in peer.delivery.confirm():
                self._transmit(name, envelope)
            self._close(peer, linger=500)
        if self._incoming is not None:
            self._incoming.close(linger=0)
        self._doorkeeper.stop()
        self._context.term()

    def _note_turned_away(self, name: str) -> None:
        if name not in self._turned_away:
            self._turned_away.add(name)
            self._complaints.about(name, "is not a member any more: it is turned away")

    def _open(self, sender: str, data: memoryview) -> list[bytes] | None:
        """Returns the messages that can be delivered now that an envelope has come. None:
        it cannot be read."""
        try:
            envelope = Envelope(*_decoder.decode(data))
        except Malformed as error:
            self._note_unreadable(sender, error)
            return None
        peer = self._peer(sender)
        ready, again = peer.delivery.receive(envelope, time.monotonic_ns())
        for each in again:
            self._transmit(sender, each)
        self._set_timer(sender, peer)
        self._check_settled()
        return list(ready)

    def _check_settled(self) -> None:
        if self._settling is None:
            return
        settled, names = self._settling
        if all(map(self.has_confirmed, names)) and not settled.done():
            settled.set_result(None)

    def _set_timer(self, name: str, peer: _Peer) -> None:
        wake_ns = peer.delivery.wake_ns
        if wake_ns is None or (peer.timer is not None and peer.wake_ns <= wake_ns):
            return  # a timer that fires too early sends nothing
        if peer.timer is not None:
            peer.timer.cancel()
        delay_s = max(0, wake_ns - time.monotonic_ns()) / NS_PER_S
        peer.wake_ns = wake_ns
        peer.timer = asyncio.get_running_loop().call_later(delay_s, self._wake, name, peer)

    def _wake(self, name: str, peer: _Peer) -> None:
        peer.timer = None
        for envelope in peer.delivery.due(time.monotonic_ns()):
            self._transmit(name, envelope)
        self._set_timer(name, peer)

    def _transmit(self, name: str, envelope: Envelope) -> None:
        """Sends an envelope, or drops it if the peer's queue is full."""
        wire: _Wire = (
            envelope.session,
            envelope.stream,
            envelope.number,
            envelope.attempt,
            envelope.of_session,
            envelope.of_stream,
            envelope.confirms,
            envelope.of_attempt,
            envelope.data,
        )
        peer = self._peer(name)
        if peer.socket is None:
            peer.socket = self._connect(name)
        with contextlib.suppress(zmq.Again):
            peer.socket.send(_encoder.encode(wire), zmq.NOBLOCK)

    def _peer(self, name: str) -> _Peer:
        if name not in self._peers:
            # A member that comes again, under the name of one that has gone, must not take
            # this side for the one that its predecessor knew.
            self._peers[name] = _Peer(Delivery(secrets.randbits(62) | 1))
        return self._peers[name]

    def _close(self, peer: _Peer, linger: int) -> None:
        if peer.timer is not None:
            peer.timer.cancel()
            peer.timer = None
        if peer.socket is not None:
            peer.socket.close(linger=linger)
            peer.socket = None

    def _connect(self, name: str) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.DEALER)
        socket.curve_serverkey = self._public[name]
        socket.curve_secretkey = self._keys.secret
        socket.curve_publickey = self._keys.own_public
        socket.sndhwm = QUEUE_LENGTH
        socket.reconnect_ivl = _RECONNECT_MS
        socket.reconnect_ivl_max = self._pause_ms
        _watch(socket)
        socket.linger = 0
        socket.connect(f"tcp://{self._addresses[name]}")
        return socket


def _watch(socket: zmq.Socket[bytes]) -> None:
    """Lets the kernel find dead peers. The heartbeats of libzmq 4.3 must stay off: where a
    receiver takes no messages for a while, they end the connection, or the process
    (zeromq/libzmq issues 3937 and 4364)."""
    socket.tcp_keepalive = 1
    socket.tcp_keepalive_idle = socket.tcp_keepalive_intvl = _SILENCE_S // 2
    socket.tcp_keepalive_cnt = 1
    socket.tcp_maxrt = 1000 * _SILENCE_S  # for data that is under way
