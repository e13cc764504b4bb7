"""Runs the logs of several machines: aligns their times, finds mates, simulates.

Logs are aligned by the start times in their headers. If one has none, all logs begin
together. Only the time that all logs cover is simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from cosched.core.cluster.coupling.settings import CouplingSettings, Scheme
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.sim.coupling.coupled_runs import Coupled, CoupledSchedule, Coupling, simulate
from cosched.sim.coupling.pairs import Mates, by_share, by_vicinity
from cosched.sim.logs.opening import log_name
from cosched.sim.logs.swf import Log, read_swf
from cosched.sim.logs.workload import Workload
from cosched.sim.queue.columns import Columns, save_columns
from cosched.sim.virtual_time import NEVER, Progress, no_progress


@dataclass(frozen=True, slots=True)
class Pairing:
    """The rule that makes mates: jobs submitted within a time, or a share of all jobs."""

    #: The greatest time between two submissions; None: no such rule.
    within_ns: int | None = None
    #: The share of each log's jobs, above 0; None: the rule of within_ns.
    share: float | None = None

    def mates(self, logs: Sequence[Workload]) -> list[Mates]:
        """Returns the groups of mates."""
        if self.share is not None:
            return by_share(logs, self.share)
        if self.within_ns is None:
            return []
        return by_vicinity(logs, self.within_ns)


@dataclass(frozen=True, slots=True)
class CoupledRun:
    """Logs and the scheme of each machine."""

    traces: tuple[Path, ...]  #: the logs, one for each machine
    schemes: tuple[Scheme, ...]  #: one for each log; empty: no mates
    pairing: Pairing  #: which jobs are mates
    settings: CouplingSettings  #: those of all machines, except for the scheme
    coupling: Coupling  #: the settings that all domains share
    strict: bool = False  #: the first bad line of a log is an error
    save_in: Path | None = None  #: the folder for columns; None: write none
    command: str = ""  #: the command line that the columns name

    @property
    def name(self) -> str:
        """``hold-yield``, or ``alone``."""
        return "-".join(scheme.value for scheme in self.schemes) or "alone"


@dataclass(frozen=True, slots=True)
class CoupledOutcome:
    """The result of a run."""

    run: CoupledRun  #: the input
    machines: tuple[str, ...]  #: the logs' names, in order
    result: Coupled  #: without schedules, which are on disk if they were saved
    files: tuple[str, ...] = ()  #: the columns written; empty: none
    #: The bad lines of each log that has any, by fault.
    skipped: dict[str, dict[str, int]] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Returns the outcome as JSON."""
        return {
            "schemes": self.run.name,
            **self.result.document(),
            "files": list(self.files),
            "skipped_lines": self.skipped,
        }


def carry_out(run: CoupledRun, progress: Progress = no_progress) -> CoupledOutcome:
    """Reads the logs, simulates, writes the columns."""
    names = unique_names(run.traces)
    read = [read_swf(path, strict=run.strict) for path in run.traces]
    skipped = {
        name: log.skipped_lines()
        for name, log in zip(names, read, strict=True)
        if log.skipped
    }
    logs = aligned(read)
    mates = run.pairing.mates(logs) if run.schemes else []
    schemes = run.schemes or (Scheme.YIELD,) * len(logs)
    settings = [replace(run.settings, scheme=scheme) for scheme in schemes]
    result = simulate(logs, names, mates, settings, run.coupling, progress)
    files: list[str] = []
    if run.save_in is not None:
        for name, schedule in result.schedules.items():
            stem = run.save_in / f"{name}.{run.name}"
            figures = result.domains[name]
            saved = save_columns(stem, columns_of(schedule), run.command, figures)
            files += map(str, saved)
    # Saved columns are on disk: do not send them to the parent process.
    lean = replace(result, schedules={})
    return CoupledOutcome(run, tuple(names), lean, tuple(files), skipped)


def columns_of(schedule: CoupledSchedule) -> Columns:
    """Returns a row for each job, in order of submission.

    Times are seconds from the first moment that all logs cover; -1: never. group: the
    group's name, or empty. ready_s: when the job was first ready but waited for a mate.
    """
    log = schedule.workload
    names = {index: group.name for index, group in schedule.groups.items()}
    return {
        "job": log.number,
        "user": log.user,
        "size": log.size,
        "group": [names.get(index, "") for index in range(len(log))],
        "submit_s": _seconds(log.submit_ns),
        "ready_s": _seconds(schedule.ready_ns),
        "start_s": _seconds(schedule.start_ns),
        "run_s": _seconds(log.run_ns),
        "walltime_s": _seconds(log.walltime_ns),
    }


def _seconds(values: Sequence[int]) -> list[float]:
    return [-1.0 if value == NEVER else value / NS_PER_S for value in values]


def aligned(logs: Sequence[Log]) -> list[Workload]:
    """Returns the workloads on one clock that is 0 at the first common moment. Raises
    CoschedError if a log has no job in the time that all cover."""
    known = [log.start_s for log in logs if log.start_s is not None]
    if len(known) == len(logs):
        origin_s = min(known)
        moved = [
            log.workload.moved((start_s - origin_s) * NS_PER_S)
            for log, start_s in zip(logs, known, strict=True)
        ]
    else:
        moved = [log.workload.moved(-log.workload.submit_ns[0]) for log in logs]
    begin_ns = max(log.submit_ns[0] for log in moved)
    end_ns = min(log.submit_ns[-1] for log in moved) + 1
    common = [log.moved(-begin_ns, begin_ns, end_ns) for log in moved]
    for log in common:
        if not len(log):
            raise CoschedError(
                f"{log.name}: no jobs in the time that all logs cover"
                f" ({', '.join(map(_period, logs))}); take logs of the same time, or remove"
                " UnixStartTime from one header: then all begin together"
            )
    return common


def _period(log: Log) -> str:
    """Returns the dates of a log's first and last submission, in UTC."""
    assert log.start_s is not None  # logs without it begin together
    submits = log.workload.submit_ns
    first, last = (
        np.datetime64(log.start_s + at_ns // NS_PER_S, "s").astype("datetime64[D]")
        for at_ns in (submits[0], submits[-1])
    )
    return f"{log.workload.name}: {first} to {last}"


def unique_names(traces: Sequence[Path]) -> list[str]:
    """Returns a domain name for each log; raises CoschedError if two are the same."""
    names = [log_name(trace) for trace in traces]
    for name in names:
        if names.count(name) > 1:
            raise CoschedError(f"two logs are called {name}; rename one")
    return names
