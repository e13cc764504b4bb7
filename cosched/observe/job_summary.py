"""Reads the records of ended jobs from all nodes and sums up each job."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from cosched.core.counting import counted
from cosched.core.decoding import convert
from cosched.core.errors import CoschedError, NoDaemon
from cosched.core.trace.filling import Filling, merged
from cosched.core.trace.job_record import JobRecord, decode_record
from cosched.core.trace.neighbours import Sharing, merged_sharing
from cosched.core.units import NS_PER_S, NS_PER_US
from cosched.node.records.bounded_file import FilePair
from cosched.node.sockets.client import request
from cosched.observe.filling import sentences
from cosched.observe.shared_nodes import sentences as sharing_sentences
from cosched.observe.timeline.overlap import Interval, clipped, shared
from cosched.rundir.paths import NodePaths

#: Records of one job whose commands are nearer to each other have the same command.
_COMMAND_WITHIN_NS = NS_PER_S // 10


@dataclass(frozen=True, slots=True)
class JobSummary:
    """One run of a job over all its nodes. Times are in seconds if not stated otherwise."""

    job: str  #: the job's key on its nodes
    name: str  #: the job's name, as its user knows it
    uid: int  #: the job's user
    nodes: tuple[str, ...]  #: its nodes, in the order of their names
    tasks: int  #: the number of its ranks on all nodes
    began_wall_ns: int  #: its first start, in ns since 1970
    ended_wall_ns: int  #: its last end, in ns since 1970
    #: How long after its command it began on its first node; None if that is unknown.
    began_after_s: float | None
    partial: bool  #: a record covers only the time in which its daemon was up
    #: From the first start to the last end, which is no run time on shared CPUs.
    response_s: float
    node_s: float  #: the time on its nodes, added up
    scheduled_s: float  #: the time in which it was scheduled, the mean of the nodes
    unscheduled_s: float  #: the time without a turn, the mean of the nodes
    suspended_s: float  #: the time in which its owner had stopped it, the mean of the nodes
    released_s: float  #: the time at the kernel's normal shares, the mean of the nodes
    #: The time scheduled on all nodes, as a fraction of the time scheduled on any; 1 on a
    #: single node, None if the job was never scheduled.
    together: float | None
    #: An estimate of its run time alone: the time in which it was scheduled on all its
    #: nodes, or released.
    alone_s: float
    cpu_s: float | None  #: CPU time of all its processes; None if it is unknown on a node
    switches: int  #: the number of times that it was scheduled, a sum over the nodes
    granted: int  #: its requests that were granted
    refused: dict[str, int]  #: its requests that were refused, by the reason
    trapped: int  #: its messages that were trapped
    #: How its waits were filled, and which it filled, sums over its nodes; None if unknown.
    filling: Filling | None
    waited_s: float  #: the time in calls that wait, a sum over all tasks
    #: What was seen of it beside other jobs; None if its user named no limiting resource.
    sharing: Sharing | None
    kind: int  #: the same for runs of one program; 0: unknown
    #: How long it was expected to be scheduled; None if that is unknown.
    expected_s: float | None
    #: Its ranks that ended without MPI_Finalize; None if that is unknown.
    unfinished: int | None
    came_to_mpi: bool  #: one of its ranks called MPI_Init
    #: How often the queue of its domain changed its size; None if it is rigid or that is
    #: unknown.
    changes: int | None = None


def gather(
    nodes: Sequence[NodePaths],
    since_wall_ns: int,
    complain: Callable[[str], object],
    saved: Sequence[FilePair] = (),
) -> list[JobRecord]:
    """Returns the records of these nodes since then, and the records in ``saved``.

    They come from the files if the user may read them, otherwise from the daemons, which
    return only the user's own jobs. complain: as for ``read_files``.
    """
    found = [
        record for paths in nodes for record in _of_node(paths, since_wall_ns, complain)
    ]
    for place in saved:
        found += read_files(place, since_wall_ns, complain)
    # A private daemon that is up returns records that are also in the state directory.
    return list({(r.node, r.job, r.began_wall_ns): r for r in found}.values())


def _of_node(
    paths: NodePaths, since_wall_ns: int, complain: Callable[[str], object]
) -> list[JobRecord]:
    place = FilePair(paths.directory, "history", 0)
    if place.files and all(os.access(path, os.R_OK) for path in place.files):
        return read_files(place, since_wall_ns, complain)
    try:
        answer = request(paths, "history", since_wall_ns=since_wall_ns)
    except NoDaemon:
        return []
    what = f"the history of {paths.node}"
    records: list[JobRecord] = convert(answer["records"], list[JobRecord], what)
    return records


def read_files(
    place: FilePair, since_wall_ns: int, complain: Callable[[str], object]
) -> list[JobRecord]:
    """Returns the records in a history's files; skips a last line that was cut short.

    complain: takes one line about other lines of a file that are not records.
    """
    records = []
    for path, content in _contents(place):
        lines = content.splitlines(keepends=True)
        problems = []
        for number, line in enumerate(lines, 1):
            try:
                records.append(decode_record(line))
            except CoschedError as error:
                if number < len(lines) or line.endswith(b"\n"):
                    problems.append(f"{path}:{number}: {error}")
        if problems:
            complain(f"{problems[0]}; {len(problems)} lines of this file are skipped")
    return [record for record in records if record.ended_wall_ns >= since_wall_ns]


def _contents(place: FilePair) -> list[tuple[Path, bytes]]:
    """Returns the content of each file; CoschedError for one that cannot be read.

    Reads again if the daemon rotated the files meanwhile.
    """
    while True:
        try:
            before = list(map(_identity, place.files))
            found = [(path, path.read_bytes()) for path in place.files]
            if list(map(_identity, place.files)) == before:
                return found
        except FileNotFoundError:
            pass
        except OSError as error:
            raise CoschedError(
                f"{error.filename}: cannot be read ({error.strerror})"
            ) from None


def _identity(path: Path) -> tuple[Path, int, int]:
    status = path.stat()
    return path, status.st_dev, status.st_ino


def saved_places(state: Path | None) -> list[FilePair]:
    """Returns the histories in a state directory that this process may read.

    Other users' daemons return the user's own jobs on request.
    """
    if state is None:
        return []
    return [
        FilePair(path.parent, "history", 0)
        for path in sorted(state.glob("*/history.jsonl"))
        if os.access(path, os.R_OK)
    ]


def runs(
    records: Iterable[JobRecord], malleable: Container[str] = ()
) -> list[list[JobRecord]]:
    """Groups the records of one run: the same job, on different nodes, at one time.

    A rank can end before the next one begins; then a node has several records of the run.
    malleable: names of jobs whose nodes come and go; the time of one node overlaps with
    that of another one."""
    found: list[list[JobRecord]] = []
    by_job: dict[str, list[list[JobRecord]]] = {}
    for record in sorted(records, key=lambda r: (r.began_wall_ns, r.node)):
        joins = _joins if record.name in malleable else _belongs
        own = by_job.setdefault(record.job, [])
        mates = next((run for run in reversed(own) if joins(record, run)), None)
        if mates is None:
            own.append([record])
            found.append(own[-1])
        else:
            mates.append(record)
    return found


def _belongs(record: JobRecord, run: Sequence[JobRecord]) -> bool:
    """Returns whether a record is of this run of the same job."""
    return all(
        other.world == record.world
        and (_is_beside(record, other) or _has_other_ranks(record, other))
        for other in run
    )


def _is_beside(record: JobRecord, other: JobRecord) -> bool:
    return other.node != record.node and other.ended_wall_ns >= record.began_wall_ns


def _has_other_ranks(record: JobRecord, other: JobRecord) -> bool:
    """Returns whether two records are of different ranks that one command started."""
    given_ns, other_ns = _command_ns(record), _command_ns(other)
    if given_ns is None or other_ns is None or set(record.ranks) & set(other.ranks):
        return False
    return abs(given_ns - other_ns) < _COMMAND_WITHIN_NS


def _command_ns(record: JobRecord) -> int | None:
    """Returns when the user gave the job's command, in ns since 1970; None: unknown."""
    if record.began_after_s is None:
        return None
    return record.began_wall_ns - round(record.began_after_s * NS_PER_S)


