"""Records each ended job: a line in the log and a record in the node's history."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field, to_builtins

from cosched.core.errors import CoschedError
from cosched.core.node.knowledge import Ended
from cosched.core.symbiosis.limited import Spending
from cosched.core.trace.account import Account, Standing
from cosched.core.trace.expectation_counts import ExpectationCounts
from cosched.core.trace.fair_ring import FairRing
from cosched.core.trace.filling import Filling
from cosched.core.trace.job_record import (
    JobRecord,
    decode_record,
    encode_record,
    ended_before,
    intervals_of,
    line_of,
    owner_of,
)
from cosched.core.trace.neighbours import Neighbour, Sharing
from cosched.core.units import NS_PER_S
from cosched.linux.homes import state_directory
from cosched.node.records.bounded_file import BoundedFile, FilePair
from cosched.node.records.recorder import Recorder
from cosched.node.records.user_lines import by
from cosched.node.tasks.job_table import JobTable
from cosched.node.tasks.live_job import LiveJob, LiveTask
from cosched.rundir.paths import NodePaths, default_run_dir
from cosched.shm.region_values import CARRIERS, Phase

log = logging.getLogger(__name__)

HISTORY_BYTES = 4 * 1024 * 1024
#: Records kept in memory for users who may not read the file; each user's part is safe.
RECENT_RECORDS = 1000
#: Records of ended jobs that shared the node: its agent reports them to a domain.
SHARED_MOST = 256
#: The most bytes of records in one answer.
ANSWER_BYTES = 100_000


def history_files(
    paths: NodePaths, private: bool, environ: Mapping[str, str], euid: int
) -> FilePair:
    """Returns the place of a node's history: the node's directory.

    Two kinds of daemons use a directory that outlives a boot: the daemons of a systemd unit
    with a state directory, and private daemons in the usual run directory (below /tmp).
    """
    site = environ.get("STATE_DIRECTORY", "").partition(":")[0]
    if site and not private:
        return FilePair(Path(site) / paths.node, "history", HISTORY_BYTES)
    state = state_directory(environ)
    if private and paths.run_dir == default_run_dir({}, euid) and state is not None:
        return FilePair(state / paths.node, "history", HISTORY_BYTES)
    return FilePair(paths.directory, "history", HISTORY_BYTES)


class _Tally(Struct):
    """The sums of the counters of a job's tasks that left."""

    ranks: set[int] = field(default_factory=set)
    world: int = 0
    carrier: str = "none"
    counters: Counter[str] = field(default_factory=Counter)
    cpu_ns: int | None = None
    need: int = 0  # in percent; 0: unknown
    partial: bool = False
    unfinished: int = 0
    in_mpi: set[int] = field(default_factory=set)  # the ranks that called MPI_Init
    in_mpi_ns: int | None = None  # when the last of them did so, CLOCK_MONOTONIC
    earlier_waits_ns: int = 0  # of the tasks, before this daemon
    spent: Spending | None = None
    rested_s: float = 0.0
    gave_way_s: float = 0.0
    beside: tuple[Neighbour, ...] = ()
    has_all: bool = False  # also the tasks that are still here, at the daemon's end


