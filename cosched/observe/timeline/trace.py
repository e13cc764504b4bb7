"""Reads the trace of a node, which ``cosched.node.records.trace_file`` writes.

A trace is a list of segments. Each begins with the machine's state, so each can be replayed
from there. If a daemon was killed, or is writing, the last line of its segment may be cut
short and is skipped. Any other line that does not belong to a trace is damage: the later
events of its segment do not continue from the state before. A replay refuses such a trace;
``cosched why`` leaves out the rest of the segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from cosched.core.errors import CoschedError
from cosched.core.node.messages import Command, Event, Job, Task
from cosched.core.trace.codec import Header, Step, TaskNote, decode
from cosched.node.records.trace_file import trace_file_pair


class Entry(NamedTuple):
    """One event, its commands, and their place in the trace."""

    event: Event  #: the event on the node
    commands: tuple[Command, ...]  #: the commands that the machine returned, in order
    path: Path  #: the file of the trace
    line: int  #: the number of the line of the event, from 1


@dataclass(slots=True)
class Segment:
    """A part of a trace that can be replayed; iterates as a Trace does."""

    header: Header  #: the machine's state before the first event
    #: The events after it, with their commands.
    entries: list[Entry] = field(default_factory=list)

    def __iter__(self) -> Iterator[Step]:
        return ((entry.event, entry.commands) for entry in self.entries)


@dataclass(slots=True)
class Trace:
    """A node's trace; iterates over (event, commands)."""

    segments: list[Segment]  #: its segments, oldest first; at least one
    #: The note about each task, by job and process; the last note if a process registered
    #: again.
    tasks: Mapping[tuple[Job, Task], TaskNote]

    @property
    def header(self) -> Header:
        """The header of the oldest segment."""
        return self.segments[0].header

    @property
    def node(self) -> str:
        return self.header.node

    @property
    def entries(self) -> Iterator[Entry]:
        """All entries, oldest first."""
        return (entry for segment in self.segments for entry in segment.entries)

    def __iter__(self) -> Iterator[Step]:
        return chain.from_iterable(self.segments)


def trace_files(directory: Path) -> list[Path]:
    """Returns the files of the trace in a node's directory, oldest first."""
    return trace_file_pair(directory).files


def refuse(line: str) -> None:
    """Raises CoschedError for a damaged trace."""
    raise CoschedError(line)


def read_trace(paths: Sequence[Path], damaged: Callable[[str], object] = refuse) -> Trace:
    """Reads the trace in these files of one node; a directory means the files in it.

    damaged: takes a line that names file and line of each damage; if it returns, the rest
    of that segment is left out. Raises CoschedError, with file and line, for a file that
    cannot be read or has no trace.
    """
    segments: list[Segment] = []
    tasks: dict[tuple[Job, Task], TaskNote] = {}
    for path in paths:
        for file in _files(path):
            _read_file(file, segments, tasks, damaged)
    if not segments:
        raise CoschedError(f"{', '.join(map(str, paths))}: no trace in it")
    nodes = sorted({segment.header.node for segment in segments})
    if len(nodes) > 1:
        raise CoschedError(
            f"traces of several nodes ({', '.join(nodes)}); read each node's by itself"
        )
    segments.sort(key=lambda segment: segment.header.wall_ns)
    return Trace(segments, tasks)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = trace_files(path)
    if not files:
        raise CoschedError(
            f"{path}: no trace.jsonl in it; give a node's directory or a file"
        )
    return files


def _read_file(
    path: Path,
    segments: list[Segment],
    tasks: dict[tuple[Job, Task], TaskNote],
    damaged: Callable[[str], object],
) -> None:
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise CoschedError(f"{path}: cannot be read ({error.strerror})") from None
    segment: Segment | None = None
    left_out = False
    for number, line in enumerate(lines, 1):
        try:
            found = decode(line)
        except CoschedError as error:
            if _was_cut(lines, number):
                continue
            if not left_out:
                damaged(f"{path}:{number}: {error}")
            left_out = True
            continue
        match found:
            case Header():
                left_out = False
                segment = Segment(found)
                segments.append(segment)
                tasks.update({(note.job, note.task): note for note in found.tasks})
            case TaskNote():
                tasks[found.job, found.task] = found
            case _ if left_out:
                continue
            case _ if segment is None:
                raise CoschedError(f"{path}:{number}: an event before any header")
            case (event, commands):
                segment.entries.append(Entry(event, commands, path, number))


def _was_cut(lines: Sequence[bytes], number: int) -> bool:
    """Returns whether a line was cut: it is the last, or a new daemon's header follows."""
    if number == len(lines):
        return not lines[-1].endswith(b"\n")
    return lines[number].startswith(b'{"cosched_trace"')
