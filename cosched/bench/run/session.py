"""Runs one workload on its nodes: a warm-up, and single runs."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from cosched.bench.measure.load import LoadSampler, OutsideLoad, outside_load
from cosched.bench.measure.speed import SpeedProbe, whole_cores
from cosched.bench.results.results import Activity, Failure, JobResult, Run
from cosched.bench.run import daemons
from cosched.bench.run.arms import Arm, Setup
from cosched.bench.run.gang import Gang
from cosched.bench.run.interrupts import temporary_folder
from cosched.bench.run.launcher import Launcher
from cosched.bench.run.processes import RunFailed, Submission, run_jobs
from cosched.bench.run.progress import Progress
from cosched.bench.run.record import RunRecord
from cosched.bench.workload.file import JobInstance, Workload
from cosched.core.errors import CoschedError
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
    """A workload and the launcher of its jobs."""

    workload: Workload  #: the jobs of each run
    launcher: Launcher  #: makes the command of each job
    #: The lengths of earlier runs that are known at the beginning of each run.
    record: RunRecord
    limit_s: float = math.inf  #: a longer run counts as failed

    def limited_to(self, limit_s: float) -> Session:
        """Returns the same session with runs of at most ``limit_s``, if that is less."""
        return replace(self, limit_s=min(self.limit_s, limit_s))

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
            with _failing_in("warm-up"), self.record.copied() as runs:
                self._run_prepared([first], setup, runs, progress)

    def see(self, times: int, progress: Progress) -> None:
        """Runs each different program alone, so that later runs begin with its length.

        RunFailed if one fails; CoschedError if the length of one does not become known.
        """
        different: dict[tuple[tuple[str, ...], int], JobInstance] = {}
        for program in self.workload.programs():
            command = self.launcher.programs[program.spec.name]
            different.setdefault((command, program.spec.ranks), program)
        for number, program in enumerate(different.values(), 1):
            progress.show(f"program {number}/{len(different)} alone: {program.name}")
            for _ in range(times):
                self._see(program, progress)

    def _see(self, program: JobInstance, progress: Progress) -> None:
        before = self.record.length
        with _failing_in("alone, before the runs"):
            self._run_prepared([program], Setup(Arm.COSCHED), self.record.path, progress)
        if self.record.length == before:
            raise CoschedError(_unknown(program.name, "length"))

    def run_once(self, setup: Setup, repeat: int, progress: Progress) -> Run:
        """Runs the workload once; a failure is part of the result."""
        try:
            with self.record.copied() as runs:
                jobs = self.workload
                instances = jobs.programs() if setup.arm.runs_alone else jobs.instances()
                run = self._run_prepared(instances, setup, runs, progress)
        except RunFailed as error:
            return Run(setup.arm, repeat, (), failure=error.failure)
        activity = run.activity
        if setup.arm.coscheduled and activity and activity.tasks == 0:
            return Run(setup.arm, repeat, (), failure=NOTHING_REGISTERED)
        return Run(setup.arm, repeat, run.jobs, run.load, activity, probe_us=run.probe_us)

    def _run_prepared(
        self,
        instances: Sequence[JobInstance],
        setup: Setup,
        runs: Path,
        progress: Progress,
    ) -> _Measured:
        """Runs the jobs with the nodes in the mode and settings of the setup.

        ``runs``: the record of runs that they read and continue.
        """
        site = self.launcher.site
        with ExitStack() as stack:
            stack.enter_context(daemons.mode_changed(site, setup.arm))
            stack.enter_context(daemons.settings_changed(site, setup.settings))
            if setup.arm.coscheduled:
                stack.enter_context(daemons.past_forgotten(site, self.record.times))
            before = daemons.ask(site)
            gang_slice_s = _gang_slice_s(before)
            stack.enter_context(daemons.settings_changed(site, setup.arm.settings))
            gang = self._gang(gang_slice_s) if setup.arm is Arm.GANG else None
            told = site.cpus if self.launcher.sees_cpu_time(setup.arm) else None
            meter = LoadSampler(told, daemons.pids(before)) if told else None
            sample = meter.sample() if meter else None
            began_wall_ns = time.time_ns()
            with SpeedProbe(whole_cores(site.cpus or frozenset())) as speed:
                submissions = [
                    self.launcher.submission(instance, setup.arm, runs)
                    for instance in instances
                ]
                jobs = self._run_jobs(submissions, setup, gang, progress)
            load = None
            if meter and sample:
                jobs_s = sum(job.cpu_s for job in jobs)
                load = outside_load(sample, meter.sample(), jobs_s, len(meter.cpus))
            now, then = daemons.activity(daemons.ask(site)), daemons.activity(before)
            activity = now.since(then) if now and then else None
            if setup.arm.runs_alone:
                jobs = self._with_node_times(jobs, began_wall_ns)
            return _Measured(jobs, load, activity, speed.probe_us)

    def _with_node_times(
        self, jobs: Sequence[JobResult], began_wall_ns: int
    ) -> tuple[JobResult, ...]:
        """Returns the jobs with their CPU time on each node, which the daemons counted."""
        site = self.launcher.site
        names = {job.name for job in jobs}
        node_s: dict[str, dict[str, float]] = {name: {} for name in names}
        for record in daemons.records(site, names, began_wall_ns):
            cpus = (site.node_cpus or {}).get(record.node)
            if cpus and record.cpu_s is not None:
                node_s[record.name][record.node] = record.cpu_s / len(cpus)
        for job in jobs:
            if not node_s[job.name]:
                raise RunFailed(Failure(_unknown(job.name, "CPU time")))
        return tuple(replace(job, node_s=node_s[job.name]) for job in jobs)

    def _gang(self, slice_s: float) -> Gang:
        specs = {instance.name: instance.spec for instance in self.workload.instances()}
        return Gang(
            self.launcher.site, slice_s, lambda job: self.launcher.hosts_of(specs[job])
        )

    def _run_jobs(
        self,
        submissions: Sequence[Submission],
        setup: Setup,
        gang: Gang | None,
        progress: Progress,
    ) -> tuple[JobResult, ...]:
        def attend(running: Sequence[str]) -> float | None:
            progress.redraw()
            wanted = [progress.redraw_s, gang.attend(running) if gang else None]
            return min((seconds for seconds in wanted if seconds is not None), default=None)

        with temporary_folder() as folder:
            return run_jobs(submissions, setup.jobs_at_a_time, folder, attend, self.limit_s)


@contextmanager
def _failing_in(where: str) -> Iterator[None]:
    """Adds the place to the line of a failure."""
    try:
        yield
    except RunFailed as error:
        line = f"{where}: {error.failure.line}"
        raise type(error)(Failure(line, error.failure.output)) from error


def _unknown(job: str, figure: str) -> str:
    """Returns the line for a figure that the nodes' daemons did not report."""
    return (
        f"job '{job}' ran alone, but its {figure} is not known: its nodes' daemons cannot "
        "be reached from here, or none of its tasks took part in coscheduling; run it with "
        "'cosched-run -v' to see why"
    )


def _gang_slice_s(answers: daemons.Answers) -> float:
    """Returns the nodes' slice in seconds; the driver of the arm gang does not adapt it."""
    settings = USUAL
    for answer in answers.values():
        settings = settings.changed({"slice": answer["settings"]["slice"]})
    return settings.fixed_slice_ns / NS_PER_S
