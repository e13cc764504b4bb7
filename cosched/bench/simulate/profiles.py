"""Measures each job of a workload alone, coscheduled, for a limited time.

Alone, a job is scheduled all the time, so all its waits are its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from cosched.bench.results.results import Failure
from cosched.bench.run.arms import Arm
from cosched.bench.run.interrupts import temporary_folder
from cosched.bench.run.processes import RunFailed, run_jobs
from cosched.bench.run.progress import Progress, open_progress
from cosched.bench.run.session import Session
from cosched.bench.run.testbed import TestbedOptions, open_testbed
from cosched.bench.run.watcher import SeenEnough, Watcher
from cosched.bench.workload.file import JobInstance, load_workload
from cosched.core.advice import Profile
from cosched.node.profile import profile_of


@dataclass(frozen=True, slots=True)
class Seen:
    """One job of the workload, watched alone."""

    name: str  #: the job's name in its ``[[job]]`` table
    profile: Profile | None  #: None: the job failed, or its daemons reported nothing
    failure: Failure | None = None  #: None: the job did not fail


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
    watcher = Watcher(session, instance.name, progress, at_most_s)
    failure = None
    response_s = None
    with temporary_folder("cosched-advise-") as folder:
        try:
            (result,) = run_jobs([submission], None, folder, watcher.attend)
            response_s = result.ended_s - result.started_s
        except SeenEnough:
            pass  # its duration remains unknown
        except RunFailed as error:
            failure = error.failure
    profile = None
    if failure is None:
        profile = profile_of(watcher.statuses, watcher.key, response_s)
    return Seen(instance.spec.name, profile, failure)