def _joins(record: JobRecord, run: Sequence[JobRecord]) -> bool:
    """Returns whether a malleable job has this node while it has another one."""
    return any(other.ended_wall_ns >= record.began_wall_ns for other in run)


def summary(run: Sequence[JobRecord]) -> JobSummary:
    """Sums up the records of one run."""
    first = run[0]
    by_node = _by_node(run)
    nodes = tuple(sorted(by_node))
    began = min(record.began_wall_ns for record in run)
    ended = max(record.ended_wall_ns for record in run)
    refused: Counter[str] = Counter()
    for record in run:
        refused.update({reason.value: n for reason, n in record.refused.items()})
    cpu = [record.cpu_s for record in run if record.cpu_s is not None]
    ends = [record.unfinished for record in run if record.unfinished is not None]
    began_after = [r.began_after_s for r in run if r.began_after_s is not None]
    fillings = [record.filling for record in run if record.filling is not None]
    fraction, together_s = _together(by_node)
    released_s = _released_s(by_node)
    shared_nodes = [record.sharing for record in run if record.sharing is not None]
    return JobSummary(
        job=first.job,
        name=first.name,
        uid=first.uid,
        nodes=nodes,
        tasks=sum(len(record.ranks) for record in run),
        began_wall_ns=began,
        ended_wall_ns=ended,
        began_after_s=min(began_after, default=None),
        partial=any(record.partial for record in run),
        response_s=(ended - began) / NS_PER_S,
        node_s=sum(record.ended_wall_ns - record.began_wall_ns for record in run)
        / NS_PER_S,
        scheduled_s=sum(record.scheduled_s for record in run) / len(nodes),
        unscheduled_s=sum(record.unscheduled_s for record in run) / len(nodes),
        suspended_s=sum(record.suspended_s for record in run) / len(nodes),
        released_s=sum(released_s) / len(nodes),
        together=fraction,
        alone_s=together_s + min(released_s),
        cpu_s=sum(cpu) if len(cpu) == len(run) else None,
        switches=sum(record.switches for record in run),
        granted=sum(record.granted for record in run),
        refused=dict(refused),
        trapped=sum(record.trapped for record in run),
        filling=merged(fillings) if len(fillings) == len(run) else None,
        waited_s=sum(record.waited_s for record in run),
        kind=run[0].kind,
        sharing=merged_sharing(shared_nodes) if shared_nodes else None,
        expected_s=max(record.expected_s for record in run) or None,
        unfinished=sum(ends) if len(ends) == len(run) else None,
        came_to_mpi=any(record.launch_s < record.response_s for record in run),
    )


