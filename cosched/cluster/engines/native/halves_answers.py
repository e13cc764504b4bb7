"""Describes the halves of nodes that jobs have, for users."""

from __future__ import annotations

from collections.abc import Iterable

from cosched.cluster.answers import PairInfo
from cosched.cluster.engines.native.queueing import user_and_program
from cosched.cluster.record import Record
from cosched.core.cluster.queue.halves.halves import Halves
from cosched.core.cluster.queue.halves.sharing_job import SharingJob
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.places.cpus import Cpus
from cosched.core.cluster.queue.queue_events import PairKnown

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
