"""Describes what is free in a domain and what a job needs, for users.

Make one object for each answer: it finds once what all jobs of the answer have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Protocol

from cosched.cluster.engines.native.halves_answers import is_too_large
from cosched.cluster.engines.native.node_entries import NodeEntries
from cosched.cluster.record import Record
from cosched.cluster.submission import Submission
from cosched.core.cluster.queue.halves.halves import Halves
from cosched.core.cluster.queue.halves.learner import Learner
from cosched.core.cluster.queue.halves.sharing_job import SharingJob
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.places.block_ledger import BlockLedger
from cosched.core.cluster.queue.places.cpu_board import CpuBoard, CpuJob
from cosched.core.cluster.queue.places.cpus import Cpus
from cosched.core.cluster.queue.places.matching import Request
from cosched.core.cluster.queue.places.needs import Lack, lacking_now
from cosched.core.counting import counted
from cosched.core.errors import CoschedError
from cosched.core.symbiosis.resources import SHARED

#: The most jobs that a line names.
_NAMED_MOST = 3


class Rooms(Protocol):
    """The free nodes and CPUs at one moment. nodes: the whole nodes that a job needs."""

    def line(self, record: Record, nodes: int) -> str:
        """Returns what is free and what a job needs, such as ``1 node free, needs 2``."""

    def needs(self, record: Record, nodes: int) -> str:
        """Returns in few letters what a job needs, such as ``needs 2 nodes``."""

    def free(self, record: Record) -> str:
        """Returns in few letters how much of that is free, such as ``1 free``."""


def rooms_of(queue: QueueMachine, members: NodeEntries) -> Rooms:
    """Returns what is free in a domain now."""
    match queue.place:
        case Cpus() as place:
            return _FreeCpus(queue, place.board)
        case Halves() as place:
            return _FreeHalves(queue, place, members)
        case BlockLedger() as place:
            return _FreeBlocks(queue, place)
    return _FreeNodes(queue)


class _FreeNodes:
    """Whole nodes."""

    def __init__(self, queue: QueueMachine) -> None:
        self._queue = queue

    def line(self, record: Record, nodes: int) -> str:
        return f"{counted(self._free(record), 'node')} free, needs {nodes}"

    def needs(self, record: Record, nodes: int) -> str:
        return f"needs {counted(nodes, 'node')}"

    def free(self, record: Record) -> str:
        return f"{self._free(record)} free"

    def _free(self, record: Record) -> int:
        return self._queue.free_for(exclusive=record.submission.exclusive)


class _FreeBlocks(_FreeNodes):
    """Aligned blocks of nodes."""

    def __init__(self, queue: QueueMachine, place: BlockLedger) -> None:
        super().__init__(queue)
        self._place = place

    def line(self, record: Record, nodes: int) -> str:
        free, wanted = super().line(record, nodes), self._place.taken_by(nodes)
        return f"{free}, in an aligned block of {wanted}"


class _FreeCpus:
    """CPUs of nodes."""

    def __init__(self, queue: QueueMachine, board: CpuBoard) -> None:
        self._queue = queue
        self._board = board
        self._lacks: dict[Request, Lack | None] = {}

    def line(self, record: Record, nodes: int) -> str:
        lacking = self._lacking(record)
        cpus = self._cpus(record.submission, nodes)
        return f"{lacking.line}; {cpus}" if lacking else cpus

    def _lacking(self, record: Record) -> Lack | None:
        """Returns what a job lacks besides CPUs; None if it lacks nothing."""
        entry = self._queue.jobs.get(record.number)
        if entry is None or not isinstance(entry.job, CpuJob) or entry.job.needs is None:
            return None
        needs = entry.job.needs
        if needs not in self._lacks:
            nodes = set(self._board.nodes())
            self._lacks[needs] = lacking_now(self._board.matcher, needs, nodes)
        return self._lacks[needs]

    def _cpus(self, job: Submission, nodes: int) -> str:
        if job.exclusive:
            return f"{counted(self._board.empty, 'node')} free, needs {nodes}"
        each = f" on {nodes} nodes" if nodes > 1 else ""
        what = "free, or shared by jobs that share" if job.share else "free"
        free = counted(self._free(job), "CPU")
        return f"{free} {what}, needs {self._wanted(job, nodes)}{each}"

    def needs(self, record: Record, nodes: int) -> str:
        lacking = self._lacking(record)
        if lacking:
            return f"needs {lacking.needed}"
        job = record.submission
        if job.exclusive:
            return f"needs {counted(nodes, 'node')}"
        return f"needs {counted(self._wanted(job, nodes), 'CPU')}"

    def free(self, record: Record) -> str:
        lacking = self._lacking(record)
        if lacking:
            return f"{lacking.free} free"
        job = record.submission
        if job.exclusive:
            return f"{self._board.empty} free"
        return f"{self._free(job)} {'free or shared' if job.share else 'free'}"

    def _wanted(self, job: Submission, nodes: int) -> int:
        return nodes * min(job.cpus or -(-job.tasks // nodes), self._board.cpus)

    def _free(self, job: Submission) -> int:
        return self._with_sharing if job.share else self._idle

    @cached_property
    def _idle(self) -> int:
        return sum(map(self._board.idle, self._board.nodes()))

    @cached_property
    def _with_sharing(self) -> int:
        return sum(map(self._board.room, self._board.nodes()))


class _FreeHalves:
    """Halves of nodes, and whole nodes."""

    def __init__(self, queue: QueueMachine, place: Halves, members: NodeEntries) -> None:
        self._queue = queue
        self._place = place
        self._members = members

    def line(self, record: Record, nodes: int) -> str:
        if is_too_large(self._queue, record):
            return f"{counted(self._free, 'node')} free, needs {nodes}"
        try:
            halves = len(self._members.half_counts(record.submission))
        except CoschedError as error:  # the slots of nodes have changed
            return str(error)
        if not halves:
            return f"{counted(self._free, 'node')} free, needs {nodes}"
        text = (
            f"halves of {counted(len(self._beside), 'node')} free, needs {halves}, or "
            f"{counted(nodes, 'whole node')}, {self._free} free"
        )
        entry = self._queue.jobs.get(record.number)
        if entry is not None and isinstance(entry.job, SharingJob):
            text += _warning(entry.job, self._beside)
            text += _harm(entry.job, self._beside, self._place.learner)
        return text

    def needs(self, record: Record, nodes: int) -> str:
        halves = self._halves(record)
        if not halves:
            return f"needs {counted(nodes, 'node')}"
        return f"needs {counted(halves, 'half of a node', 'halves of nodes')}"

    def free(self, record: Record) -> str:
        return f"{len(self._beside) if self._halves(record) else self._free} free"

    def _halves(self, record: Record) -> int:
        """Returns the halves that a job needs; 0 if it needs whole nodes, or can have no
        halves any more."""
        if is_too_large(self._queue, record):
            return 0
        try:
            return len(self._members.half_counts(record.submission))
        except CoschedError:  # the slots of nodes have changed
            return 0

    @cached_property
    def _free(self) -> int:
        return self._queue.free_for(exclusive=True)

    @cached_property
    def _beside(self) -> Sequence[SharingJob | None]:
        """The job beside each free half."""
        return [other for _, other in self._place.board.open_halves()]


def _warning(job: SharingJob, beside: Iterable[SharingJob | None]) -> str:
    """Returns beside which jobs a label warns of free halves; empty if it does not."""
    own = job.limits & SHARED
    warned = {
        other.number: own & other.limits
        for other in beside
        if other is not None and own & other.limits
    }
    if not warned:
        return ""
    limits = " and ".join(sorted({each for shared in warned.values() for each in shared}))
    named = " and ".join(f"job {number}" for number in sorted(warned)[:_NAMED_MOST])
    return f"; free halves beside {named}: limited by {limits}, too"


def _harm(job: SharingJob, beside: Iterable[SharingJob | None], learner: Learner) -> str:
    """Returns which free halves are beside jobs to keep away from; empty for none."""
    harmed = [
        other.number
        for other in beside
        if other is not None and learner.forbids(job.application, other.application)
    ]
    if not harmed:
        return ""
    named = " and ".join(f"job {number}" for number in sorted(set(harmed))[:_NAMED_MOST])
    return f"; free halves beside {named}: one of the two was slowed too much before"