class HistoryWriter:
    """Keeps the history of one node.

    ``jobs`` has the jobs on the node, ``cpu_ns`` returns the CPU time of a job's class. A
    write error ends the history with
    one line in the log, and has no other effect.
    """

    def __init__(
        self,
        node: str,
        recorder: Recorder,
        jobs: JobTable,
        cpu_ns: Callable[[str], int | None],
    ) -> None:
        self._node = node
        self._recorder = recorder
        self._jobs = jobs
        self._cpu_ns = cpu_ns
        self._tallies: dict[str, _Tally] = {}
        self._records: FairRing[bytes] = FairRing(RECENT_RECORDS)  # lines of the file
        self._shared: deque[JobRecord] = deque(maxlen=SHARED_MOST)
        self._file: BoundedFile | None = None
        self._age_ns: int | None = None
        self.expectations = ExpectationCounts()

    def open(self, place: FilePair, age_ns: int | None = None) -> None:
        """Reads the records in ``place`` and starts to write there. age_ns: how long a
        record is kept; None: as long as there is room."""
        self._age_ns = age_ns
        try:
            place.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                self._file = BoundedFile(place, choose=keep_fairly)
            finally:  # also if nothing can be written
                for record in _read(place):
                    self._records.add(record.uid, encode_record(record))
                self.forget_old()
        except OSError as error:
            log.warning("no history: %s: %s", place.directory, error.strerror)

    def forget_old(self) -> None:
        """Removes the records of jobs that ended longer ago than they are kept."""
        if self._age_ns is None:
            return
        before_ns = time.time_ns() - self._age_ns
        kept = [line for line in self._records if not ended_before(line, before_ns)]
        self._records = FairRing(RECENT_RECORDS)
        for line in kept:
            self._records.add(owner_of(line), line)
        self._write(lambda file: file.drop(lambda line: ended_before(line, before_ns)))

    def ended(
        self, since_wall_ns: int = 0, until_wall_ns: int | None = None
    ) -> list[Ended]:
        """Returns the lengths of jobs that ended in this time and have complete records.
        until_wall_ns: None: no limit."""
        return [
            Ended(
                round(record.scheduled_s * NS_PER_S),
                record.kind,
                record.uid,
                round(record.expected_s * NS_PER_S),
                record.need,
            )
            for record in map(decode_record, self._records)
            if record.ended_wall_ns >= since_wall_ns
            and (until_wall_ns is None or record.ended_wall_ns <= until_wall_ns)
            and record.is_complete
        ]

    def adopt(self, job: LiveJob) -> None:
        """Adds a job that ran under an earlier daemon."""
        tally = self._tally(job)
        tally.partial, tally.earlier_waits_ns = True, self._waits_ns(job.key)
        for task in job.tasks.values():
            if task.phase is Phase.TASK:
                self.came_to_mpi(job, task)

    def came_to_mpi(self, job: LiveJob, task: LiveTask) -> None:
        """Notes that a task called MPI_Init; only the first process of a rank counts."""
        tally = self._tally(job)
        if task.rank not in tally.in_mpi:
            tally.in_mpi.add(task.rank)
            tally.in_mpi_ns = time.monotonic_ns()

    def task_leaves(self, job: LiveJob, task: LiveTask) -> None:
        """Adds a task's counters to the job; call it before its slot is freed. A launcher
        has none."""
        if len(job.tasks) == 1:
            self._recorder.look_at_fillings()
        if task.is_launcher:
            return
        tally = self._tally(job)
        tally.ranks.add(task.rank)
        tally.world = task.world
        tally.carrier = CARRIERS.get(job.carrier, "unknown")
        tally.counters.update(job.region.counters(task.slot))
        used_ns = self._cpu_ns(job.key)
        tally.cpu_ns = tally.cpu_ns if used_ns is None else used_ns

    def note_need(self, key: str, percent: int) -> None:
        """Notes the part of its CPUs that a job needs, in percent."""
        tally = self._tallies.get(key)
        if tally is not None:
            tally.need = percent

    def note_spent(self, key: str, spent: Spending) -> None:
        """Notes how the tasks of a job that shares the node have spent their time."""
        tally = self._tallies.get(key)
        if tally is not None:
            tally.spent = spent

    def spent(self, key: str) -> Spending | None:
        """Returns how the tasks of a job have spent their time; None: unknown."""
        tally = self._tallies.get(key)
        return None if tally is None else tally.spent

    def note_sharing(
        self, key: str, rested_s: float, gave_way_s: float, beside: tuple[Neighbour, ...]
    ) -> None:
        """Notes how long a job has rested, and its speeds beside others."""
        tally = self._tallies.get(key)
        if tally is not None:
            tally.rested_s, tally.gave_way_s, tally.beside = rested_s, gave_way_s, beside

    def task_died(self, job: LiveJob, task: LiveTask) -> None:
        """Notes that a task ended by itself; one that was in MPI has not finalized it."""
        if task.phase is Phase.TASK:
            self._tally(job).unfinished += 1

    def left(self, key: str) -> dict[str, int]:
        """Returns the sums of the counters of the tasks that left a running job."""
        tally = self._tallies.get(key)
        return {} if tally is None else dict(tally.counters)

    def filling(self, job: LiveJob) -> Filling:
        """Returns how the waits of a running job were filled, and which waits it filled."""
        return self._recorder.fillings.of(job.key, self._waits_ns)

    def _waits_ns(self, key: str) -> int:
        """Returns how long the tasks of a job waited while it was scheduled. Their waits
        include their sleeps while it was not."""
        live, tally = self._jobs.get(key), self._tallies.get(key) or _Tally()
        left_ns = tally.counters["waited_ns"] - tally.counters["paused_ns"]
        waits_ns = max(0, left_ns) - tally.earlier_waits_ns
        if live is not None and not tally.has_all:
            waits_ns += live.waits_ns
        return max(0, waits_ns)

    def daemon_leaves(self, job: LiveJob) -> None:
        """Notes that the daemon ends before the job; call it while its class exists."""
        self._recorder.look_at_fillings()
        if len(job.launchers) == len(job.tasks):
            return  # it has no tasks
        tally = self._tally(job)
        tally.partial = True
        for task in job.tasks.values():
            self.task_leaves(job, task)
        tally.has_all = True

    def job_ended(self, job: LiveJob) -> None:
        """Records a job without remaining tasks; ignores a job that never had a task."""
        filling = self._recorder.fillings.end(job.key, self._waits_ns)
        account = self._recorder.take_account(job.key)
        tally = self._tallies.pop(job.key, None)
        if tally is None:
            return
        record = _record(self._node, job, tally, account, filling)
        line = encode_record(record)
        self._records.add(record.uid, line)
        self.expectations.add(record)
        if record.sharing is not None:
            self._shared.append(record)
        log.info("%s", line_of(record), extra=by(job.uid))
        self._write(lambda file: file.append(line))

    def _write(self, write: Callable[[BoundedFile], None]) -> None:
        """Writes into the file, if there is one; an error ends the history."""
        if self._file is not None:
            try:
                write(self._file)
            except OSError as error:
                log.warning("the history ends here: %s", error.strerror)
                self.close()

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def answer(self, request: Mapping[str, Any], uid: int) -> Mapping[str, Any]:
        """Returns the answer to ``history``: the last records since ``since_wall_ns``.

        An ordinary user gets only records of that user's own jobs."""
        since_wall_ns = request.get("since_wall_ns", 0)
        if not isinstance(since_wall_ns, int):
            raise CoschedError("since_wall_ns: must be a whole number of nanoseconds")
        records: list[dict[str, Any]] = []
        left = ANSWER_BYTES
        all_users = uid in (0, os.geteuid())
        for line in reversed(list(self._records if all_users else self._records.of(uid))):
            record = decode_record(line)
            if record.ended_wall_ns < since_wall_ns or left <= 0:
                break
            left -= len(line)
            records.append(to_builtins(record))
        return {"records": records[::-1], "complete": left > 0}

    def shared(self, since_wall_ns: int) -> list[JobRecord]:
        """Returns the jobs that shared the node and ended since then, the last ones."""
        return [each for each in self._shared if each.ended_wall_ns >= since_wall_ns]

    def length_ns(self, uid: int, key: str, since_wall_ns: int) -> int | None:
        """Returns how long a job of a user was scheduled that ended since then; None
        without a complete record."""
        for line in reversed(list(self._records.of(uid))):
            record = decode_record(line)
            if record.ended_wall_ns < since_wall_ns:
                break
            if record.job == key:
                length_ns = round(record.scheduled_s * NS_PER_S)
                return length_ns if record.is_complete else None
        return None

    def _tally(self, job: LiveJob) -> _Tally:
        return self._tallies.setdefault(job.key, _Tally())


