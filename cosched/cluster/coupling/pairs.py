"""Keeps the coupling of a domain with others: its groups, its mail and its stored state.

The decisions are those of ``core.cluster.coupling``, and each is stored before it is
carried out. So one process knows jobs, nodes and groups, and after a crash one restart
brings them together.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from cosched.cluster.answers import DomainInfo, MateInfo
from cosched.cluster.coupling.clock import DomainClock, clock_time
from cosched.cluster.coupling.domain_figures import Figures, figures
from cosched.cluster.coupling.mail import DomainMail, connect
from cosched.cluster.coupling.mates import Mates, group_of
from cosched.cluster.coupling.snapshot_store import SnapshotStore
from cosched.cluster.paths import DomainPaths
from cosched.config.coupling import Coupled
from cosched.core.cluster.coupling.engine_messages import (
    GroupDisputed,
    JobAnnounced,
    PassWanted,
    Received,
    RecoveryEnded,
    Send,
)
from cosched.core.cluster.coupling.mate_messages import (
    PASSING,
    Addresses,
    Announce,
    Answer,
    AnyMessage,
    Cause,
)
from cosched.core.cluster.coupling.state import GroupJob, Stage
from cosched.core.cluster.coupling.why import Moment, reason, sentence
from cosched.core.cluster.queue.queue_commands import EndJob, StartJob, WakeAt
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S

#: How long a submission waits for the opinion of the other domains about its group.
OPINION_WITHIN_S = 1.0


class Pairs:
    """The jobs with mates of this domain."""

    def __init__(
        self, coupled: Coupled, memory: SnapshotStore, mail: DomainMail, clock: DomainClock
    ) -> None:
        self.coupled = coupled  #: the settings in use
        self.clock = clock
        self._memory = memory
        self._mail = mail
        self._disputes: dict[int, str] = {}
        self._opinions: dict[int, asyncio.Future[str | None]] = {}
        self.coupling = memory.restart(
            coupled.name, coupled.settings, coupled.rights, clock.now_ns()
        )

    def configure(self, coupled: Coupled) -> None:
        """Applies changed settings and rights; the rest of ``coupled`` is the same, and
        holds keep their leases."""
        self.coupled = coupled
        self.coupling.configure(coupled.settings, coupled.rights)

    # --- other domains --------------------------------------------------------------------

    def listen(self) -> None:
        """Listens for the other domains. Raises CoschedError if the address is taken."""
        self._mail.listen(self.coupled.listen)

    async def receive(self, handler: Callable[[str, AnyMessage], None]) -> None:
        """Passes each message and the domain that sent it to ``handler``, for ever."""
        await self._mail.receive(handler)

    def close(self) -> None:
        """Closes the connections and the store."""
        self._mail.close()
        self._memory.close()

    # --- events for the coupling ----------------------------------------------------------

    def announced(self, number: int, user: str, mates: Mates) -> JobAnnounced:
        """Returns the event for a new job with mates."""
        group = group_of(mates, self.coupled.name)
        return JobAnnounced(self.clock.now_ns(), time.time_ns(), number, group, user)

    def recovery_ended(self) -> RecoveryEnded | None:
        """Returns the event that all jobs were reported; None if there was no restart."""
        if not self.coupling.state.recovering:
            return None
        return RecoveryEnded(self.clock.now_ns(), time.time_ns())

    def received(self, peer: str, message: AnyMessage) -> Received | None:
        """Returns the event for a message; None if its sender is not coupled."""
        if peer not in self.coupled.domains:
            return None
        return Received(self.clock.now_ns(), peer, message)

    def complain(self, peer: str, error: CoschedError) -> None:
        """Logs that a message of another domain is dropped."""
        self._mail.complain(peer, error)

    # --- what the coupling orders ---------------------------------------------------------

    def before(self, commands: Sequence[Any]) -> None:
        """Stores the state before these commands are carried out, if it matters to them.
        Keeps the other domains' opinions about the groups of jobs that have not begun."""
        for command in commands:
            if isinstance(command, GroupDisputed):
                self._disputes[command.number] = objection(command)
                self._give_opinion(command.number, objection(command))
        for number in [each for each in self._opinions if not self._is_announced(each)]:
            self._give_opinion(number, None)
        for number in [each for each in self._disputes if not self._may_wait(each)]:
            del self._disputes[number]
        if not all(map(_leaves_no_trace, commands)):
            self._memory.keep(self.coupling)

    def _may_wait(self, number: int) -> bool:
        """Returns whether a job with mates has not begun, so a dispute matters to it."""
        member = self.member(number)
        return member is not None and member.stage not in (Stage.RUNNING, Stage.OVER)

    def send(self, command: Send) -> None:
        """Sends a message without waiting; it may be lost."""
        self._mail.send(command.to, command.message)

    def others(self, addresses: Addresses) -> Addresses:
        """Returns domain and address of the other jobs that begin."""
        return tuple(each for each in addresses if each[0] != self.coupled.name)

    def mates_of(self, number: int) -> Addresses:
        """Returns domain and address of a started job's mates."""
        member = self.member(number)
        return () if member is None else self.others(member.past.addresses)

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

    def member(self, number: int) -> GroupJob | None:
        """Returns a job with mates; None for another one."""
        return self.coupling.state.members.get(number)

    def explain(self, number: int) -> str | None:
        """Returns one line about the wait or the start of a job; None without mates."""
        member = self.member(number)
        if member is None or member.stage is Stage.OVER:
            return None
        return self._why(member)

    def waiting(self) -> list[MateInfo]:
        """Returns the waiting jobs with mates, by submission."""
        return [self._describe(member) for member in self.coupling.waiting]

    def domains(self) -> list[DomainInfo]:
        """Returns the other domains, in the order of the settings."""
        state = self.coupling.state
        asked, waiting, running = set(state.peers), Counter[str](), Counter[str]()
        for member in state.members.values():
            asked.update(member.group.members)
            if member.waits:
                waiting.update(member.group.members)
            elif member.stage is Stage.RUNNING:
                running.update(name for name, _ in member.past.addresses)
        found = []
        for name in self.coupled.domains:
            peer = state.peers.get(name)
            down_ns = peer.down_ns if peer is not None and peer.down else None
            answers = "up" if down_ns is None else "down"
            found.append(
                DomainInfo(
                    domain=name,
                    state=answers if name in asked else "unknown",
                    down_since_ns=None if down_ns is None else self._wall_ns(down_ns),
                    waiting=waiting[name],
                    running=running[name],
                )
            )
        return found

    def _wall_ns(self, at_ns: int) -> int:
        """Returns a time of the domain's clock by the clock on the wall."""
        return time.time_ns() - (self.clock.now_ns() - at_ns)

    def figures(self) -> Figures:
        """Returns the present figures for Prometheus."""
        return figures(self.coupling, self.coupled.domains, self.clock.now_ns())

    def _describe(self, member: GroupJob) -> MateInfo:
        return MateInfo(
            job=member.number,
            group=member.group.name,
            user=member.user,
            state=member.stage.value,
            nodes=member.size,
            held=member.stage is not Stage.QUEUING,
            since_s=round((self.clock.now_ns() - member.since_ns) / NS_PER_S, 3),
            yields=member.past.yields,
            why=self._why(member),
        )

    def _why(self, member: GroupJob) -> str:
        if member.past.cause is Cause.REFUSED and member.number in self._disputes:
            return self._disputes[member.number]
        moment = Moment(self.clock.now_ns(), time.time_ns())
        return sentence(reason(member, self.coupled.name, moment), clock_time)


def open_pairs(coupled: Coupled, paths: DomainPaths, log: Callable[[str], None]) -> Pairs:
    """Returns the jobs with mates as they are stored. Raises CoschedError for a key or a
    store that cannot be used."""
    mail = connect(paths, coupled, log)
    return Pairs(coupled, SnapshotStore(paths.mates), mail, DomainClock())


def objection(dispute: GroupDisputed) -> str:
    """Returns in one line why another domain refuses a job's group."""
    return f"{dispute.domain} refuses its group: {dispute.reason}"


def _leaves_no_trace(command: object) -> bool:
    """Returns whether a command may be carried out before the state is stored: it is an
    answer before which nothing was done, or concerns only this process or its queue. So a
    flood of questions does not cost as many writes to the disk."""
    match command:
        case WakeAt() | PassWanted() | StartJob() | EndJob():
            return True
        case Send(message=Answer(reply=reply)):
            return isinstance(reply, PASSING)
    return False