def resized_summary(run: Sequence[JobRecord], changes: int) -> JobSummary:
    """Sums up the records of a malleable job, whose size changed so often.

    At each moment only the nodes that the job has then count for the time together.
    """
    whole = summary(run)
    began, until = whole.began_wall_ns, whole.ended_wall_ns
    since = _known_since(run, began)
    by_node = _by_node(run)
    there = [clipped(_intervals(own), since, until) for own in by_node.values()]
    away = [clipped(_absences(own, began, until), since, until) for own in by_node.values()]
    if since >= until:
        return replace(whole, changes=changes)
    covered = [[*one, *gone] for one, gone in zip(there, away, strict=True)]
    all_ns = shared(covered).all_ns - shared(away).all_ns
    any_ns = shared(there).any_ns
    scale = (until - began) / (until - since)
    return replace(
        whole,
        changes=changes,
        together=all_ns / any_ns if any_ns else None,
        alone_s=all_ns * scale / NS_PER_S + min(_released_s(by_node)),
    )


def _absences(
    own: Iterable[JobRecord], began_ns: int, until_ns: int
) -> Iterator[tuple[int, int]]:
    """Returns when a job did not have a node, from its records of it in their order."""
    left_ns = began_ns
    for record in own:
        yield left_ns, record.began_wall_ns
        left_ns = record.ended_wall_ns
    yield left_ns, until_ns


