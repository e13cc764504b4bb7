"""Runs jobs on a node under faults of every kind, and checks each job and what is left.

usage: python -m tests.live.node_storm [--jobs N] [--faults N] [--seed N]   (as root)

Jobs with checked messages start one after the other, four at a time, as one of two users.
Meanwhile there are faults. A daemon or both are killed, or stopped for a while. A rank or a
launcher is killed. A rank is stopped for a while. The region of a job is cut, overwritten,
renamed or removed. The run directory has no room. Some jobs start with few descriptors, or
few processes for their user.

A job that lost a rank or its launcher ends with an error. Each other job prints what it
prints without cosched, unless its limits stop it there, too; so does one whose region was
cut. No job hangs. In the end no process, region, bell or control group is left.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from cosched.core.errors import CoschedError
from cosched.core.node.settings import Settings
from cosched.node.lifetime.start import NodeOptions, start_node
from cosched.node.lifetime.stop import stop_node
from cosched.rundir.lock import lock_holder
from cosched.rundir.paths import NodePaths
from tests.run.conftest import INSTALLED
from tests.shim.jobs import CROWDED
from tests.shim.storm import CARRIERS, PROGRAMS, WAITS, Plan, build_all, end_tree

NODE = "storm"
AT_ONCE = 4
USERS = (0, 61_004)
PATIENCE_S = 240.0
DISK = "size=24m,mode=0755"
PAUSE_S = 0.02
FROZEN_S = 0.5
KINDS = {
    "kill scheduler": 12,
    "kill timer": 8,
    "kill both": 6,
    "stop scheduler": 6,
    "stop timer": 3,
    "kill rank": 10,
    "stop rank": 6,
    "kill launcher": 6,
    "cut region": 6,
    "overwrite region": 6,
    "rename region": 4,
    "remove region": 6,
    "full disk": 5,
}
#: How a job starts: with its own limits now and then.
STARTS = {"plain": 80, "few files": 10, "few processes": 10}
FEW_FILES = 24
#: Open MPI's mpiexec waits for ever after this error, without cosched as well.
HANGS_ALONE = "system limit on number of pipes"
#: For each rank of the user: its shell, itself, and the threads of its MPI.
FEW_PROCESSES = 6
#: Preloads the shim into the ranks, not into the launcher.
RANK = 'LD_PRELOAD=$SHIM exec "$0" "$@"'


@dataclass
class Job:
    """A job. start: one of STARTS. harmed: a fault may stop it by right."""

    number: int
    plan: Plan
    uid: int
    start: str
    process: psutil.Popen
    output: Path
    began: float
    harmed: bool = False


@dataclass
class Tally:
    """What has happened. ends: how the jobs ended."""

    jobs: int = 0
    faults: collections.Counter[str] = field(default_factory=collections.Counter)
    ends: collections.Counter[str] = field(default_factory=collections.Counter)
    problems: list[str] = field(default_factory=list)


class Storm:
    """One node in a run directory with little room."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.tally = Tally()
        self._chance = random.Random(seed)
        self._folder = folder
        self.paths = NodePaths(folder / "run", NODE)
        self._built = build_all(folder)
        self._running: list[Job] = []
        self._thaw: list[tuple[float, int]] = []

    def run(self, jobs: int, faults: int) -> Tally:
        """Runs the jobs and makes the faults; returns what has happened."""
        tally = self.tally
        try:
            while tally.jobs < jobs or self._running or tally.faults.total() < faults:
                self._up()
                self._take_ended()
                started = tally.jobs + len(self._running)
                more = started < jobs or tally.faults.total() < faults
                if more and len(self._running) < AT_ONCE:
                    self._start(started)
                due = faults * min(1.0, (started + 1) / jobs)
                if tally.faults.total() < due:
                    self._fault()
                self._continue_stopped()
                time.sleep(PAUSE_S)  # faults come at any moment of what goes on
        finally:
            self._continue_stopped(everything=True)
            for job in self._running:
                end_tree(job.process)
            with contextlib.suppress(CoschedError):
                stop_node(self.paths)
        tally.problems += self._left()
        return tally

    def _up(self) -> None:
        """Starts the daemons again, as an init system does."""
        stopped = {pid for _, pid in self._thaw}
        holder = lock_holder(self.paths.scheduler_lock)
        if holder is not None or stopped:
            return
        settings = Settings().changed({"slice": "30ms", "gmet": "3ms"})
        try:
            start_node(self.paths, NodeOptions(settings))
            self.paths.directory.chmod(0o755)
        except CoschedError as error:
            if "space" not in str(error) and "up already" not in str(error):
                self.tally.problems.append(f"daemons: {error}")

    # --- jobs -----------------------------------------------------------------------------

    def _start(self, number: int) -> None:
        chance = self._chance
        plan = Plan(
            program=chance.choice(PROGRAMS),
            mpi=chance.choice(sorted(self._built)),
            ranks=chance.choice((2, 2, 3, 4)),
            rounds=chance.randint(3, 10),
            seed=chance.randrange(1 << 30),
            longest=chance.choice((300, 30_000)),
            carrier=chance.choice(CARRIERS),
            wait=chance.choice(WAITS),
        )
        uid = chance.choice(USERS)
        start = chance.choices(list(STARTS), list(STARTS.values()))[0]
        mpi, built = INSTALLED[plan.mpi], self._built[plan.mpi]
        output = self._folder / f"job{number}.out"
        environ = {
            **os.environ,
            **CROWDED,
            "HOME": str(self._folder / "home"),
            "SHIM": str(built.shim),
            "COSCHED_JOB": f"job{number}",
            "COSCHED_RUN_DIR": str(self.paths.run_dir),
            "COSCHED_NODE": NODE,
            "COSCHED_STATUS": plan.carrier,
            "COSCHED_WAIT": plan.wait,
        }
        words = mpi.launch("-n", str(plan.ranks), "sh", "-c", RANK)

        def limit() -> None:
            if start == "few files":
                resource.setrlimit(resource.RLIMIT_NOFILE, (FEW_FILES, FEW_FILES))
            if uid:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                if start == "few processes":
                    most = FEW_PROCESSES * AT_ONCE * plan.ranks
                    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))

        with output.open("w") as out, output.with_suffix(".err").open("w") as err:
            process = psutil.Popen(
                [*words, built.programs[plan.program], *plan.words],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=self._folder / "home",
                preexec_fn=limit,
            )
        self._running.append(
            Job(number, plan, uid, start, process, output, time.monotonic())
        )

    def _take_ended(self) -> None:
        for job in list(self._running):
            late = time.monotonic() > job.began + PATIENCE_S
            if job.process.poll() is None and not late:
                continue
            if late:
                end_tree(job.process)
            self._running.remove(job)
            self.tally.jobs += 1
            self._judge(job, late)

    def _judge(self, job: Job, hangs: bool) -> None:
        lines = sorted(job.output.read_text().splitlines())
        right = job.process.returncode == 0 and lines == job.plan.lines
        errors = job.output.with_suffix(".err").read_text()[-1500:]
        alone = hangs and job.start == "few files" and HANGS_ALONE in errors
        hung = "hung in its mpiexec" if alone else "hung"
        how = hung if hangs else "right" if right else "ended with an error"
        self.tally.ends[f"{job.start}, harmed: {how}" if job.harmed else how] += 1
        may_fail = job.harmed or job.start != "plain"
        if (hangs and not alone) or not (right or may_fail):
            self.tally.problems.append(
                f"job {job.number} ({job.plan}, user {job.uid}, {job.start}): {how}, "
                f"status {job.process.returncode}, printed {lines[:4]}: {errors}"
            )
        elif right:
            job.output.unlink()
            job.output.with_suffix(".err").unlink()

    # --- faults ---------------------------------------------------------------------------

    def _fault(self) -> None:
        (kind,) = self._chance.choices(list(KINDS), list(KINDS.values()))
        if getattr(self, "_" + kind.replace(" ", "_"))():
            self.tally.faults[kind] += 1

    def _holder(self, daemon: str) -> int | None:
        locks = {"scheduler": self.paths.scheduler_lock, "timer": self.paths.timer_lock}
        return lock_holder(locks[daemon])

    def _kill(self, *daemons: str) -> bool:
        pids = [pid for pid in map(self._holder, daemons) if pid is not None]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return bool(pids)

    def _kill_scheduler(self) -> bool:
        return self._kill("scheduler")

    def _kill_timer(self) -> bool:
        return self._kill("timer")

    def _kill_both(self) -> bool:
        return self._kill(*self._chance.sample(("scheduler", "timer"), 2))

    def _stop(self, pid: int | None) -> bool:
        if pid is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            self._thaw.append((time.monotonic() + self._chance.random() * FROZEN_S, pid))
        return True

    def _stop_scheduler(self) -> bool:
        return self._stop(self._holder("scheduler"))

    def _stop_timer(self) -> bool:
        return self._stop(self._holder("timer"))

    def _continue_stopped(self, *, everything: bool = False) -> None:
        for at, pid in list(self._thaw):
            if everything or time.monotonic() >= at:
                self._thaw.remove((at, pid))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def _ranks(self) -> list[tuple[Job, int]]:
        """Returns the ranks of running jobs."""
        found = []
        for job in self._running:
            name = Path(self._built[job.plan.mpi].programs[job.plan.program]).name
            with contextlib.suppress(psutil.NoSuchProcess):
                for process in job.process.children(recursive=True):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        if process.name() == name:
                            found.append((job, process.pid))
        return found

    def _kill_rank(self) -> bool:
        if not (ranks := self._ranks()):
            return False
        job, pid = self._chance.choice(ranks)
        job.harmed = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return True

    def _stop_rank(self) -> bool:
        ranks = self._ranks()
        return bool(ranks) and self._stop(self._chance.choice(ranks)[1])

    def _kill_launcher(self) -> bool:
        if not self._running:
            return False
        job = self._chance.choice(self._running)
        job.harmed = True
        with contextlib.suppress(psutil.NoSuchProcess):
            job.process.kill()
        return True

    def _region(self) -> Path | None:
        found = sorted(Path("/dev/shm").glob(f"cosched-{self.paths.tag}-job-*"))
        return self._chance.choice(found) if found else None

    def _cut_region(self) -> bool:
        if (region := self._region()) is None:
            return False
        with contextlib.suppress(FileNotFoundError):
            os.truncate(region, self._chance.choice((0, 4096)))
        return True

    def _overwrite_region(self) -> bool:
        if (region := self._region()) is None:
            return False
        with contextlib.suppress(FileNotFoundError), region.open("r+b") as file:
            file.seek(self._chance.randrange(max(1, region.stat().st_size)))
            file.write(self._chance.randbytes(self._chance.choice((1, 64, 4096))))
        return True

    def _rename_region(self) -> bool:
        if (region := self._region()) is None:
            return False
        with contextlib.suppress(FileNotFoundError):
            region.rename(region.with_name(f"storm-{region.name}"))
            region.with_name(f"storm-{region.name}").unlink()
        return True

    def _remove_region(self) -> bool:
        if (region := self._region()) is None:
            return False
        region.unlink(missing_ok=True)
        return True

    def _full_disk(self) -> bool:
        filler = self.paths.run_dir / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
        time.sleep(self._chance.random() * 0.3)  # how long the disk is full
        filler.unlink()
        return True

    # --- the end --------------------------------------------------------------------------

    def _left(self) -> list[str]:
        """Returns a line about each thing that is left."""
        tag = self.paths.tag
        names = [*Path("/dev/shm").glob(f"*{tag}*"), *self.paths.bells.glob("*")]
        for root in Path("/sys/fs/cgroup").iterdir():
            if root.is_dir():
                names += [group for group in root.rglob(f"*{tag}*") if group.is_dir()]
        left = [f"left: {name}" for name in names]
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if str(self._folder) in " ".join(process.cmdline()):
                    left.append(f"left: process {process.pid} {process.cmdline()[:3]}")
        return left


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Puts a small file system at the run directory."""
    run_dir = folder / "run"
    run_dir.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", DISK, "tmpfs", run_dir], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", run_dir], check=True)


def run(jobs: int, faults: int, seed: int, folder: Path) -> Tally:
    """Makes a storm; returns what has happened."""
    folder.chmod(0o755)
    (folder / "home").mkdir(mode=0o777)
    (folder / "home").chmod(0o777)
    with small_disk(folder):
        return Storm(seed, folder).run(jobs, faults)


def main() -> int:
    """Makes a storm, and prints what has happened."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--jobs", type=int, default=500)
    options.add_argument("--faults", type=int, default=1000)
    options.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    given = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="cosched-s-"))
    print(f"seed {given.seed}, folder {folder}", flush=True)
    began = time.monotonic()
    tally = run(given.jobs, given.faults, given.seed, folder)
    print(f"{tally.jobs} jobs, {tally.faults.total()} faults: {dict(tally.faults)}")
    print(f"ends: {dict(tally.ends)}; {time.monotonic() - began:.0f} s")
    print("\n".join(tally.problems[:100]))
    print(f"{len(tally.problems)} problems")
    if not tally.problems:
        shutil.rmtree(folder)
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
