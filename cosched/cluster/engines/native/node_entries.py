"""Keeps the nodes of a domain: which are up, drained, leaving or lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from cosched.cluster.messages import PROTOCOL, Hello, StartReport
from cosched.cluster.submission import Submission
from cosched.cluster.submission_request import MOST
from cosched.config.domain import DomainConfig
from cosched.core.cluster.numbering import Numbering
from cosched.core.cluster.queue.nodes import Intervals, from_numbers, numbers
from cosched.core.config.suggestions import suggest
from cosched.core.counting import counted
from cosched.core.decoding import host_of
from cosched.core.errors import CoschedError

#: Why an agent could not join that did not come as far as ``Hello``.
UNREADABLE = "refused: its messages cannot be read"
UNKNOWN_KEY = "an unknown key came from its address"


class NodeState(Enum):
    """The state of a node in its domain."""

    DOWN = "down"  #: it never joined
    UP = "up"
    DRAINED = "drained"  #: an operator keeps new jobs away; some may still run there
    LOST = "lost"  #: it was up and does not answer


@dataclass(slots=True)
class NodeEntry:
    """A node."""

    name: str  #: in domain.toml
    number: int  #: of the domain's numbering
    address: str  #: ``HOST:PORT`` of its agent
    state: NodeState = NodeState.DOWN  #: whether jobs may start there
    drained: bool = False  #: whether an operator has drained it
    leaving: bool = False  #: domain.toml lacks it; it goes once no job has it
    reason: str = ""  #: the operator's, or that of the loss
    refused: str = ""  #: the cause of the last refusal
    received_ns: int = 0  #: when its last message came, by a monotonic clock
    agent: int = 0  #: the incarnation of its agent; 0: it never joined
    #: Its agent is another one than before the controller's own restart.
    restarted: bool = False
    session: int = 0  #: of its agent, as it was in the last ``Welcome``
    secret: bytes = field(default=b"", repr=False)  #: shared with this life of the agent
    slots: int = 0  #: tasks of one job; 0: not known yet
    part_slots: int = 0  #: those of its smallest part; 0: not known, or it is undivided
    memory_bytes: int = 0  #: all of it; 0: not known
    #: That its agent had when it joined.
    starts: tuple[StartReport, ...] = field(default=())

    @property
    def interval(self) -> Intervals:
        """The node as a set."""
        return ((self.number, self.number),)

    @property
    def answers(self) -> bool:
        """Whether the agent is there."""
        return self.state in (NodeState.UP, NodeState.DRAINED)

    def shown_state(self, *, busy: bool) -> str:
        """Returns its state in a word. busy: whether it has a job, or may have one."""
        if self.leaving and self.answers:
            return "leaving"
        if self.state is NodeState.DRAINED and busy:
            return "draining"
        return self.state.value

    @property
    def why(self) -> str:
        """The reason of its state; empty if there is none."""
        return self.reason if self.answers else self.refused or self.reason

    def join(self, hello: Hello) -> None:
        """Takes the facts of its agent, which answers from now on."""
        self.agent = hello.incarnation
        self.slots = next(iter(hello.totals.values()), 0)
        self.part_slots = hello.part_slots
        self.memory_bytes = hello.memory_bytes
        self.starts = hello.starts
        self.refused = ""
        self.state = NodeState.DRAINED if self.drained else NodeState.UP
        self.reason = self.reason if self.drained else ""


class Room(NamedTuple):
    """The room that a domain has for jobs, at one moment."""

    slots: int  #: as ``NodeEntries.slots``
    tasks_per_slot: int  #: tasks of a job that a slot takes if the job has more than slots
    nodes: int  #: as ``NodeEntries.most``

    def counts(self, job: Submission) -> tuple[int, ...]:
        """Returns the tasks of a job on each of its nodes. Raises CoschedError if the
        domain can never run it."""
        if not self.slots:
            raise CoschedError("no node has joined the domain yet; try again")
        try:
            return job.counts(self.slots, self.nodes)
        except CoschedError:
            if self.tasks_per_slot == 1:
                raise
        try:
            return job.counts(self.slots * self.tasks_per_slot, self.nodes)
        except CoschedError as error:
            if job.nodes or self.nodes > 1:
                raise
            cpus = counted(self.slots, "CPU")
            each = f"{self.tasks_per_slot} on each of {cpus}"
            raise CoschedError(f"{error}: {each}") from None


class NodeEntries:
    """The nodes of a domain by name and number."""

    def __init__(self, config: DomainConfig, numbering: Numbering | None = None) -> None:
        self._config = config
        self.by_number: list[NodeEntry] = []
        self.by_name: dict[str, NodeEntry] = {}
        self.numbering = Numbering()
        self.take(numbering or Numbering().following(config.nodes))

    def configure(self, config: DomainConfig) -> None:
        """Applies changed settings."""
        self._config = config

    def take(self, numbering: Numbering) -> list[NodeEntry]:
        """Has the nodes of a numbering from now on; returns those that are new."""
        self.numbering = numbering
        before = {member.number: member for member in self.by_number}
        self.by_number = [
            before.get(node.number) or NodeEntry(node.name, node.number, node.address)
            for node in numbering.nodes
        ]
        self.by_name.clear()  # others read it, too
        self.by_name.update((member.name, member) for member in self.by_number)
        return [member for member in self.by_number if member.number not in before]

    def restore(self, agents: Mapping[str, int], drains: Mapping[str, str]) -> list[str]:
        """Restores stored facts of nodes, by name: the incarnations of their agents, and
        the reasons of drains. Returns the drained nodes that have left the domain."""
        for name, incarnation in agents.items():
            if name in self.by_name:
                self.by_name[name].agent = incarnation
        for name, reason in drains.items():
            if name in self.by_name:
                self.by_name[name].drained, self.by_name[name].reason = True, reason
        return [name for name in drains if name not in self.by_name]

    @property
    def all(self) -> Intervals:
        """All nodes of the domain, up or not."""
        return from_numbers(member.number for member in self.by_number)

    @property
    def count(self) -> int:
        """How many nodes stay in the domain, up or not."""
        return sum(not member.leaving for member in self.by_number)

    @property
    def most(self) -> int:
        """How many nodes a job may have, also such as come later."""
        return max(self.count, self._config.most_nodes)

    @property
    def slots(self) -> int:
        """The tasks that each node takes of a job; 0 as long as no node has joined."""
        known = [member.slots for member in self.by_number if member.slots]
        return self._config.slots or min(known, default=0)

    @property
    def room(self) -> Room:
        """The room for jobs now."""
        return Room(self.slots, self._config.tasks_per_slot, self.most)

    def counts(self, job: Submission) -> tuple[int, ...]:
        """Returns the tasks of a job on each of its nodes, as ``Room.counts``."""
        return self.room.counts(job)

    @property
    def in_blocks(self) -> bool:
        """Whether jobs get aligned blocks of nodes."""
        return self._config.queue.block > 0

    @property
    def divided(self) -> bool:
        """Whether jobs may have halves of nodes."""
        return self._config.symbiosis.divides

    @property
    def part_slots(self) -> int:
        """The tasks that each half of a node takes of a job; 0 as long as that is not
        known."""
        known = [member.part_slots for member in self.by_number if member.part_slots]
        return min(known, default=0)

    def may_share(self, job: Submission) -> bool:
        """Returns whether a job may have halves of nodes here."""
        return self.divided and job.shares(self._config.symbiosis.share_unlabelled)

    def half_counts(self, job: Submission) -> tuple[int, ...]:
        """Returns the tasks of a job on each of its halves; () for one that has whole
        nodes. Raises CoschedError for a job that wants to share and has more tasks than a
        half takes."""
        if not self.may_share(job):
            return ()
        if not self.part_slots:
            raise CoschedError("no node has joined the domain yet; try again")
        try:
            return job.counts(self.part_slots, MOST, "half of a node")
        except CoschedError as error:
            if not job.limited_by and not job.share_node:
                return ()  # only the operator lets it share
            raise CoschedError(f"{error}; submit it with --share-node no") from None

    def problem(self, name: str, hello: Hello) -> str | None:
        """Returns why the agent of a node cannot join; None if it can."""
        if hello.protocol != PROTOCOL:
            return f"it speaks version {hello.protocol} of the protocol, not {PROTOCOL}"
        if hello.config != self._config.digest(name):
            return "its domain.toml differs from the controller's"
        return None

    def note_unreadable(self, name: str) -> None:
        """Marks a node without an agent: messages came that cannot be read."""
        member = self.by_name.get(name)
        if member is not None and not member.answers:
            member.refused = UNREADABLE

    def note_unknown_key(self, address: str) -> None:
        """Marks the nodes of a numeric address that have no agent: an unknown key came from
        there. It is a hint: the sender is not known."""
        for member in self.by_number:
            if host_of(member.address) == address and not member.answers:
                member.refused = member.refused or UNKNOWN_KEY

    def removed(self, names: Iterable[str]) -> list[str]:
        """Returns the names that no node in domain.toml has."""
        return [name for name in names if name not in self.by_name]

    def named(self, names: Iterable[str]) -> list[NodeEntry]:
        """Returns the nodes with these names. Raises CoschedError if one is unknown."""
        for name in self.removed(names):
            hint = suggest(name, self.by_name) or "; see cosched cluster status"
            raise CoschedError(f"node {name}: is not in this domain{hint}")
        return [self.by_name[name] for name in names]

    def numbers(self, names: Iterable[str]) -> Intervals:
        """Returns the nodes with these names as a set."""
        return from_numbers(self.by_name[name].number for name in names)

    def names(self, nodes: Intervals) -> tuple[str, ...]:
        """Returns the names of these nodes, in order."""
        names = {member.number: member.name for member in self.by_number}
        return tuple(names[number] for number in numbers(nodes))

    def excuse(self, now_ns: int) -> None:
        """Counts no node as silent until now: this process has read nothing."""
        for member in self.by_number:
            member.received_ns = max(member.received_ns, now_ns)

    def silent(self, now_ns: int) -> list[NodeEntry]:
        """Returns the nodes that sent nothing for too long."""
        limit_ns = now_ns - self._config.life.lost_after_ns
        return [
            member
            for member in self.by_number
            if member.answers and member.received_ns < limit_ns
        ]
