"""Measures each job of a workload alone, coscheduled, for a limited time.

Alone, a job is scheduled all the time, so all its waits are its own. The nodes' status is
read several times a second, because a job's counters vanish with the job.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from cosched.bench.run import daemons
from cosched.bench.run.arms import Arm
from cosched.bench.run.interrupts import temporary_folder
from cosched.bench.run.processes import RunFailed, run_jobs
from cosched.bench.run.progress import Progress, open_progress
from cosched.bench.run.session import Session
from cosched.bench.run.testbed import TestbedOptions, open_testbed
from cosched.bench.workload.file import JobInstance, load_workload
from cosched.core.advice import Profile
from cosched.node.profile import Status, profile_of

LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class Seen:
    """One job of the workload: its profile, or the reason of its failure."""

    name: str
    profile: Profile | None
    failure: str | None = None


class _SeenEnough(Exception):
    """Ends a run at its time limit."""


def watch_workload(
    path: Path,
    options: TestbedOptions,
    at_most_s: float,
    environ: Mapping[str, str],
    log: TextIO,
) -> list[Seen]:
    """Runs each ``[[job]]`` of the file alone once, for at most ``at_most_s``."""
    workload = load_workload(path)
    instances = workload.programs()
    with open_testbed([workload], options, environ) as testbed:
        session = testbed.sessions[workload.title]
        with open_progress(log, [instance.name for instance in instances]) as progress:
            return [
                _watch(session, instance, at_most_s, progress) for instance in instances
            ]


def _watch(
    session: Session, instance: JobInstance, at_most_s: float, progress: Progress
) -> Seen:
    progress.show(f"{instance.name} alone, for at most {at_most_s:g} s")
    submission = session.launcher.submission(instance, Arm.COSCHED)
    watcher = _Watcher(session, instance.name, at_most_s, progress)
    failure = None
    response_s = None
    with temporary_folder("cosched-advise-") as folder:
        try:
            (result,) = run_jobs([submission], None, folder, watcher.attend)
            response_s = result.ended_s - result.started_s
        except _SeenEnough:
            pass  # its duration remains unknown
        except RunFailed as error:
            failure = error.failure.line
    profile = watcher.profile(response_s) if failure is None else None
    return Seen(instance.spec.name, profile, failure)


class _Watcher:
    """Keeps the last status of each node that had the job."""

    def __init__(
        self, session: Session, name: str, at_most_s: float, progress: Progress
    ) -> None:
        self._session = session
        self._name = name
        self._end_s = time.monotonic() + at_most_s
        self._progress = progress
        self._last: Sequence[Status] = ()
        self._key = ""

    def attend(self, _running: Sequence[str]) -> float:
        self._progress.redraw()
        statuses = list(daemons.ask(self._session.launcher.site).values())
        keys = {
            job["key"]
            for status in statuses
            for job in status["jobs"]
            if job["name"] == self._name and job["tasks"]
        }
        if keys:
            self._last, self._key = statuses, min(keys)
        if time.monotonic() >= self._end_s:
            raise _SeenEnough
        return LOOK_S

    def profile(self, response_s: float | None) -> Profile | None:
        return profile_of(self._last, self._key, response_s)
