"""Runs one workload on its nodes: a warm-up, and single runs."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from cosched.bench.measure.load import LoadSampler, OutsideLoad, outside_load
from cosched.bench.measure.speed import SpeedProbe, whole_cores
from cosched.bench.results.results import Activity, Failure, JobResult, Run
from cosched.bench.run import daemons
from cosched.bench.run.arms import Arm, Setup
from cosched.bench.run.gang import Gang
from cosched.bench.run.launcher import Launcher
from cosched.bench.run.processes import RunFailed, run_jobs
from cosched.bench.run.progress import Progress
from cosched.bench.workload.file import JobInstance, Workload
from cosched.core.node.settings import USUAL
from cosched.core.units import NS_PER_S

NOTHING_REGISTERED = Failure(
    "no task took part in coscheduling; run a job with 'cosched-run -v' to see why"
)


@dataclass(frozen=True, slots=True)
class _Measured:
    jobs: tuple[JobResult, ...]
    load: OutsideLoad | None
    activity: Activity | None
    probe_us: float | None


@dataclass(frozen=True, slots=True)
class Session:
    """A workload and the launcher of its jobs.

    ``limit_s``: a longer run counts as failed.
    """

    workload: Workload
    launcher: Launcher
    limit_s: float = math.inf

    def warm_up(self, arms: Iterable[Arm], progress: Progress) -> None:
        """Runs the first job alone, without a result; RunFailed if it fails.

        It brings files into memory and builds the interposer.
        """
        progress.show("warming up")
        first = self.workload.instances()[0]
        by_kind = {
            (arm.coscheduled, arm.options == ("--no-shim",)): Setup(arm) for arm in arms
        }
        for setup in by_kind.values():
            try:
                self._run_prepared([first], setup, progress)
            except RunFailed as error:
                line = f"in the warm-up {error.failure.line}"
                raise RunFailed(Failure(line, error.failure.output)) from error

    def run_once(self, setup: Setup, repeat: int, progress: Progress) -> Run:
        """Runs the workload once; a failure is part of the result."""
        try:
            run = self._run_prepared(self.workload.instances(), setup, progress)
        except RunFailed as error:
            return Run(setup.arm, repeat, (), failure=error.failure)
        activity = run.activity
        if setup.arm.coscheduled and activity and activity.tasks == 0:
            return Run(setup.arm, repeat, (), failure=NOTHING_REGISTERED)
        return Run(setup.arm, repeat, run.jobs, run.load, activity, probe_us=run.probe_us)

    def _run_prepared(
        self, instances: Sequence[JobInstance], setup: Setup, progress: Progress
    ) -> _Measured:
        """Runs the jobs with the nodes in the mode and settings of the setup."""
        site = self.launcher.site
        with ExitStack() as stack:
            stack.enter_context(daemons.mode_changed(site, setup.arm.mode))
            stack.enter_context(daemons.settings_changed(site, setup.settings))
            before = daemons.ask(site)
            gang_slice_s = _gang_slice_s(before)
            stack.enter_context(daemons.settings_changed(site, setup.arm.settings))
            gang = Gang(site, gang_slice_s) if setup.arm is Arm.GANG else None
            told = site.cpus if setup.arm is not Arm.SLURM_GANG else None
            meter = LoadSampler(told, daemons.pids(before)) if told else None
            sample = meter.sample() if meter else None
            with SpeedProbe(whole_cores(site.cpus or frozenset())) as speed:
                jobs = self._run_jobs(instances, setup, gang, progress)
            load = None
            if meter and sample:
                jobs_s = sum(job.cpu_s for job in jobs)
                load = outside_load(sample, meter.sample(), jobs_s, len(meter.cpus))
            now, then = daemons.activity(daemons.ask(site)), daemons.activity(before)
            activity = now.since(then) if now and then else None
            return _Measured(jobs, load, activity, speed.probe_us)

    def _run_jobs(
        self,
        instances: Sequence[JobInstance],
        setup: Setup,
        gang: Gang | None,
        progress: Progress,
    ) -> tuple[JobResult, ...]:
        submissions = [
            self.launcher.submission(instance, setup.arm) for instance in instances
        ]

        def attend(running: Sequence[str]) -> float | None:
            progress.redraw()
            wanted = [progress.redraw_s, gang.attend(running) if gang else None]
            return min((seconds for seconds in wanted if seconds is not None), default=None)

        with tempfile.TemporaryDirectory(prefix="cosched-bench-") as folder:
            return run_jobs(
                submissions, setup.jobs_at_a_time, Path(folder), attend, self.limit_s
            )


def _gang_slice_s(answers: daemons.Answers) -> float:
    """Returns the nodes' slice in seconds; the driver of the arm gang does not adapt it."""
    settings = USUAL
    for answer in answers.values():
        settings = settings.changed({"slice": answer["settings"]["slice"]})
    return settings.fixed_slice_ns / NS_PER_S
