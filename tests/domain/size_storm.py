"""Changes the size of a malleable job again and again on real nodes, and checks its answer.

    scripts/dev storm sizes sten --changes 500 --nodes 16 --seed 1

A job of benchmarks/programs runs in a domain of so many agents on this machine. Its owner
gives it other bounds, and an operator drains nodes that it has, at random. At its end its
answer is compared with that of a rigid run of as many iterations.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.mpi import PROGRAMS
from cosched import Client, Job
from cosched.config.domain import ChangeSettings, LifeSettings, QueueSettings
from cosched.core.units import NS_PER_S
from tests.domain.rig import Rig
from tests.places import ROOT

#: So long a change may take on a machine with much else to do.
CHANGE_S = 120.0
#: Of the programs.
ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/", "PYTHONPATH": str(ROOT)}
ANSWER = re.compile(r"iterations (\d+) answer ([0-9a-f]+)")


class SizeStorm:
    """A job of ``program`` in a domain. seed: draws the changes."""

    def __init__(self, folder: Path, program: str, nodes: int, seed: int) -> None:
        changes = ChangeSettings(late_after_ns=60 * NS_PER_S, spared_ns=1)
        queue = QueueSettings("fcfs", grace_ns=NS_PER_S, size="malleable", changes=changes)
        life = LifeSettings(lost_after_ns=60 * NS_PER_S, prepare_ns=60 * NS_PER_S)
        self.rig = Rig(folder, nodes, slots=2, queue=queue, life=life)
        self.chance = random.Random(seed)
        self.done = Counter()
        self._program = program
        self._until = folder / "until"
        self._drained = ""
        self._seen_ns = 0  # when the latest change was ordered that is counted

    def start(self) -> None:
        """Starts the domain and the job."""
        self.rig.start(*self.rig.config.members)
        self.rig.until_up()
        job = Job(
            [
                *(sys.executable, str(PROGRAMS / f"{self._program}.py")),
                *("--size", "48", "--pause", "0.005", "--until", str(self._until)),
            ],
            minimum=1,
            ideal=1,
            time_s=100_000,
            output="answer",
            environ={**ENVIRON, **self.rig.mark},
            cwd=str(self.rig.work),
            mpi=str(Path(sys.executable).with_name("mpiexec")),
            shim=False,
        )
        with Client.connect(self.rig.paths.run_dir, "n1") as client:
            self.job = client.submit(job)
        self.rig.until_state(self.job, "running")

    def change(self) -> None:
        """Makes a random change, and waits until it has ended."""
        with self.rig.client() as client:
            held = client.job(self.job)["hosts"]
            spare = len(self.rig.config.nodes) - bool(self._drained)
            if len(held) > 1 and not self._drained and self.chance.random() < 0.3:
                self._drained = self.chance.choice(held[1:])
                client.resize(self.job, 1, len(held) - 1)
                client.drain([self._drained])
            else:
                if self._drained:
                    client.undrain([self._drained])
                    self._drained = ""
                    spare = len(self.rig.config.nodes)
                sizes = [size for size in range(1, spare + 1) if size != len(held)]
                size = self.chance.choice(sizes)
                client.resize(self.job, size, size)
        self.rig.until(self._ended, "a change does not end", CHANGE_S)

    def _ended(self) -> bool:
        with self.rig.client() as client:
            job = client.job(self.job)
        assert job["state"] == "running", f"{job['state']}: {job['reason']}"
        changes = [each for each in job["changes"] if each["ordered_ns"] > self._seen_ns]
        if not changes or changes[-1]["ended_ns"] is None:
            return False
        for each in changes:
            self.done[each["refused"] or "done"] += 1
        self._seen_ns = changes[-1]["ordered_ns"]
        return True

    def check(self) -> list[str]:
        """Ends the job; returns what is wrong."""
        self._until.touch()
        job = self.rig.wait(self.job)
        output = self.rig.output(job)
        found = ANSWER.search(output)
        if job["state"] != "done" or found is None:
            return [f"{job['state']}: {job['reason']}: {output[-2000:]}"]
        problems = [] if found[2] == self._rigid(found[1]) else [f"wrong: {output}"]
        self.rig.until(lambda: not self.rig.strays(""), "a task is left")
        with self.rig.client() as client:
            problems += [
                f"{n['node']} has {n['jobs']}" for n in client.nodes() if n["jobs"]
            ]
        self.rig.until(lambda: not self._files(), "a file is left")
        return problems

    def _files(self) -> list[Path]:
        """Returns the directories of jobs on all nodes."""
        spools = map(self.rig.paths.spool, self.rig.config.nodes)
        return [each for spool in spools for each in spool.glob("*")]

    def _rigid(self, iterations: str) -> str:
        words = ["--size", "48", "--iterations", iterations]
        command = [sys.executable, PROGRAMS / f"{self._program}.py", *words]
        ended = subprocess.run(
            command, capture_output=True, text=True, check=True, env=ENVIRON
        )
        return ANSWER.search(ended.stdout)[2]


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("program", choices=("sten", "ge", "cl"))
    options.add_argument("--changes", type=int, default=500)
    options.add_argument("--nodes", type=int, default=16)
    options.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    given = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="sizes"))
    print(f"seed {given.seed}, folder {folder}", flush=True)
    storm = SizeStorm(folder, given.program, given.nodes, given.seed)
    try:
        storm.start()
        for number in range(given.changes):
            storm.change()
            print(f"{number + 1}: {dict(storm.done)}", file=sys.stderr)
        problems = storm.check()
    finally:
        storm.rig.close()
    print(f"{given.program}: {dict(storm.done)}")
    for problem in problems:
        print(problem)
    if not problems:
        shutil.rmtree(folder)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