def _record(
    node: str, job: LiveJob, tally: _Tally, account: Account, filling: Filling
) -> JobRecord:
    counters = tally.counters
    lasted_ns = account.spent_ns.total()
    in_mpi_ns = 0 if tally.in_mpi_ns is None else account.since.now_ns - tally.in_mpi_ns
    launch_ns = max(0, lasted_ns - in_mpi_ns)
    released_s = account.spent_s(Standing.RELEASED)
    return JobRecord(
        node=node,
        job=job.key,
        name=job.name,
        uid=job.uid,
        ranks=tuple(sorted(tally.ranks)),
        world=tally.world,
        carrier=tally.carrier,
        began_wall_ns=account.began.wall_ns,
        ended_wall_ns=account.began.wall_ns + lasted_ns,
        partial=tally.partial,
        response_s=lasted_ns / NS_PER_S,
        scheduled_s=account.spent_s(Standing.SCHEDULED),
        unscheduled_s=account.spent_s(Standing.UNSCHEDULED),
        suspended_s=account.spent_s(Standing.SUSPENDED),
        released_s=released_s,
        kind=job.expectation.kind,
        expected_s=job.expectation.mean_ns / NS_PER_S,
        launch_s=launch_ns / NS_PER_S,
        began_after_s=job.began_after_s,
        # Without a class, a job's CPU time is not counted.
        cpu_s=None if tally.cpu_ns is None or released_s else tally.cpu_ns / NS_PER_S,
        switches=account.switches,
        granted=account.granted,
        refused=dict(account.refused),
        unfinished=tally.unfinished,
        trapped=counters["trapped"],
        sent=counters["sent"],
        received=counters["received"],
        waited_s=counters["waited_ns"] / NS_PER_S,
        need=tally.need,
        filling=filling,
        sharing=_sharing(job, tally),
        intervals_us=intervals_of(account),
        complete_from_us=account.complete_from_ns // 1000,
    )


