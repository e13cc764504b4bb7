"""Keeps the coupling of a domain with others: its groups, its mail and its stored state.

The controller drives the coupling itself: the decisions are those of ``CoupledQueue``, and
each is stored before it is carried out. So one process knows jobs, nodes and groups, and
after a crash one restart brings them together.
"""

from __future__ import annotations

import asyncio
import pwd
import time
from collections.abc import Sequence
from typing import Protocol

from cosched.cluster.answers import MateInfo
from cosched.cluster.controller.clock import DomainClock
from cosched.cluster.coupled.limits import leaves_no_trace
from cosched.cluster.coupled.memory import Memory
from cosched.cluster.coupled.window import describe, explain
from cosched.cluster.engines.mates import group_of, parse_mates
from cosched.cluster.store import Record
from cosched.config.coupling import Coupled
from cosched.core.cluster.coupling.engine import (
    GoJob,
    GroupDisputed,
    JobAnnounced,
    Received,
    RecoveryEnded,
    Send,
)
from cosched.core.cluster.coupling.mail.messages import (
    Addresses,
    Announce,
    AnyMessage,
    Cause,
)
from cosched.core.cluster.coupling.queue import Command
from cosched.core.cluster.coupling.state import Member, Stage
from cosched.core.cluster.queue.messages import EndJob, StartJob
from cosched.core.errors import CoschedError

#: How long a submission waits for the opinion of the other domains about its group.
OPINION_WITHIN_S = 1.0


class Mail(Protocol):
    """Carries messages to other domains; they may be lost."""

    def send(self, to: str, message: AnyMessage) -> None:
        """Sends without waiting."""


class Pairs:
    """The jobs with mates of this domain."""

    def __init__(
        self, coupled: Coupled, memory: Memory, mail: Mail, clock: DomainClock
    ) -> None:
        self._coupled = coupled
        self._memory = memory
        self._mail = mail
        self.clock = clock
        self._disputes: dict[int, str] = {}
        self._opinions: dict[int, asyncio.Future[str | None]] = {}
        self.coupling = memory.restart(
            coupled.name, coupled.settings, coupled.rights, clock.now_ns()
        )

    def configure(self, coupled: Coupled) -> None:
        """Takes changed settings and rights; the rest of ``coupled`` is the same, and holds
        keep their leases."""
        self._coupled = coupled
        self.coupling.configure(coupled.settings, coupled.rights)

    def announcement(self, record: Record) -> JobAnnounced | None:
        """Returns the event for a job with mates; None for one without, and for one that
        was announced. Raises CoschedError if its mates cannot be."""
        text, own = record.submission.mates, self._coupled.name
        if not text:
            return None
        group = group_of(parse_mates(text, own, self._coupled.domains), own)
        if record.number in self.coupling.state.members:
            return None
        user = _user_name(record.uid)
        now_ns = self.clock.now_ns()
        return JobAnnounced(now_ns, time.time_ns(), record.number, group, user)

    def recovery_ended(self) -> RecoveryEnded | None:
        """Returns the event that all jobs were reported; None if there was no restart."""
        if not self.coupling.state.recovering:
            return None
        return RecoveryEnded(self.clock.now_ns(), time.time_ns())

    def received(self, peer: str, message: AnyMessage) -> Received | None:
        """Returns the event for a message; None if its sender is not coupled."""
        if peer not in self._coupled.domains:
            return None
        return Received(self.clock.now_ns(), peer, message)

    # --- what the coupling orders ---------------------------------------------------------

    def before(self, commands: Sequence[Command]) -> None:
        """Stores the state before these commands are carried out, if it matters to them.
        Notes what other domains think of the groups of new jobs."""
        for command in commands:
            if isinstance(command, GroupDisputed):
                reason = f"{command.domain} refuses its group: {command.reason}"
                self._disputes[command.number] = reason
                self._give_opinion(command.number, reason)
        for number in [each for each in self._opinions if not self._is_announced(each)]:
            self._give_opinion(number, None)
        if any(
            not isinstance(each, StartJob | EndJob) and not leaves_no_trace(each)
            for each in commands
        ):
            self._memory.keep(self.coupling)

    def carry_out(self, command: Command) -> None:
        """Sends a message; all else is done already."""
        if isinstance(command, Send):
            self._mail.send(command.to, command.message)

    def others(self, command: GoJob) -> Addresses:
        """Returns domain and address of the other jobs that begin."""
        own = self._coupled.name
        return tuple(each for each in command.addresses if each[0] != own)

    def mates_of(self, number: int) -> Addresses:
        """Returns domain and address of a started job's mates."""
        member = self.member(number)
        return () if member is None else self.others(GoJob(number, member.addresses))

    # --- opinions of other domains --------------------------------------------------------

    async def objection(self, number: int) -> str | None:
        """Returns why another domain refuses a new job's group; None if all that answer
        soon accept it."""
        if not self._is_announced(number):
            return None
        opinion = asyncio.get_running_loop().create_future()
        self._opinions[number] = opinion
        try:
            await asyncio.wait({opinion}, timeout=OPINION_WITHIN_S)
            return opinion.result() if opinion.done() else None
        finally:
            self._opinions.pop(number, None)

    def _is_announced(self, number: int) -> bool:
        """Returns whether the announcement of a job is not answered yet."""
        return any(
            opened.job == number and isinstance(opened.question.ask, Announce)
            for opened in self.coupling.state.questions.values()
        )

    def _give_opinion(self, number: int, reason: str | None) -> None:
        opinion = self._opinions.get(number)
        if opinion is not None and not opinion.done():
            opinion.set_result(reason)

    # --- for users ------------------------------------------------------------------------

    def member(self, number: int) -> Member | None:
        """Returns a job with mates; None for another one."""
        return self.coupling.state.members.get(number)

    def explain(self, number: int) -> str | None:
        """Returns one line about the wait or the start of a job; None without mates."""
        member = self.member(number)
        if member is None or member.stage is Stage.OVER:
            return None
        if member.cause is Cause.REFUSED and number in self._disputes:
            return self._disputes[number]
        return explain(member, self._coupled.name, self.clock.now_ns())

    def waiting(self) -> list[MateInfo]:
        """Returns the jobs with mates that wait, by submission."""
        own, now_ns = self._coupled.name, self.clock.now_ns()
        return [describe(member, own, now_ns) for member in self.coupling.waiting]


def _user_name(uid: int) -> str:
    """Returns the name by which other domains know a user."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise CoschedError(
            f"mates: user {uid} has no name here, so no other domain can know it"
        ) from None
