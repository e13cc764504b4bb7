"""Delivers messages between two processes exactly once and in order.

A connection can break and lose what was under way, and its successor does not show that.
So each message has a number until its receiver has confirmed it; a message without
confirmation is sent again. Messages that soon become useless are sent plain: they may be
lost.

A process has a new ``session`` in each life. Messages are numbered within a ``stream``.
When the peer begins a new life, this side begins a new stream and drops what was meant for
the former life. It keeps the messages for *any life*: the peer may have begun its new life
before they were sent. This side may also give a peer up that does not answer: a new stream
then begins with those messages that *last*, and the others are dropped. Nothing else drops
a message. So the owner of a delivery watches whether it ``is_full``.

A message that is sent again too early costs a slow link as much as the message itself. So
large messages get more time, and all get twice as long as confirmations took lately. A
confirmation repeats the attempt that arrived: if it was the first one, nothing was lost.

Invariants, as long as both processes live, neither is given up and some envelopes arrive:
each message is delivered once, in the order in which it was sent. A peer that was given up
gets each message that lasts once or twice.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

#: A message is sent again after this, and then after twice as long, up to the longest wait.
RESEND_NS = 300_000_000
RESEND_MOST_NS = 2_000_000_000
#: More time for each byte of a message: the slowest link that is expected has 1 Mbit/s.
RESEND_BYTE_NS = 8_000
#: Confirmations that no message carries wait for more to confirm.
CONFIRM_NS = 50_000_000
#: Messages that came too early; those beyond are sent again.
WINDOW = 16_384
#: The messages without a confirmation, and their bytes, with which a delivery is full.
FULL = 16_384
FULL_BYTES = 256 << 20
#: Bytes of messages that came too early; those beyond are sent again.
EARLY_BYTES = 64 << 20
#: Former lives of a peer whose late messages are recognised.
FORMER = 64


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message under way."""

    session: int  #: a number of this life of the sender
    stream: int  #: grows when the receiver begins a new life
    number: int  #: 0 for a plain message
    attempt: int  #: how often it was sent before
    of_session: int  #: the session of the messages that it confirms
    of_stream: int  #: the stream of the messages that it confirms
    #: The highest number of the receiver's stream up to which all messages are here.
    confirms: int
    of_attempt: int  #: the attempt that brought the last of these
    data: bytes  #: the message; empty: it only confirms


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A message without confirmation. lasts: also if its receiver is given up. any_life:
    also if its receiver begins a new life."""

    since_ns: int
    envelope: Envelope
    lasts: bool
    any_life: bool


class Delivery:
    """One side of the exchange with one peer. session: not 0."""

    def __init__(self, session: int) -> None:
        self._session = session
        self._stream = 1
        self._next = 1
        self._unconfirmed: deque[_UnderWay] = deque()
        self._unconfirmed_bytes = 0
        self._resend_ns: int | None = None
        self._attempt = 0  # counts sends of the oldest message without confirmation
        self._confirmed_in_ns = 0  # how long confirmations took lately
        self._peer_session = 0
        self._former: deque[int] = deque(maxlen=FORMER)  # sessions of the peer
        self._peer_stream = 0
        self._expected = 1
        self._arrived_attempt = 0
        self._early: dict[int, bytes] = {}
        self._early_bytes = 0
        self._confirm_ns: int | None = None

    @property
    def wake_ns(self) -> int | None:
        """Returns when ``due`` has something to send; None if nothing is under way."""
        times = [at for at in (self._resend_ns, self._confirm_ns) if at is not None]
        return min(times, default=None)

    @property
    def is_full(self) -> bool:
        """Returns whether so much is not confirmed that the peer should get no more."""
        return len(self._unconfirmed) >= FULL or self._unconfirmed_bytes >= FULL_BYTES

    @property
    def is_confirmed(self) -> bool:
        """Returns whether each message that must arrive has arrived."""
        return not self._unconfirmed

    def send(
        self, data: bytes, now_ns: int, *, lasts: bool = False, any_life: bool = False
    ) -> Envelope:
        """Returns the envelope of a message that must arrive. lasts: also if the peer is
        given up before. any_life: also if the peer has begun another life."""
        envelope = self._envelope(self._next, data)
        self._next += 1
        self._unconfirmed.append(_UnderWay(now_ns, envelope, lasts, any_life))
        self._unconfirmed_bytes += len(data)
        if self._resend_ns is None:
            self._resend_ns = now_ns + self._wait_ns()
        return envelope

    def send_plain(self, data: bytes) -> Envelope:
        """Returns the envelope of a message that may be lost."""
        return self._envelope(0, data)

    def receive(
        self, envelope: Envelope, now_ns: int
    ) -> tuple[list[bytes], list[Envelope]]:
        """Returns the messages that can be delivered now, and envelopes to send."""
        if envelope.session in self._former:
            return [], []  # it was under way when its sender ended
        self._meet(envelope, now_ns)
        again = self._note_confirmed(envelope, now_ns)
        if envelope.stream != self._peer_stream:
            return [], again  # it belongs to a former stream
        if envelope.number == 0:
            return ([envelope.data] if envelope.data else []), again
        if self._confirm_ns is None:
            self._confirm_ns = now_ns + CONFIRM_NS
        self._keep_early(envelope)
        ready = []
        while self._expected in self._early:
            ready.append(self._early.pop(self._expected))
            self._early_bytes -= len(ready[-1])
            self._expected += 1
            self._arrived_attempt = envelope.attempt
        return ready, again

    def due(self, now_ns: int) -> list[Envelope]:
        """Returns what must be sent by now: an old message again, or a confirmation."""
        found = []
        if self._resend_ns is not None and self._resend_ns <= now_ns:
            found.append(self._send_again(now_ns))
        if self._confirm_ns is not None and self._confirm_ns <= now_ns:
            found.append(self._envelope(0, b""))
        return found

    def confirm(self) -> list[Envelope]:
        """Returns the confirmation that waits for more to confirm, if there is one."""
        return [] if self._confirm_ns is None else [self._envelope(0, b"")]

    def _keep_early(self, envelope: Envelope) -> None:
        ahead, size = envelope.number - self._expected, len(envelope.data)
        if not 0 <= ahead < WINDOW or envelope.number in self._early:
            return
        if ahead == 0 or self._early_bytes + size <= EARLY_BYTES:
            self._early[envelope.number] = envelope.data
            self._early_bytes += size

    def give_up(self, now_ns: int) -> bool:
        """Drops the messages that are under way, but for those that last; later ones are
        delivered. Returns whether all that last are kept: a full delivery drops all."""
        all_kept = not self.is_full
        lasting = [each for each in self._unconfirmed if each.lasts and all_kept]
        self._begin_stream()
        for each in lasting:
            self.send(each.envelope.data, now_ns, lasts=True)
        return all_kept

    def _meet(self, envelope: Envelope, now_ns: int) -> None:
        """Stores a new life or a new stream of the peer."""
        if envelope.session != self._peer_session:
            if self._peer_session:
                self._begin_life(envelope, now_ns)
                self._former.append(self._peer_session)
            self._peer_session = envelope.session
        elif envelope.stream <= self._peer_stream:
            return
        self._peer_stream = envelope.stream
        self._expected = 1
        self._early.clear()
        self._early_bytes = 0

    def _begin_life(self, envelope: Envelope, now_ns: int) -> None:
        """Drops what was under way to the peer's former life, but for the messages for any
        life that its new one has not confirmed."""
        ours = (envelope.of_session, envelope.of_stream) == (self._session, self._stream)
        came = envelope.confirms if ours else 0
        kept = [
            each.envelope.data
            for each in self._unconfirmed
            if each.any_life and each.envelope.number > came
        ]
        self._begin_stream()
        for data in kept:
            self.send(data, now_ns, any_life=True)

    def _begin_stream(self) -> None:
        self._stream += 1
        self._next = 1
        self._unconfirmed.clear()
        self._unconfirmed_bytes = 0
        self._resend_ns = None
        self._attempt = 0

    def _note_confirmed(self, envelope: Envelope, now_ns: int) -> list[Envelope]:
        if (envelope.of_session, envelope.of_stream) != (self._session, self._stream):
            return []
        waiting = self._unconfirmed
        since_ns = None
        while waiting and waiting[0].envelope.number <= envelope.confirms:
            confirmed = waiting.popleft()
            since_ns = confirmed.since_ns
            self._unconfirmed_bytes -= len(confirmed.envelope.data)
        if since_ns is None:
            return []
        lost = self._attempt > 0 and envelope.of_attempt > 0
        if not lost:
            faded_ns = self._confirmed_in_ns - self._confirmed_in_ns // 8
            self._confirmed_in_ns = max(now_ns - since_ns, faded_ns)
        self._attempt = 0
        if not waiting:
            self._resend_ns = None
            return []
        if lost:  # perhaps several in a row: send the next one without waiting for its time
            return [self._send_again(now_ns)]
        self._resend_ns = now_ns + self._wait_ns()
        return []

    def _wait_ns(self) -> int:
        """Returns how long the oldest message may take."""
        usual_ns = max(RESEND_NS, 2 * self._confirmed_in_ns)
        wait_ns = min(usual_ns << self._attempt, RESEND_MOST_NS)
        return wait_ns + RESEND_BYTE_NS * len(self._unconfirmed[0].envelope.data)

    def _send_again(self, now_ns: int) -> Envelope:
        self._attempt += 1
        self._resend_ns = now_ns + self._wait_ns()
        oldest = self._unconfirmed[0].envelope
        return self._envelope(oldest.number, oldest.data, self._attempt)

    def _envelope(self, number: int, data: bytes, attempt: int = 0) -> Envelope:
        """Each envelope carries the confirmation."""
        self._confirm_ns = None
        return Envelope(
            self._session,
            self._stream,
            number,
            attempt,
            self._peer_session,
            self._peer_stream,
            self._expected - 1,
            self._arrived_attempt,
            data,
        )