def _sharing(job: LiveJob, tally: _Tally) -> Sharing | None:
    """Returns what was seen of a job that shares its nodes; None for another job."""
    if not job.limited_by:
        return None
    return Sharing(
        job.limited_by, tally.spent, tally.rested_s, tally.gave_way_s, tally.beside
    )


def keep_fairly(read: Callable[[], Iterable[bytes]], most_bytes: int) -> Iterator[bytes]:
    """Yields the last lines of each user in a history: each user has the same room."""
    surplus: Counter[int] = Counter()
    for line in read():
        surplus[owner_of(line)] += len(line)
    part = _equal_part(surplus.values(), most_bytes)
    for line in read():
        uid = owner_of(line)
        if surplus[uid] > part:
            surplus[uid] -= len(line)
        else:
            yield line


def _equal_part(sizes: Iterable[int], room: int) -> int:
    """Returns the most bytes of each user with which all have room."""
    ascending = sorted(sizes)
    for place, size in enumerate(ascending):
        part = room // (len(ascending) - place)
        if size > part:
            return part
        room -= size
    return max(ascending, default=0)


def _read(place: FilePair) -> Iterator[JobRecord]:
    """Yields the records of earlier daemons; skips other lines, with one line a file."""
    for path in place.files:
        problems = []
        with path.open("rb") as file:
            for line in file:
                try:
                    yield decode_record(line)
                except CoschedError as error:
                    problems.append(str(error))
        if problems:
            log.warning("%s: %d lines are skipped: %s", path, len(problems), problems[0])
