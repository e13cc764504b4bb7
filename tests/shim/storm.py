"""Sends random messages with checked contents while daemons are killed and restarted.

    python -m tests.shim.storm [--minutes N] [--seed S]

Two jobs run at a time, with their ranks alternately on the nodes a and b of their own run
directory, in slices of 20 ms. Every message must arrive as it was sent, and the jobs must
end, whatever happens to the daemons. The same seed gives the same jobs and faults; the
moment of a fault depends on the machine.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from cosched.core.errors import CoschedError
from cosched.core.node.settings import Settings
from cosched.launch.shim import make_shim, plan_build
from cosched.node.lifetime.start import NodeOptions, start_node
from cosched.node.lifetime.stop import stop_node
from cosched.rundir.lock import lock_holder
from cosched.rundir.paths import NodePaths
from tests.run.conftest import INSTALLED, Installed, wrapper_works
from tests.shim.jobs import CROWDED, compile_program, launch_on_nodes

NODES = ("a", "b")
JOBS = 2
SLICE, GMET = "20ms", "1ms"
#: After this time a job counts as hanging.
PATIENCE_S = 240
#: Longer than the heartbeat timeout of a daemon's tasks.
FROZEN_S = 0.9
CARRIERS = ("prefix", "shadow", "shadow", "none")
#: A rank sends from one thread, or from four at once (MPI_THREAD_MULTIPLE).
PROGRAMS = ("stress", "stress", "stress", "stress", "threads")
#: The longest message of a job, in bytes.
LONGEST = (300_000, 300_000, 300_000, 16 << 20)
WAITS = ("spin", "spin", "yield", "block:20000", "auto:20000")


class StormError(Exception):
    """A failed job, with the values to repeat it."""


@dataclass(frozen=True)
class Plan:
    """One drawn job."""

    program: str
    mpi: str
    ranks: int
    rounds: int
    seed: int
    longest: int
    carrier: str
    wait: str

    @property
    def words(self) -> tuple[str, ...]:
        """Returns the arguments of its program."""
        if self.program == "threads":
            return (str(self.rounds),)
        return (str(self.seed), str(self.rounds), str(self.longest))

    @property
    def lines(self) -> list[str]:
        """Returns its output if every message was right."""
        last = "threads done" if self.program == "threads" else f"{self.rounds} rounds"
        return sorted(f"{rank}: {last}" for rank in range(self.ranks))


@dataclass
class Tally:
    """Counts of the events so far."""

    jobs: int = 0
    registered: int = 0
    alone: int = 0
    misfortunes: dict[str, int] = field(default_factory=dict)


class Node:
    """The daemons of one node."""

    def __init__(self, run_dir: Path, name: str) -> None:
        self.paths = NodePaths(run_dir, name)

    def up(self) -> None:
        if lock_holder(self.paths.scheduler_lock) is None:
            settings = Settings().changed({"slice": SLICE, "gmet": GMET})
            start_node(self.paths, NodeOptions(settings))

    def down(self) -> None:
        """Ends the daemons; StormError if one of their files is left in shared memory."""
        stop_node(self.paths)
        left = sorted(Path("/dev/shm").glob(f"cosched-{self.paths.tag}-*"))
        if left:
            raise StormError(f"node {self.paths.node} left {', '.join(map(str, left))}")


@dataclass(frozen=True)
class Built:
    """The interposer and the programs, by name, for one installed MPI."""

    shim: Path
    programs: Mapping[str, str]


def build_programs(mpi: Installed, folder: Path) -> dict[str, str]:
    """Builds all programs with the compiler of ``mpi``; returns their paths."""
    return {name: compile_program(mpi, name, folder) for name in sorted(set(PROGRAMS))}


def build_all(folder: Path) -> dict[str, Built]:
    """Builds interposer and programs for each installed MPI; returns them by name."""
    built = {}
    for name, mpi in INSTALLED.items():
        (folder / name).mkdir()
        with wrapper_works(mpi):
            shim = make_shim(plan_build(mpi.mpicc, os.environ, cache=folder / "shims"))
            built[name] = Built(shim, build_programs(mpi, folder / name))
    return built


class Storm:
    """Two nodes in a run directory, and a random generator."""

    def __init__(
        self, seed: int, built: dict[str, Built], run_dir: Path, say: Callable[[str], None]
    ) -> None:
        self.seed, self.say = seed, say
        self.tally = Tally()
        self._chance = random.Random(seed)
        self._built = built
        self._folder = run_dir
        self._nodes = [Node(run_dir, name) for name in NODES]

    def run(self, lasts_s: float) -> Tally:
        """Runs rounds of jobs until this time is over; StormError if one fails."""
        end = time.monotonic() + lasts_s
        try:
            while time.monotonic() < end:
                self._round()
        finally:
            for node in self._nodes:
                node.down()
        return self.tally

    def _draw(self) -> Plan:
        chance = self._chance
        return Plan(
            program=chance.choice(PROGRAMS),
            mpi=chance.choice(sorted(self._built)),
            ranks=chance.choice((2, 2, 3, 4)),
            rounds=chance.randint(4, 16),
            seed=chance.randrange(1 << 30),
            longest=chance.choice(LONGEST),
            carrier=chance.choice(CARRIERS),
            wait=chance.choice(WAITS),
        )

    def _round(self) -> None:
        for node in self._nodes:
            node.up()
        plans = [self._draw() for _ in range(JOBS)]
        outputs = [self._folder / f"{number}.out" for number in range(JOBS)]
        jobs = [self._start(*each) for each in zip(plans, outputs, strict=True)]
        struck: list[str] = []
        deadline = time.monotonic() + PATIENCE_S
        try:
            while psutil.wait_procs(jobs, timeout=self._chance.uniform(0.02, 0.6))[1]:
                if time.monotonic() > deadline:
                    break
                struck.append(self._misfortune())
                for node in self._nodes:
                    node.up()
        finally:
            hung = [job.is_running() for job in jobs]
            for job in jobs:
                end_tree(job)
        for plan, output, job, hangs in zip(plans, outputs, jobs, hung, strict=True):
            self._judge(plan, output, job, hangs, struck)
        storm = ", ".join(struck) or "nothing"
        self.say(f"{self.tally.jobs} jobs; the last were struck by {storm}")

    def _start(self, plan: Plan, output: Path) -> psutil.Popen:
        mpi = INSTALLED[plan.mpi]
        built = self._built[plan.mpi]
        environ = {
            **os.environ,
            **CROWDED,
            "SHIM": str(built.shim),
            "COSCHED_JOB": output.stem,
            "COSCHED_RUN_DIR": str(self._folder),
            "COSCHED_NODE": NODES[0],
            "COSCHED_STATUS": plan.carrier,
            "COSCHED_WAIT": plan.wait,
            "COSCHED_VERBOSE": "1",
        }
        with output.open("w") as out, output.with_suffix(".err").open("w") as err:
            return psutil.Popen(
                launch_on_nodes(mpi, plan.ranks, built.programs[plan.program], *plan.words),
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    def _misfortune(self) -> str:
        node = self._chance.choice(self._nodes)
        locks = {"scheduler": node.paths.scheduler_lock, "timer": node.paths.timer_lock}
        kind = self._chance.choice(("kill", "kill", "freeze"))
        daemon = self._chance.choice(tuple(locks)) if kind == "kill" else "scheduler"
        pid = lock_holder(locks[daemon])
        if pid is None:
            return "nobody"
        if kind == "kill":
            os.kill(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(FROZEN_S)  # that it does nothing for so long is the event
            os.kill(pid, signal.SIGCONT)
        self.tally.misfortunes[kind] = self.tally.misfortunes.get(kind, 0) + 1
        return f"{kind} {daemon} {node.paths.node}"

    def _judge(
        self, plan: Plan, output: Path, job: psutil.Popen, hangs: bool, struck: list[str]
    ) -> None:
        lines = sorted(output.read_text().splitlines())
        errors = output.with_suffix(".err").read_text()
        self.tally.jobs += 1
        self.tally.registered += errors.count(" registered as task ")
        self.tally.alone += errors.count(" runs on its own: ")
        how = "hangs" if hangs else f"ended with {job.returncode}"
        if hangs or job.returncode != 0 or lines != plan.lines or "FAIL" in errors:
            raise StormError(
                f"seed {self.seed}: {plan}: {how}, printed {lines}; "
                f"struck by: {', '.join(struck)}\n{errors[-3000:]}"
            )


def end_tree(job: psutil.Popen) -> None:
    """Kills the processes that are left of a job."""
    if not job.is_running():
        return
    family = [*job.children(recursive=True), job]
    for process in family:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue  # it ended by itself meanwhile
    psutil.wait_procs(family, timeout=10)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/dev stress", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--minutes", type=float, default=10.0, help="[default: 10]")
    parser.add_argument("--seed", type=int, help="[default: drawn, and printed]")
    words = parser.parse_args()
    seed = random.randrange(1 << 30) if words.seed is None else words.seed
    print(f"seed {seed}", flush=True)
    # Short, since socket paths have at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="cosched-s-") as folder:
        try:
            storm = Storm(seed, build_all(Path(folder)), Path(folder), print)
            tally = storm.run(words.minutes * 60)
        except (StormError, CoschedError) as error:
            print(f"scripts/dev stress: {error}", file=sys.stderr)
            return 1
    print(tally)
    return 0


if __name__ == "__main__":
    sys.exit(main())
