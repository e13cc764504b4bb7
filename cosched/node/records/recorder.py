"""What a scheduler daemon remembers of its own doing: all of it in the trace's file, the
last of it in memory, and each job's account.

The daemon pays as little as can be for it: an event and its commands, which never change,
are kept as they are, and booked and written together once a second: at a switch a daemon
runs with cold caches, where each line of code costs several times what it does later in a
row of its like. Whatever goes wrong with the file
ends the trace, with one line in the log, and nothing else.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path

from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import Command, Event, Job, Task
from cosched.core.trace.account import Account, Accounts, Moment
from cosched.core.trace.codec import VERSION, Header, Step, TaskNote
from cosched.core.trace.tracker import TaskTracker
from cosched.node.jobs import JobTable, LiveJob, LiveTask
from cosched.node.records.trace_file import TraceFile, trace_place
from cosched.shm.region import CARRIERS

log = logging.getLogger(__name__)

#: Events kept in memory, for those who ask the daemon.
RECENT = 4096
#: What has come is written after so many beats, or when it is so much.
FLUSH_BEATS = 5
FLUSH_LINES = 1024


class Recorder:
    """Keeps what the machine was told and what it said.

    Nothing is written before ``open``. tasks: who the tasks in the last steps are;
    began_wall_ns: when this memory began.
    """

    def __init__(self, node: str, machine: NodeScheduler, jobs: JobTable) -> None:
        self.tasks: dict[tuple[Job, Task], TaskNote] = {}
        self.began_wall_ns = time.time_ns()
        self._node = node
        self._machine = machine
        self._jobs = jobs
        self._accounts = Accounts()
        self._ended: dict[Job, Account] = {}  # until ``take_account``
        self._before = TaskTracker({})  # the tasks before the first step in ``_recent``
        self._recent: deque[Step] = deque(maxlen=RECENT)
        self._pending: list[TaskNote | Step] = []
        self._beats = 0
        self._file: TraceFile | None = None

    def open(self, directory: Path, limit_bytes: int) -> None:
        """Writes from now on to the trace in ``directory``; not if it may have 0 bytes."""
        if limit_bytes <= 0:
            return
        try:
            self._file = TraceFile(trace_place(directory, limit_bytes), self._header)
        except OSError as error:
            log.warning("no trace: %s: %s", directory, error.strerror)

    def introduce(self, job: LiveJob, task: LiveTask) -> None:
        """Notes who a task is that is about to register."""
        note = task_note(job, task)
        self.tasks[note.job, note.task] = note
        if len(self.tasks) > RECENT:
            del self.tasks[next(iter(self.tasks))]
        self._pending.append(note)

    def record(self, event: Event, commands: tuple[Command, ...]) -> None:
        """Takes one step of the machine, after its commands were carried out."""
        self._pending.append((event, commands))

    def beat(self) -> None:
        """Call it at each beat; sometimes it flushes."""
        self._beats += 1
        if self._beats % FLUSH_BEATS == 0 or len(self._pending) >= FLUSH_LINES:
            self.flush()

    @property
    def recent(self) -> deque[Step]:
        """The last steps, oldest first."""
        self.flush()
        return self._recent

    @property
    def reaches_back_to_wall_ns(self) -> int:
        """The time from which on every step is in ``recent``."""
        recent = self.recent
        return self.began_wall_ns if len(recent) < RECENT else recent[0][0].wall_ns

    def tasks_before(self, job: Job) -> frozenset[Task]:
        """The job's tasks before the first step in ``recent``."""
        self.flush()
        return self._before.tasks_of(job)

    def flush(self) -> None:
        """Books and writes what has come since the last time."""
        if not self._pending:
            return
        lines, self._pending = self._pending, []
        for line in lines:
            if isinstance(line, tuple):
                if len(self._recent) == RECENT:
                    self._before.take(self._recent[0][0])
                self._recent.append(line)
                for account in self._accounts.take(*line):
                    self._ended[account.job] = account
        if self._file is None:
            return
        try:
            self._file.write(lines)
        except OSError as error:
            log.warning("the trace ends here: it cannot be written: %s", error.strerror)
            self._file.close()
            self._file = None

    @property
    def accounts(self) -> Mapping[Job, Account]:
        """The accounts of the jobs on the node."""
        self.flush()
        return self._accounts.open

    def take_account(self, job: Job) -> Account:
        """Returns the account of a job that has ended, and forgets it."""
        self.flush()
        account = self._ended.pop(job, None)
        return account or Account(job, Moment(time.monotonic_ns(), time.time_ns()))

    def close(self) -> None:
        """Writes the rest and closes the file."""
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _header(self) -> Header:
        return Header(
            VERSION,
            self._node,
            time.monotonic_ns(),
            time.time_ns(),
            self._machine.snapshot(),
            tuple(_notes(self._jobs)),
        )


def task_note(job: LiveJob, task: LiveTask) -> TaskNote:
    """Who a live task is."""
    carrier = CARRIERS.get(job.carrier, "unknown")
    return TaskNote(job.key, task.pid, job.name, job.uid, task.rank, task.world, carrier)


def _notes(jobs: Iterable[LiveJob]) -> Iterable[TaskNote]:
    return (task_note(job, task) for job in jobs for task in job.tasks.values())
