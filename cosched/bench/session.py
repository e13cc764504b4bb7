"""One bench from the warm-up to the last run.

A run that fails ends its arm, as its next repeat would hardly do better; the other arms
go on. If every arm has failed, the bench is over.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cosched.bench import daemons
from cosched.bench.arms import Arm, interleave
from cosched.bench.gang import Gang
from cosched.bench.launcher import Launcher
from cosched.bench.load import outside_load
from cosched.bench.meter import LoadMeter
from cosched.bench.processes import RunFailed, run_jobs
from cosched.bench.progress import Progress
from cosched.bench.results import Activity, Failure, JobResult, Run
from cosched.bench.workload import JobInstance, Workload

NOTHING_REGISTERED = Failure(
    "no task took part in coscheduling; run a job with 'cosched-run -v' to see why"
)


@dataclass(frozen=True, slots=True)
class Session:
    """Everything that one bench needs.

    meter: None where the outside load cannot be told.
    slice_s: the nodes' slice, for the arm that switches them itself.
    """

    workload: Workload
    arms: tuple[Arm, ...]
    repeats: int
    launcher: Launcher
    meter: LoadMeter | None
    slice_s: float

    def order(self) -> tuple[tuple[Arm, int], ...]:
        return interleave(self.arms, self.repeats)

    def warm_up(self, progress: Progress) -> None:
        """Runs the first job alone, uncounted; RunFailed if it fails.

        Files come into memory, and whatever is built on first use is built.
        """
        progress.say("warming up")
        first = self.workload.instances()[0]
        arms = {arm.coscheduled: arm for arm in self.arms}
        for arm in arms.values():
            try:
                self._run_jobs([first], arm, progress)
            except RunFailed as error:
                line = f"in the warm-up {error.failure.line}"
                raise RunFailed(Failure(line, error.failure.output)) from error

    def run(self, progress: Progress) -> tuple[Run, ...]:
        """Every run, in the order in which they were made."""
        order = self.order()
        runs: list[Run] = []
        failed: set[Arm] = set()
        for number, (arm, repeat) in enumerate(order, 1):
            if arm in failed:
                continue
            progress.begin(number, len(order), arm, repeat)
            run = self._run_once(arm, repeat, progress)
            progress.end(run)
            runs.append(run)
            if run.failure is not None:
                failed.add(arm)
        return tuple(runs)

    def _run_once(self, arm: Arm, repeat: int, progress: Progress) -> Run:
        activity_before = daemons.activity(daemons.ask(self.launcher.site))
        before = self.meter.sample() if self.meter else None
        try:
            jobs = self._run_jobs(self.workload.instances(), arm, progress)
        except RunFailed as error:
            return Run(arm, repeat, (), failure=error.failure)
        load = None
        if self.meter and before:
            jobs_s = sum(job.cpu_s for job in jobs)
            load = outside_load(before, self.meter.sample(), jobs_s, len(self.meter.cpus))
        activity = self._activity_since(activity_before)
        if arm.coscheduled and activity and activity.tasks == 0:
            return Run(arm, repeat, (), failure=NOTHING_REGISTERED)
        return Run(arm, repeat, jobs, load, activity)

    def _activity_since(self, before: Activity | None) -> Activity | None:
        now = daemons.activity(daemons.ask(self.launcher.site))
        return now.since(before) if now and before else None

    def _run_jobs(
        self, instances: Sequence[JobInstance], arm: Arm, progress: Progress
    ) -> tuple[JobResult, ...]:
        submissions = [self.launcher.submission(instance, arm) for instance in instances]
        site = self.launcher.site
        gang = Gang(site, self.slice_s) if arm is Arm.GANG else None

        def attend(running: Sequence[str]) -> float | None:
            progress.beat()
            wanted = [progress.beat_s, gang.attend(running) if gang else None]
            return min((seconds for seconds in wanted if seconds is not None), default=None)

        with (
            tempfile.TemporaryDirectory(prefix="cosched-bench-") as folder,
            daemons.settings_changed(site, arm.settings),
        ):
            return run_jobs(submissions, arm.one_at_a_time, Path(folder), attend)
