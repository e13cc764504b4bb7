"""Asks other domains: sends questions again until they are answered, and gives up in time.

A domain that does not answer for ``answer_ns`` is *down*. From then on questions to it fail
at once, so it delays nothing. A ``Ping`` goes to it from time to time; any message from it
ends that state. While no job waits, these pauses grow, so a new job asks first whether the
domain is back (``doubt``). A question about a decision (``Go``, ``Outcome``) is never given
up: it is sent again until its job or its round needs it no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from cosched.core.cluster.coupling.engine_messages import Send
from cosched.core.cluster.coupling.groups import DomainName
from cosched.core.cluster.coupling.jobs import Jobs
from cosched.core.cluster.coupling.mate_messages import (
    Abort,
    Answer,
    AnyAsk,
    AnyReply,
    Departed,
    Go,
    LeaderStarted,
    Outcome,
    Ping,
    Question,
    Recovering,
    Undecided,
    Working,
)
from cosched.core.cluster.coupling.state import GroupJob, Open, Peer
from cosched.core.cluster.queue.job import JobId
from cosched.core.times import earliest

#: Questions that are kept while the other domain is down.
LASTING = (Go, Outcome, LeaderStarted, Departed)


class Post:
    """The open questions of this domain.

    on_reply: gets a question with its answer, or with None if the domain is down. on_back:
    gets the name of a domain that is not down any more.
    """

    def __init__(
        self,
        jobs: Jobs,
        on_reply: Callable[[Open, AnyReply | None], None],
        on_back: Callable[[DomainName], None],
    ) -> None:
        self._jobs = jobs
        self._state = jobs.state
        self._on_reply = on_reply
        self._on_back = on_back

    def ask(self, to: DomainName, member: GroupJob, ask: AnyAsk) -> int:
        """Asks about the group of a job; returns the number of the question."""
        return self._send(to, member.number, member, ask)

    def _send(
        self, to: DomainName, job: JobId | None, member: GroupJob | None, ask: AnyAsk
    ) -> int:
        state = self._state
        number = state.next_number
        state.next_number += 1
        state.counts.asked += 1
        question = Question(
            state.name,
            state.incarnation,
            number,
            self._floor(to, number),
            "" if member is None else member.group.name,
            "" if member is None else member.digest,
            -1 if member is None else member.number,
            "" if member is None else member.user,
            ask,
        )
        opened = Open(to, question, job, state.now_ns, state.now_ns, state.now_ns)
        if self.is_down(to) and not isinstance(ask, (Ping, *LASTING)):
            self._jobs.todo.append(partial(self._on_reply, opened, None))
            return number
        state.questions[number] = opened
        self._jobs.commands.append(Send(to, question))
        return number

    def _floor(self, to: DomainName, number: int) -> int:
        """Returns the least number of the open questions to a domain; numbers ascend."""
        questions = self._state.questions.items()
        return next((each for each, opened in questions if opened.to == to), number)

    def is_down(self, name: DomainName) -> bool:
        """Returns whether a domain does not answer."""
        peer = self._state.peers.get(name)
        return peer is not None and peer.down and not peer.doubted

    def doubt(self, names: Iterable[DomainName]) -> None:
        """Sends all questions again to domains that are down, unless each got one within
        ``probe_ns``. For ``answer_ns`` they do not count as down: their silence is an old
        one, and no job may start alone because of that."""
        least_ns = self._state.now_ns - self._jobs.settings.patience.probe_ns
        asked = {
            opened.to
            for opened in self._state.questions.values()
            if opened.sent_ns > least_ns
        }
        for name in names:
            if self.is_down(name) and name not in asked:
                self._state.peers[name].doubted = True
                self._resend_all(name)

    def withdraw(self, number: int | None) -> None:
        """Forgets a question whose answer is not needed any more."""
        if number is not None:
            self._state.questions.pop(number, None)

    def withdraw_about(self, member: GroupJob, *kinds: type[AnyAsk]) -> None:
        """Forgets the questions of these kinds about a job's group."""
        for number, opened in list(self._state.questions.items()):
            if opened.job == member.number and isinstance(opened.question.ask, kinds):
                del self._state.questions[number]

    def withdraw_all(self, member: GroupJob) -> None:
        """Forgets all questions about a job's group."""
        for number, opened in list(self._state.questions.items()):
            if opened.job == member.number:
                del self._state.questions[number]

    def take(self, peer: DomainName, answer: Answer) -> None:
        """Handles an answer; one to no open question is dropped."""
        opened = self._state.questions.get(answer.number)
        late = opened is None or answer.incarnation != self._state.incarnation
        if opened is None or late or opened.to != peer:
            self._state.counts.dropped += 1
            return
        lasts = isinstance(opened.question.ask, LASTING)
        if isinstance(answer.reply, Working | Undecided) or (
            lasts and isinstance(answer.reply, Recovering)
        ):
            opened.heard_ns = self._state.now_ns
            return
        del self._state.questions[answer.number]
        self._on_reply(opened, answer.reply)

    def heard(self, name: DomainName) -> None:
        """Records that a domain sent a message: it is not down."""
        peer = self._state.peers.get(name)
        if peer is None or not peer.down:
            return
        peer.down = peer.doubted = False
        for number, opened in list(self._state.questions.items()):
            if opened.to == name and isinstance(opened.question.ask, Ping):
                del self._state.questions[number]
        self._resend_all(name)
        self._on_back(name)

    def lose(self, name: DomainName) -> None:
        """Marks a domain as down, and gives up the questions to it."""
        peer = self._state.peers.setdefault(name, Peer())
        peer.doubted = False
        if not peer.down:
            peer.down, peer.down_ns = True, self._state.now_ns
            self._state.counts.peers_down += 1
            self._send(name, None, None, Ping())
        for number, opened in list(self._state.questions.items()):
            if opened.to == name and not isinstance(opened.question.ask, (Ping, *LASTING)):
                del self._state.questions[number]
                self._jobs.todo.append(partial(self._on_reply, opened, None))

    def tick(self) -> None:
        """Sends questions again, and gives up those whose time is over."""
        now_ns, patience = self._state.now_ns, self._jobs.settings.patience
        silent = {
            opened.to
            for opened in self._state.questions.values()
            if now_ns >= opened.heard_ns + patience.answer_ns
        }
        for name in sorted(silent):
            if not self.is_down(name):
                self.lose(name)
        for number, opened in list(self._state.questions.items()):
            expired = isinstance(opened.question.ask, Abort) and (
                now_ns >= opened.first_ns + patience.doubt_ns
            )
            if expired:
                del self._state.questions[number]
            elif now_ns >= self._next_ns(opened) and self._matters(opened):
                self._resend(opened)

    def _matters(self, opened: Open) -> bool:
        """Returns whether to send a question again. A domain that is down is only asked
        whether it is back, while a job waits or a mate of its own has departed."""
        ask = opened.question.ask
        if isinstance(ask, Departed):
            return not self.is_down(opened.to)
        return (
            not isinstance(ask, Ping)
            or bool(self._jobs.waiting)
            or any(
                other.to == opened.to and isinstance(other.question.ask, Departed)
                for other in self._state.questions.values()
            )
        )

    def _resend_all(self, name: DomainName) -> None:
        """Sends all questions to a domain again; the silence before does not count."""
        for opened in self._state.questions.values():
            if opened.to == name:
                opened.heard_ns = self._state.now_ns
                self._resend(opened)

    def _resend(self, opened: Open) -> None:
        opened.sent_ns = self._state.now_ns
        self._state.counts.resent += 1
        self._jobs.commands.append(Send(opened.to, opened.question))

    def _next_ns(self, opened: Open) -> int:
        """Returns when a question is sent again. While no job waits, each pause is as long
        as the domain had been down."""
        patience = self._jobs.settings.patience
        if not self.is_down(opened.to):
            return opened.sent_ns + patience.resend_ns
        silence_ns = 0
        if not self._jobs.waiting:
            silence_ns = opened.sent_ns - self._state.peers[opened.to].down_ns
        return opened.sent_ns + max(patience.probe_ns, silence_ns)

    def wake_ns(self) -> int | None:
        """Returns when a question must be sent again or given up."""
        patience, times = self._jobs.settings.patience, list[int]()
        for opened in filter(self._matters, self._state.questions.values()):
            if self.is_down(opened.to):
                times.append(self._next_ns(opened))
            else:
                times.append(opened.sent_ns + patience.resend_ns)
                times.append(opened.heard_ns + patience.answer_ns)
        return earliest(times)
