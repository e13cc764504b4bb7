"""Watches the jobs that share this node: the live driver of ``core.symbiosis.watch``.

It reads the work of jobs in their regions, and lets jobs rest by events of the node's
machine. Jobs are watched if their users named what limits them, and if each has CPUs that
no other job uses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from math import isinf
from typing import Any

import msgspec

from cosched.core.errors import CoschedError
from cosched.core.node.job import JobState
from cosched.core.node.messages import Job, Mode, RestChosen
from cosched.core.symbiosis.speeds import Estimate, Sample, Work
from cosched.core.symbiosis.watch import Read, Rest, Watch, WatchSettings
from cosched.core.trace.neighbours import Neighbour
from cosched.core.units import NS_PER_S
from cosched.node.driver import Driver, clocks
from cosched.node.records.history_writer import HistoryWriter
from cosched.node.tasks.job_table import JobTable
from cosched.node.tasks.live_job import LiveJob

#: The most jobs whose kind and label are kept; older ones are forgotten.
JOBS_MOST = 1024
#: The largest slowdown that is written down.
SLOWDOWN_MOST = 1000.0
_COSCHEDULED = (Mode.COSCHEDULED, Mode.RESTING)


class Companions:
    """The jobs of one node that share it.

    ``cpu_ns`` returns the CPU time of a job's class; ``call_at`` calls a function at a time
    by the monotonic clock."""

    def __init__(
        self,
        driver: Driver,
        jobs: JobTable,
        history: HistoryWriter,
        settings: WatchSettings,
        cpu_ns: Callable[[Job], int | None],
        call_at: Callable[[int, Callable[[], None]], None],
    ) -> None:
        self._driver = driver
        self._jobs = jobs
        self._history = history
        self._watch = Watch(settings)
        self._cpu_ns = cpu_ns
        self._call_at = call_at
        self._next_ns: int | None = None
        self._before: list[Job] = []
        self._rests = False
        self._known: dict[Job, tuple[int, tuple[str, ...]]] = {}  # kind and label

    def tend(self) -> None:
        """Takes over which jobs are here; call it now and then, and when jobs come or
        leave. Without jobs that share the node it does nothing."""
        self._watch.keep([job.key for job in self._jobs])
        present = self._present()
        if present != self._before:
            self._step(present)

    def _ring(self) -> None:
        if self._next_ns is not None and time.monotonic_ns() >= self._next_ns:
            self._step(self._present())

    def _step(self, present: list[Job]) -> None:
        self._before = present
        self._remember(present)
        now_ns = time.monotonic_ns()
        step = self._watch.step(present, now_ns, time.time_ns())
        for action in step.actions:
            match action:
                case Rest(jobs, until_ns):
                    self._rest(jobs, until_ns)
                case Read(job):
                    self._watch.read(job, self._sample(job))
        self._watch.settle(present, time.monotonic_ns())
        for key in present if step.actions else ():
            self._note(key)
        self._next_ns = step.next_ns
        if step.next_ns is not None:
            self._call_at(step.next_ns, self._ring)

    def _remember(self, present: list[Job]) -> None:
        """Keeps kind and label of each job, the last ones."""
        for key in present:
            live = self._jobs.get(key)
            if live is not None and key not in self._known:
                self._known[key] = live.expectation.kind, live.limited_by
        while len(self._known) > JOBS_MOST:
            del self._known[next(iter(self._known))]

    def _rest(self, jobs: tuple[Job, ...], until_ns: int) -> None:
        if not jobs and not self._rests:
            return
        self._rests = bool(jobs)
        self._driver.feed(RestChosen(**clocks(), jobs=jobs, until_ns=until_ns))

    def _present(self) -> list[Job]:
        """Returns the jobs to watch, in the order of their submission. None of them is
        watched if one shares a CPU with another job: it would also be seen in turns."""
        states = self._driver.machine.jobs
        found: list[JobState] = []
        for live in self._jobs:
            state = states.get(live.key)
            if live.limited_by and state is not None and state.tasks:
                found.append(state)
        if len(found) < 2:
            return [state.key for state in found if _runs(state)]
        others = [state for state in states.values() if state.mode is not Mode.SUSPENDED]
        for state in found:
            apart = all(o is state or o.cpus.isdisjoint(state.cpus) for o in others)
            if not apart:
                return []
        found.sort(key=lambda state: state.precedence)
        return [state.key for state in found if _runs(state)]

    def _sample(self, job: Job) -> Sample:
        live, state = self._jobs.get(job), self._driver.machine.jobs.get(job)
        now_ns = time.monotonic_ns()
        if live is None or state is None:
            return Sample(now_ns, 0, Work())
        marks, messages = live.work
        cpu_ns = self._cpu_ns(job) or 0
        work = Work(marks, messages, cpu_ns, live.waits_ns, len(state.tasks))
        return Sample(now_ns, state.age_ns(now_ns), work)

    # -- what is known ---------------------------------------------------------------------

    def _note(self, key: Job) -> None:
        """Lets the history keep what is known of a job."""
        rested_s = self._watch.rested_ns(key) / NS_PER_S
        gave_way_s = self._watch.gave_way_ns(key) / NS_PER_S
        self._history.note_sharing(key, rested_s, gave_way_s, self.neighbours(key))

    def neighbours(self, key: Job) -> tuple[Neighbour, ...]:
        """Returns the speeds of a job beside all neighbours that it has had here. A
        neighbour that has left keeps its kind and label as long as it is remembered."""
        return tuple(
            self._neighbour(tuple(sorted(beside)), found)
            for beside, found in self._watch.speeds_of(key).items()
        )

    def _neighbour(self, jobs: tuple[Job, ...], found: Estimate) -> Neighbour:
        known = [self._known.get(job, (0, ())) for job in jobs]
        return Neighbour(
            jobs,
            tuple(kind for kind, _ in known),
            tuple(limits for _, limits in known),
            found.measure,
            found.trials,
            found.alone,
            found.beside,
            None if isinf(found.slowdown) else found.slowdown,
            min(found.low, SLOWDOWN_MOST),
        )

    def shared(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns what was seen of the jobs that share the node now, and of those that have
        ended since ``since_wall_ns``."""
        since_wall_ns = request.get("since_wall_ns", 0)
        if type(since_wall_ns) is not int:
            raise CoschedError("since_wall_ns: must be a whole number of nanoseconds")
        accounts = self._driver.recorder.accounts
        running = [
            {
                "key": job.key,
                "began_wall_ns": accounts[job.key].began.wall_ns,
                "sharing": self.document(job),
            }
            for job in self._jobs
            if job.limited_by
        ]
        ended = [
            {
                "key": record.job,
                "began_wall_ns": record.began_wall_ns,
                "sharing": msgspec.to_builtins(record.sharing),
            }
            for record in self._history.shared(since_wall_ns)
            if record.sharing is not None
        ]
        return {"running": running, "ended": ended}

    def document(self, job: LiveJob) -> dict[str, Any]:
        """Returns what is known of a job, for the node's status."""
        giving, spent = self._watch.giving, self._history.spent(job.key)
        return {
            "limited_by": list(job.limited_by),
            "spent": spent and msgspec.to_builtins(spent),
            "rested_s": self._watch.rested_ns(job.key) / NS_PER_S,
            "gave_way_s": self._watch.gave_way_ns(job.key) / NS_PER_S,
            "gives_way_to": giving.sake if giving and giving.job == job.key else None,
            "beside": [msgspec.to_builtins(each) for each in self.neighbours(job.key)],
        }


def _runs(state: JobState) -> bool:
    return state.mode in _COSCHEDULED and (state.scheduled or state.mode is Mode.RESTING)
