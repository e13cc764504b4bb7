"""Describes the halves of nodes that jobs have or wait for, for users."""

from __future__ import annotations

from collections.abc import Iterable

from cosched.cluster.answers import PairInfo
from cosched.cluster.engines.native.node_entries import NodeEntries
from cosched.cluster.engines.native.queueing import user_and_program
from cosched.cluster.record import Record
from cosched.core.cluster.queue.halves.halves import Halves
from cosched.core.cluster.queue.halves.learner import Learner
from cosched.core.cluster.queue.halves.sharing_job import SharingJob
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.places.cpus import Cpus
from cosched.core.cluster.queue.queue_events import PairKnown
from cosched.core.counting import counted
from cosched.core.errors import CoschedError
from cosched.core.symbiosis.resources import SHARED

#: By part of a node.
NAMES = ("top", "bottom")
#: The most neighbours that a line names.
_NAMED_MOST = 3


def halves_of(record: Record) -> list[str]:
    """Returns the half that a job has or had of each of its nodes; [] for whole nodes."""
    return [NAMES[part] for part in record.parts]


def neighbours_of(queue: QueueMachine, number: int) -> list[int]:
    """Returns the numbers of the jobs on the other halves of a job's nodes, or of those
    that share its CPUs."""
    place = queue.place
    if isinstance(place, Halves | Cpus):
        return list(place.neighbours_of(number))
    return []


def pairs_of(known: Iterable[PairKnown]) -> list[PairInfo]:
    """Returns the observed speeds of programs beside each other, by their names."""
    found = []
    for each in known:
        uid, program = user_and_program(each.pair.primary)
        beside_uid, beside = user_and_program(each.pair.background)
        found.append(
            PairInfo(
                program=program,
                uid=uid,
                beside=beside,
                beside_uid=beside_uid,
                speed=each.speed,
                seen=each.runs,
                harmful=each.harmful,
            )
        )
    return sorted(found, key=lambda pair: (pair["program"], pair["beside"]))


def place_text(record: Record, neighbours: list[int]) -> str:
    """Returns where a job runs, such as ``the top halves of n1, n2, beside job 7``."""
    if not record.parts:
        return ", ".join(record.nodes)
    found = []
    for part, name in enumerate(NAMES):
        nodes = [
            node
            for node, own in zip(record.nodes, record.parts, strict=True)
            if own == part
        ]
        if nodes:
            halves = "half" if len(nodes) == 1 else "halves"
            found.append(f"the {name} {halves} of {', '.join(nodes)}")
    return f"{' and '.join(found)}, {_beside(neighbours)}"


def _beside(neighbours: list[int]) -> str:
    if not neighbours:
        return "beside no job"
    named = [f"job {number}" for number in neighbours[:_NAMED_MOST]]
    if len(neighbours) > _NAMED_MOST:
        named.append(f"{len(neighbours) - _NAMED_MOST} more")
    return f"beside {' and '.join(named)}"


def room_text(queue: QueueMachine, members: NodeEntries, record: Record, nodes: int) -> str:
    """Returns what is free and what a job needs, such as ``1 nodes free, needs 2``. nodes:
    the whole nodes that it needs."""
    place = queue.place
    if isinstance(place, Cpus):
        return _cpu_text(place, record, nodes)
    if not isinstance(place, Halves):
        free = queue.free_for(exclusive=record.submission.exclusive)
        return f"{counted(free, 'node')} free, needs {nodes}"
    free = queue.free_for(exclusive=True)
    if is_too_large(queue, record):
        return f"{counted(free, 'node')} free, needs {nodes}"
    try:
        halves = len(members.half_counts(record.submission))
    except CoschedError as error:  # the slots of nodes have changed
        return str(error)
    if not halves:
        return f"{counted(free, 'node')} free, needs {nodes}"
    beside = [other for _, other in place.board.open_halves()]
    text = (
        f"halves of {len(beside)} nodes free, needs {halves}, or {nodes} whole nodes of "
        f"which {free} are free"
    )
    job = queue.jobs[record.number].job if record.number in queue else None
    if isinstance(job, SharingJob):
        text += _warning(job, beside) + _harm(job, beside, place.learner)
    return text


def is_too_large(queue: QueueMachine, record: Record) -> bool:
    """Returns whether a job in the queue wants to share and is too large for halves."""
    place = queue.place
    job = queue.jobs[record.number].job if record.number in queue else None
    if not isinstance(place, Halves) or not isinstance(job, SharingJob):
        return False
    return place.is_too_large(job)


def whole_nodes_text(queue: QueueMachine, record: Record) -> str:
    """Returns why a job that wants to share takes whole nodes; empty if it is small enough
    for halves, or has some."""
    place = queue.place
    if record.parts or not is_too_large(queue, record) or not isinstance(place, Halves):
        return ""
    part = as_part(place.share_up_to)
    return f"takes whole nodes: it is larger than {part} of the nodes"


def as_part(share: float) -> str:
    """Returns ``1/8`` for an eighth; shares that are no such part are in percent."""
    parts = round(1 / share)
    return f"1/{parts}" if abs(share * parts - 1.0) < 1e-9 else f"{share:.0%}"


def _cpu_text(place: Cpus, record: Record, nodes: int) -> str:
    """Returns what is free and what a job needs, such as ``1 CPU free, needs 2``."""
    job, board = record.submission, place.board
    if job.exclusive:
        return f"{counted(board.empty, 'node')} free, needs {nodes}"
    wanted = nodes * min(job.cpus or -(-job.tasks // nodes), board.cpus)
    room = board.room if job.share else board.idle
    free = sum(map(room, board.nodes()))
    each = f" on {nodes} nodes" if nodes > 1 else ""
    what = "free, or shared by jobs that share" if job.share else "free"
    return f"{counted(free, 'CPU')} {what}, needs {wanted}{each}"


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
