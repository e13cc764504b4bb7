"""Keeps the last steps of a node's machine for ``cosched why``, in little memory.

They are kept as lines of a trace, compressed in blocks: a tenth of the memory of the
objects. Thousands of small objects of any age would also keep the memory between them.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator

import msgspec

from cosched.core.node.messages import Event, Job, Task, TaskExited, TaskRegistered
from cosched.core.trace.codec import Step, TaskNote, decode, encode
from cosched.core.trace.story import ENDED, Note, notes_in

#: Steps that are kept, and up to a block more.
RECENT = 4096
#: A block has this many bytes of lines, or a little more.
BLOCK_BYTES = 1 << 16
#: The fastest level of compression.
_LEVEL = 1
#: The first byte of a line: a step, a step with which the event's job ended, and the note
#: about a task that left with the step before.
_STEP, _END, _LEFT = b" ", b"!", b"t"


class _Block(msgspec.Struct, frozen=True):
    """Some lines, compressed."""

    data: bytes  #: the lines
    steps: int  #: the number of steps among them
    first_wall_ns: int  #: when the first step was, by the wall clock
    latest_wall_ns: int  #: the latest wall-clock time of a step


class RecentSteps:
    """The last steps, and the tasks in them. began_wall_ns: when the first step may be."""

    def __init__(self, began_wall_ns: int) -> None:
        self._began_wall_ns = began_wall_ns
        self._blocks: deque[_Block] = deque()
        self._kept = 0  # the number of steps in all blocks
        self._lines = bytearray()  # the newest lines, not yet a block
        self._wall_ns: list[int] = []  # when their steps were
        self._tasks: dict[tuple[Job, Task], TaskNote] = {}  # that have not left

    def introduce(self, note: TaskNote) -> None:
        """Notes a task that is about to register."""
        self._tasks[note.job, note.task] = note

    def add(self, step: Step, line: bytes, *, ends_job: bool) -> None:
        """Adds a step, of which ``line`` is the line in a trace; drops old ones.

        ends_job: whether the event's job ended with it."""
        event = step[0]
        self._lines += (_END if ends_job else _STEP) + line
        self._wall_ns.append(event.wall_ns)
        left = self._take_left(event)
        if left is not None:
            self._lines += _LEFT + encode((left,))
        if len(self._lines) >= BLOCK_BYTES:
            self._close_block()

    def _take_left(self, event: Event) -> TaskNote | None:
        """Removes and returns the note about the task that leaves with an event."""
        match event:
            case TaskExited():
                return self._tasks.pop((event.job, event.task), None)
            case TaskRegistered(replaces=int(before)) if before != event.task:
                return self._tasks.pop((event.job, before), None)
        return None

    def _close_block(self) -> None:
        """Makes a block of the newest lines; drops the oldest block if all steps that are
        to be kept are in the others."""
        self._blocks.append(self._newest())
        self._kept += len(self._wall_ns)
        self._lines, self._wall_ns = bytearray(), []
        while self._kept - self._blocks[0].steps >= RECENT:
            self._kept -= self._blocks.popleft().steps
            self._began_wall_ns = self._blocks[0].first_wall_ns

    def _newest(self) -> _Block:
        times = self._wall_ns
        return _Block(zlib.compress(self._lines, _LEVEL), len(times), times[0], max(times))

    @property
    def began_wall_ns(self) -> int:
        """Returns the time since which no step is missing."""
        return self._began_wall_ns

    def notes_about(self, job: Job, since_wall_ns: int, most: int) -> list[Note]:
        """Returns the last notes about a job since then, oldest first."""
        found: list[Note] = []  # newest first
        for line in self._naming({job}, since_wall_ns):
            if len(found) >= most:
                break
            if not line.startswith(_LEFT):
                ended = line.startswith(_END)
                found += [
                    note
                    for note in reversed(_notes_of(job, line[1:], ended=ended))
                    if note.wall_ns >= since_wall_ns
                ]
        return found[:most][::-1]

    def ranks_of(self, tasks: set[tuple[Job, Task]]) -> dict[Task, int]:
        """Returns the ranks of these tasks, if they are in the steps."""
        here = [self._tasks[task] for task in tasks & self._tasks.keys()]
        ranks = {note.task: note.rank for note in here}
        missing = {(job, task) for job, task in tasks if task not in ranks}
        for line in self._naming({job for job, _ in missing}):
            if line.startswith(_LEFT):
                note = decode(line[1:])
                assert isinstance(note, TaskNote)
                if (note.job, note.task) in missing:
                    ranks.setdefault(note.task, note.rank)
        return ranks

    def _naming(self, jobs: set[Job], since_wall_ns: int = 0) -> Iterator[bytes]:
        """Yields the lines that name one of these jobs, newest first."""
        words = [msgspec.json.encode(job) for job in jobs]
        newest = [self._newest()] if self._wall_ns else []
        for block in [*newest, *reversed(self._blocks)] if words else []:
            if block.latest_wall_ns >= since_wall_ns:
                for line in reversed(zlib.decompress(block.data).splitlines()):
                    if any(word in line for word in words):
                        yield line


def _notes_of(job: Job, line: bytes, *, ended: bool) -> list[Note]:
    step = decode(line)
    assert isinstance(step, tuple)
    notes, event = list(notes_in(job, *step)), step[0]
    if ended and isinstance(event, TaskExited) and event.job == job:
        notes.append(Note(event.now_ns, event.wall_ns, ENDED))
    return notes
