"""Records the steps of the machine: in the trace file, in memory, and in job accounts. The
accounts of filled waits also need the CPU times of the jobs.

Steps are written in batches, about once a second. At a switch the daemon runs with cold
caches, so single writes would be slow. An error in the file ends the trace with one line in
the log, and has no other effect.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import Command, Event, Job, SetShares, UseRead
from cosched.core.trace.account import Account, Accounts, Moment
from cosched.core.trace.codec import VERSION, Header, Step, TaskNote, encode
from cosched.core.trace.filling import Fillings
from cosched.node.records.bounded_file import BoundedFile
from cosched.node.records.recent_steps import RecentSteps
from cosched.node.records.trace_file import open_trace, trace_file_pair
from cosched.node.tasks.job_table import JobTable
from cosched.node.tasks.live_job import LiveJob, LiveTask
from cosched.shm.region_values import CARRIERS

log = logging.getLogger(__name__)

#: At so many pending lines they are written at once.
FLUSH_LINES = 1024


class Recorder:
    """Keeps the events and commands of the machine.

    ``cpu_ns`` returns the CPU time of a job's class. It writes nothing before ``open``;
    ``flush`` must be called now and then.
    """

    def __init__(
        self,
        node: str,
        machine: NodeScheduler,
        jobs: JobTable,
        cpu_ns: Callable[[Job], int | None],
    ) -> None:
        self._node = node
        self._machine = machine
        self._jobs = jobs
        self._accounts = Accounts()
        self.fillings = Fillings(cpu_ns)  #: how the waits of the jobs are filled
        self._ended: dict[Job, Account] = {}  # until ``take_account``
        self._recent = RecentSteps(time.time_ns())
        self._pending: list[TaskNote | Step] = []
        self._file: BoundedFile | None = None

    def open(self, directory: Path, limit_bytes: int) -> None:
        """Starts to write the trace in ``directory``; with a limit of 0 there is none."""
        if limit_bytes <= 0:
            return
        try:
            self._file = open_trace(trace_file_pair(directory, limit_bytes), self._header)
        except OSError as error:
            log.warning("no trace: %s: %s", directory, error.strerror)

    def introduce(self, job: LiveJob, task: LiveTask) -> None:
        """Notes a task that is about to register."""
        self._pending.append(task_note(job, task))

    def record(self, event: Event, commands: tuple[Command, ...]) -> None:
        """Takes one step of the machine, after its commands were carried out."""
        self._pending.append((event, commands))
        for command in commands:
            if isinstance(command, SetShares):
                self.fillings.step(event.now_ns, self._machine.jobs, command)
        if isinstance(event, UseRead):
            self.fillings.resume(event.now_ns, self._machine.jobs)
        if len(self._pending) >= FLUSH_LINES:
            self.flush()

    def look_at_fillings(self) -> None:
        """Brings ``fillings`` up to date; call it before a job's class is removed."""
        self.fillings.look(time.monotonic_ns(), self._machine.jobs)

    @property
    def recent(self) -> RecentSteps:
        """Returns the last steps."""
        self.flush()
        return self._recent

    def flush(self) -> None:
        """Accounts and writes all pending lines."""
        if not self._pending:
            return
        lines, self._pending = self._pending, []
        encoded = [encode((line,)) for line in lines]
        for line, text in zip(lines, encoded, strict=True):
            if isinstance(line, TaskNote):
                self._recent.introduce(line)
                continue
            ended = self._accounts.take(*line)
            self._recent.add(line, text, ends_job=bool(ended))
            self._ended.update((account.job, account) for account in ended)
        if self._file is None:
            return
        try:
            self._file.append(b"".join(encoded))
        except OSError as error:
            log.warning("the trace ends here: it cannot be written: %s", error.strerror)
            self._file.close()
            self._file = None

    @property
    def accounts(self) -> Mapping[Job, Account]:
        """Returns the accounts of the jobs on the node."""
        self.flush()
        return self._accounts.open

    def take_account(self, job: Job) -> Account:
        """Removes and returns the account of an ended job."""
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
    """Returns the trace's note about a live task."""
    carrier = CARRIERS.get(job.carrier, "unknown")
    rank = -1 if task.is_launcher else task.rank
    return TaskNote(job.key, task.pid, job.name, job.uid, rank, task.world, carrier)


def _notes(jobs: Iterable[LiveJob]) -> Iterable[TaskNote]:
    return (task_note(job, task) for job in jobs for task in job.tasks.values())
