"""Runs random jobs in a domain of random faults, and checks that nothing is lost.

usage: python -m tests.domain.storm [--jobs N] [--faults N] [--nodes N] [--seed N]

Faults: a member is killed and started again, or frozen for a while. The links of a member
are cut for a while. The disk of the job store is full for a moment (as root). All the time
messages are dropped, doubled and delayed. Each task writes one line into a
file of its own start. In the end each job is over; each one that is done ran as a whole,
once; none ran a second time unless it allows it; no node is busy and no task is left.
"""

import argparse
import collections
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cosched.cluster.client import NoDomain
from cosched.cluster.submission import make_submission
from cosched.core.errors import CoschedError
from cosched.core.names import CONTROLLER
from tests.domain.rig import QUICK, Rig

FAULTY = str(Path(__file__).with_name("faulty.py"))
MARK = "storm-of-jobs"
SUBMITTERS = 4
PAUSE_S = 0.02
KINDS, WEIGHTS = ("kill", "freeze", "cut", "full disk"), (60, 20, 15, 5)
DISK = "size=32m,mode=0755"


class Storm:
    """One run. asked: (tasks, requeue) of each job by number."""

    def __init__(self, rig, chance):
        self.rig = rig
        self.chance = chance
        self.asked = {}
        self.thawed_at = {}
        self.made = collections.Counter()

    def start(self, *names):
        wrapper = (FAULTY, str(self.chance.randrange(1 << 30)))
        self.rig.start(*names, wrapper=wrapper)

    def submit(self, _):
        """Sends a job, again and again until it is accepted once."""
        chance = random.Random(self.chance.random())
        nodes, ppn = chance.randint(1, len(self.rig.config.nodes)), chance.randint(1, 3)
        requeue = chance.random() < 0.5
        script = (
            "echo $PMI_RANK >> ran.$COSCHED_DOMAIN_JOB.$COSCHED_DOMAIN_START; "
            f"sleep {chance.random() * 0.4:.2f} # {MARK}"
        )
        submission = make_submission(
            ["/bin/sh", "-c", script],
            nodes=nodes,
            ppn=ppn,
            pmi="pmi1",
            requeue=requeue,
            output="/dev/null",
            environ=self.rig.environ,
            cwd=str(self.rig.work),
        )
        while True:
            with contextlib.suppress(NoDomain, CoschedError), self.rig.client() as client:
                self.asked[client.submit(submission)] = (nodes * ppn, requeue)
                return

    def fault(self):
        """Does something bad to a member."""
        name = self.chance.choice([CONTROLLER, *self.rig.config.nodes])
        if name in self.thawed_at:
            return
        kind = self.chance.choices(KINDS, WEIGHTS)[0]
        if kind == "kill":
            self.rig.kill(name)
            self.start(name)
        elif kind == "freeze":
            self.rig.members[name].send_signal(signal.SIGSTOP)
            self.thawed_at[name] = time.monotonic() + self.chance.random() * 2
        elif kind == "cut":
            self.rig.members[name].send_signal(signal.SIGUSR1)
        elif os.geteuid() == 0 and CONTROLLER not in self.thawed_at:
            self.fill_disk()
        else:
            return
        self.made[kind] += 1

    def fill_disk(self):
        """Leaves no room to the job store, until the controller has ended or 0.3 s long."""
        filler = self.rig.paths.directory / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.rig.members[CONTROLLER].wait(0.3)
        filler.unlink()

    def restart_controller(self):
        """Starts the controller if a full disk has ended it."""
        if self.rig.members[CONTROLLER].poll() is not None:
            assert "disk" in self.rig.log(CONTROLLER).splitlines()[-1]
            self.rig.kill(CONTROLLER)
            self.start(CONTROLLER)

    def thaw(self, *, everything=False):
        for name, at in list(self.thawed_at.items()):
            if everything or time.monotonic() >= at:
                del self.thawed_at[name]
                self.rig.members[name].send_signal(signal.SIGCONT)

    def check(self):
        """Returns the problems that are seen, and how the jobs ended."""
        problems, ends = [], collections.Counter()
        with self.rig.client() as client:
            jobs = {job["job"]: job for job in client.queue(ended=20000)}
        for number, (tasks, requeue) in self.asked.items():
            job = jobs.get(number)
            if job is None or not job["ended_ns"]:
                problems.append(f"job {number} is lost: {job}")
                continue
            ends[job["state"]] += 1
            if job["state"] == "failed":  # no job fails by itself
                problems.append(f"job {number} failed: {job['reason']}")
            ran = [
                sorted(map(int, path.read_text().split()))
                for path in self.rig.work.glob(f"ran.{number}.*")
            ]
            whole = ran.count(list(range(tasks)))
            if any(len(set(ranks)) != len(ranks) for ranks in ran):
                problems.append(f"job {number}: a rank ran twice in one start: {ran}")
            if job["state"] == "done" and not whole:
                problems.append(f"job {number} is done but did not run: {ran}")
            if len(ran) > 1 and not requeue:
                problems.append(f"job {number} ran twice: {ran}")
        return problems, ends


def run(jobs, faults, nodes, seed, folder):
    """Makes a storm; returns the problems and the ends of the jobs."""
    chance = random.Random(seed)
    rig = Rig(folder, nodes, life=QUICK)
    with disk(rig.paths.directory):
        return rage(Storm(rig, chance), jobs, faults)


@contextlib.contextmanager
def disk(folder):
    """Puts a small file system below a folder, as root."""
    if os.geteuid() != 0:
        yield
        return
    kept = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    subprocess.run(["mount", "-t", "tmpfs", "-o", DISK, "tmpfs", folder], check=True)
    try:
        for path, data in kept.items():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
            path.chmod(0o600)
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def rage(storm, jobs, faults):
    """Sends jobs and makes faults; returns the problems and the ends of the jobs."""
    rig = storm.rig
    try:
        storm.start(*rig.config.members)
        rig.until_up()
        with ThreadPoolExecutor(SUBMITTERS) as users:
            submitting = [users.submit(storm.submit, number) for number in range(jobs)]
            while (made := storm.made.total()) < faults or not all(
                each.done() for each in submitting
            ):
                storm.thaw()
                storm.restart_controller()
                if made < faults and made / faults <= len(storm.asked) / jobs:
                    storm.fault()
                    print(f"{len(storm.asked)} jobs, {dict(storm.made)}", file=sys.stderr)
                time.sleep(PAUSE_S)  # faults come at any moment of what goes on
        for each in submitting:
            each.result()
        storm.thaw(everything=True)
        storm.restart_controller()
        rig.until_up()

        def calm():
            with rig.client() as client:
                return not client.queue() and not any(n["jobs"] for n in client.nodes())

        rig.until(calm, "jobs are left", within_s=300 + jobs)
        rig.until(lambda: not rig.strays(MARK), "a task is left")
        return storm.check()
    finally:
        storm.thaw(everything=True)
        rig.close()


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--jobs", type=int, default=1000)
    options.add_argument("--faults", type=int, default=1000)
    options.add_argument("--nodes", type=int, default=4)
    options.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    given = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="storm"))
    print(f"seed {given.seed}, folder {folder}", flush=True)
    problems, ends = run(given.jobs, given.faults, given.nodes, given.seed, folder)
    print(f"{given.jobs} jobs, {given.faults} faults: {dict(ends)}")
    for problem in problems:
        print(problem)
    if not problems:
        shutil.rmtree(folder)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
