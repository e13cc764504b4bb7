"""Answers each question of another domain once: a repeated one gets the same answer.

The answers that were given are part of the stored state, so this is true after a restart,
too. They are kept until the other domain does not wait for them any more (``floor``).
Questions of an earlier incarnation of a domain are dropped: it has forgotten that it asked.
"""

from __future__ import annotations

from cosched.core.cluster.coupling.engine_messages import Send
from cosched.core.cluster.coupling.groups import DomainName
from cosched.core.cluster.coupling.jobs import Jobs
from cosched.core.cluster.coupling.mate_messages import (
    PASSING,
    Answer,
    AnyReply,
    Question,
    Working,
)
from cosched.core.cluster.coupling.state import Owed, Peer

#: A domain that has more open questions than this loses the answers to the oldest.
ANSWERS_MOST = 1024


class Replies:
    """The answers that other domains got."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._state = jobs.state

    def admit(self, peer: DomainName, question: Question, *, busy: bool) -> bool:
        """Returns whether a question is new. Answers it if it is not.

        busy: its answer is being worked on.
        """
        known = self._known(peer)
        if question.incarnation < known.incarnation:
            return self._drop()
        if question.incarnation > known.incarnation:
            known.incarnation, known.floor = question.incarnation, 0
            known.answers.clear()
        if question.floor > known.floor:
            known.floor = question.floor
            for number in [n for n in known.answers if n < question.floor]:
                del known.answers[number]
        if question.number < known.floor:
            return self._drop()
        answer = known.answers.get(question.number)
        if answer is not None:
            self._state.counts.resent += 1
            self._jobs.commands.append(Send(peer, answer))
            return False
        if busy:
            self.give(Owed(peer, question.incarnation, question.number), Working())
            return False
        return True

    def give(self, owed: Owed, reply: AnyReply) -> None:
        """Answers a question."""
        answer = Answer(self._state.name, owed.incarnation, owed.number, reply)
        known = self._known(owed.peer)
        if owed.incarnation != known.incarnation:
            return  # the domain has restarted since
        if not isinstance(reply, PASSING) and owed.number >= known.floor:
            known.answers[owed.number] = answer
            if len(known.answers) > ANSWERS_MOST:
                del known.answers[min(known.answers)]
        self._jobs.commands.append(Send(owed.peer, answer))

    def _known(self, name: DomainName) -> Peer:
        peers = self._state.peers
        if name not in peers:
            peers[name] = Peer()
        return peers[name]

    def _drop(self) -> bool:
        self._state.counts.dropped += 1
        return False