def _by_node(run: Sequence[JobRecord]) -> dict[str, list[JobRecord]]:
    """Returns the records of a run by node; one node can have several, one by one."""
    found: dict[str, list[JobRecord]] = {}
    for record in run:
        found.setdefault(record.node, []).append(record)
    return found


def _released_s(by_node: Mapping[str, Sequence[JobRecord]]) -> list[float]:
    """Returns the time at the kernel's normal shares on each node, in seconds."""
    return [sum(each.released_s for each in own) for own in by_node.values()]


def _together(by_node: Mapping[str, Sequence[JobRecord]]) -> tuple[float | None, float]:
    """Returns the fraction of its scheduled time that a job was scheduled on all nodes, and
    that time in seconds.

    If the records have only the last intervals, the earlier time counts like these.
    """
    nodes = list(by_node.values())
    if len(nodes) == 1:
        scheduled_s = sum(record.scheduled_s for record in nodes[0])
        return (1.0 if scheduled_s else None), scheduled_s
    began = max(min(record.began_wall_ns for record in own) for own in nodes)
    until = min(max(record.ended_wall_ns for record in own) for own in nodes)
    since = _known_since((each for own in nodes for each in own), began)
    if since >= until:
        return None, 0.0
    common = shared([clipped(_intervals(own), since, until) for own in nodes])
    scale = (until - began) / (until - since)
    return common.fraction, common.all_ns * scale / NS_PER_S


def _known_since(run: Iterable[JobRecord], began_ns: int) -> int:
    """Returns the time since which no record lacks an interval."""
    incomplete = (each for each in run if each.complete_from_us)
    return max(
        (each.began_wall_ns + each.complete_from_us * NS_PER_US for each in incomplete),
        default=began_ns,
    )


def _intervals(records: Sequence[JobRecord]) -> list[Interval]:
    """Returns when a job was scheduled on one node, in order."""
    return sorted(
        (
            record.began_wall_ns + start * NS_PER_US,
            record.began_wall_ns + end * NS_PER_US,
        )
        for record in records
        for start, end in record.intervals_us
    )


def document(found: JobSummary) -> dict[str, Any]:
    """Returns the summary's JSON fields."""
    plain: dict[str, Any] = msgspec.to_builtins(found)
    return plain


def in_words(found: JobSummary) -> list[str]:
    """Describes the summary at the end of a run, in lines of about 70 characters."""
    cpu = "" if found.cpu_s is None else f", CPU {found.cpu_s:.2f} s"
    on_all = (
        f", {found.together:.0%} of it on all nodes"
        if found.together is not None and len(found.nodes) > 1
        else ""
    )
    return [
        f"job {found.name}: response {found.response_s:.2f} s (shared, no run time){cpu}",
        f"  scheduled {found.scheduled_s:.2f} s{on_all}",
        f"  unscheduled {found.unscheduled_s:.2f} s; "
        f"alone it might have taken {found.alone_s:.2f} s",
        f"  {counted(found.switches, 'switch', 'switches')}; "
        f"messages trapped {found.trapped}, "
        f"requests granted {found.granted}, refused {sum(found.refused.values())}",
        *(f"  {text}" for text in sentences(found.job, found.began_after_s, found.filling)),
        *(f"  {text}" for text in sharing_sentences(found.job, found.sharing)),
    ]
