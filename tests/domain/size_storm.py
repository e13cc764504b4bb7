"""Changes the size of a malleable job again and again on real nodes, and checks its answer.

    scripts/dev storm sizes sten --changes 500 --nodes 16 --seed 1
    scripts/dev storm sizes sten --language c --changes 500
    scripts/dev storm sizes cl --language c --minutes 10
    scripts/dev storm sizes cl --language c --changes 500 --lab             (root)
    scripts/dev storm sizes ge --changes 500 --faults 1000 --mpi openmpi   (root)

A job of benchmarks/programs runs in a domain of so many agents on this machine. Its owner
gives it other bounds, and an operator drains nodes that it has, at random. At its end its
answer is compared with that of a rigid run of as many iterations.

A node is an address of this machine or, with --lab, a lab node. With faults, each member
has a network of its own at a switch, and random faults come at random moments of the
changes (``size_faults.py``). After each change all harm is mended. Then the job must
get the size that was wanted last, or a fault must explain its end. What the controller
counts must be what runs: the job's nodes, its ranks, its pages. A job that has ended is
followed by another one.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from cosched import Client, Job
from cosched.cluster.answers import JOINED
from cosched.cluster.client import ANSWER_WITHIN_S, NoDomain, Patience
from cosched.config.domain import LifeSettings, SecuritySettings
from cosched.config.queue import ChangeSettings, QueueSettings
from cosched.core.errors import CoschedError
from cosched.core.names import CONTROLLER
from cosched.core.units import NS_PER_S
from tests.domain.lab_members import LabMembers
from tests.domain.rig import Rig
from tests.domain.size_faults import SizeFaults
from tests.domain.size_program import FOLDERS, Language, StormProgram
from tests.domain.wires import Switch

#: So long a change may take on a machine with much else to do.
CHANGE_S = 600.0
#: With faults, a job ends by itself after so many changes, so that its answer is checked.
CHANGES_A_JOB = 25
#: A fault comes within this time after the order of a change, or after the fault before.
FAULT_WITHIN_S = 1.0


class SizeStorm:
    """Jobs of ``program`` in a domain. seed: draws the changes. wires: the networks of its
    members, if they have their own. Faults come if they are those of a switch."""

    def __init__(
        self,
        folder: Path,
        program: str,
        nodes: int,
        seed: int,
        *,
        mpi: str = "mpich",
        language: Language = Language.PYTHON,
        wires: Switch | LabMembers | None = None,
    ) -> None:
        switch = wires if isinstance(wires, Switch) else None
        late_s, lost_s = (60, 60) if switch is None else (8, 10)
        self.rig = Rig(
            folder,
            nodes,
            slots=2,
            queue=QueueSettings(
                "fcfs",
                grace_ns=NS_PER_S,
                size="malleable",
                changes=ChangeSettings(late_after_ns=late_s * NS_PER_S, spared_ns=1),
            ),
            life=LifeSettings(lost_after_ns=lost_s * NS_PER_S, prepare_ns=20 * NS_PER_S),
            wires=wires,
            security=SecuritySettings(tuple(f"n{at}" for at in range(1, nodes + 1))),
        )
        self.chance = random.Random(seed)
        self.done = Counter()  #: the changes, by their ends
        self.took_s = []  #: how long each one took that was done
        self.stood_s = []  #: how long the job stood still for it
        self.ends = Counter()  #: the jobs, by their ends
        self.problems = []
        self.job = 0
        self._starts = 0  # of the job, as it was seen last
        self.program = StormProgram(
            self.rig, program, mpi, language, over_network=wires is not None
        )
        self._drained = ""
        self._wanted = range(1, 2)
        self._seen_ns = 0  # when the latest change was ordered that is counted
        self._left = 0  # changes of this job
        self.faults = switch and SizeFaults(self.rig, switch, self.chance, self.program)

    def start(self) -> None:
        """Starts the domain and a job."""
        self.rig.start(*self.rig.config.members)
        self.rig.until_up()
        self.submit()

    def submit(self) -> None:
        """Submits a job, which has one node at first."""
        number = self.job + 1
        job = Job(
            self.program.words(self._until(number)),
            minimum=1,
            ideal=1,
            time_s=100_000,
            output="answer.%j",
            requeue=True,
            environ=self.program.environ,
            cwd=str(self.rig.work),
            mpi=str(self.program.mpiexec),
            shim=False,
        )
        if self.faults is not None:
            self.faults.end_those_over(all_of_them=True)
        self.job = self._ask(lambda client: client.submit(job), ANSWER_WITHIN_S)
        assert self.job == number
        self._wanted, self._left, self._starts = range(1, 2), CHANGES_A_JOB, 1
        self._until_so(self._is_settled, "the job does not begin")

    def _until_so(self, check, problem: str) -> None:
        """Waits until ``check`` returns true. Otherwise shows the job."""
        try:
            self.rig.until(check, problem, CHANGE_S)
        except AssertionError:
            job = self._ask(lambda client: client.job(self.job))
            for line in (job, self._wanted, self._drained, self._leaks()):
                print(line)
            print("faults of this change:", self.faults and self.faults.recent)
            raise

    def _until(self, number: int) -> Path:
        return self.rig.folder / f"until.{number}"

    def _ask(self, what, within_s=1.0):
        """Returns what ``what`` does with a client, again and again until a controller
        answers. within_s: how long it is asked before faults that are over end."""
        run_dir, patience = self.rig.paths.run_dir, Patience(within_s)

        def answer():
            if self.faults is not None:
                self.faults.end_those_over()
            connect = Client.connect
            with (
                contextlib.suppress(NoDomain),
                connect(run_dir, patience=patience) as client,
            ):
                return [what(client)]
            return None

        return self.rig.until(answer, "the controller does not answer", CHANGE_S)[0]

    # --- changes --------------------------------------------------------------------------

    def change(self, faults: int = 0) -> None:
        """Makes a random change under so many faults, and waits until the job has the size
        that was wanted last. Then nothing may be left of the harm."""
        if self.faults is not None and self._left == 0:
            self.finish()
            self.submit()
        self._left -= 1
        job = self._ask(lambda client: client.job(self.job))
        before = set() if self.faults is None else self.program.ranks()
        if faults:
            self.faults.begin()
        self._order(job["hosts"])
        for _ in range(faults):
            self._pass(self.chance.random() * FAULT_WITHIN_S)
            job = self._ask(lambda client: client.job(self.job))
            if job["ended_ns"]:
                break
            if job["hosts"]:
                self.faults.make(job["hosts"], before, self._overtake)
        self._until_so(self._is_settled, "a change does not end")
        if self.faults is not None:
            # A fault may end a job after its change, so each look follows such an end.
            self._until_so(
                lambda: self._is_settled() and not self._leaks(),
                "something is left of a fault",
            )

    def _order(self, hosts: list[str]) -> None:
        """Orders a random change of a job on these nodes."""
        may_leave = [host for host in hosts[1:] if host != self._drained]
        if may_leave and not self._drained and self.chance.random() < 0.3:
            drained = self._drained = self.chance.choice(may_leave)
            self._resize(range(1, len(hosts)))
            self._ask(lambda client: client.drain([drained]))
            return
        if self._drained:
            self._ask(lambda client: client.undrain([self._drained]))
            self._drained = ""
        sizes = [each for each in self._sizes() if each != len(hosts)]
        size = self.chance.choice(sizes)
        self._resize(range(size, size + 1))

    def _sizes(self) -> range:
        return range(1, len(self.rig.config.nodes) - bool(self._drained) + 1)

    def _resize(self, wanted: range) -> None:
        self._ask(lambda client: client.resize(self.job, wanted[0], wanted[-1]))
        self._wanted = wanted

    def _overtake(self) -> bool:
        """Wants another size while a change is under way."""
        size = self.chance.choice(self._sizes())
        try:
            self._resize(range(size, size + 1))
        except CoschedError:  # the job has ended
            return False
        return True

    def _pass(self, seconds: float) -> None:
        """Lets this time pass, in which faults end."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self.faults.end_those_over()
            time.sleep(0.01)

    def _is_settled(self) -> bool:
        """Returns whether the job has the size that is wanted, and no change is open. A job
        that has ended is followed by another one."""
        self._check_members()
        job = self._ask(lambda client: client.job(self.job))
        if job["starts"] > self._starts or job["ended_ns"]:
            self._note_end(job)
        if job["ended_ns"]:
            self.submit()
            return True
        self._count(job["changes"])
        is_open = any(each["ended_ns"] is None for each in job["changes"])
        size = len(job["hosts"])
        if job["state"] != "running" or is_open or size not in self._wanted:
            return False
        # A job at its minimum keeps a drained node.
        return size == self._wanted[0] or self._drained not in job["hosts"]

    def _check_members(self) -> None:
        ended = [n for n, each in self.rig.members.items() if each.poll() is not None]
        assert not ended, f"{ended} ended by themselves\n{self.rig.logs()}"

    def _note_end(self, job) -> None:
        """Notes that a job has ended before its time, or was started again."""
        assert self.faults is not None, f"{job['state']}: {job['reason']}"
        if not self.faults.explain(job):
            line = f"job {self.job}: {job['state']} without a cause: {job['reason']}"
            self.problems.append(f"{line}\n{self.rig.logs()}")
        self._starts = job["starts"]
        what = job["state"] if job["ended_ns"] else "started again"
        self.ends[f"{what}: {_plain(job['reason'])}"] += 1

    def _count(self, changes) -> None:
        """Counts the changes that have ended since the last time."""
        for each in changes:
            if each["ordered_ns"] <= self._seen_ns or each["ended_ns"] is None:
                continue
            self._seen_ns = each["ordered_ns"]
            self.done[_plain(each["refused"]) or "done"] += 1
            if not each["refused"]:
                self.took_s.append((each["ended_ns"] - each["ordered_ns"]) / NS_PER_S)
                self.stood_s.append(each["stood_s"])

    # --- what is left ---------------------------------------------------------------------

    def _leaks(self) -> str:
        """Returns what differs between the controller's account and what runs."""
        job, nodes = self._ask(lambda client: (client.job(self.job), client.nodes()))
        hosts = sorted(job["hosts"])
        found = {
            "counted": sorted(n["node"] for n in nodes if n["jobs"]),
            "with ranks": self.program.nodes_of_ranks(),
            "with pages": self.program.nodes_of_pages(),
        }
        wrong = {what: each for what, each in found.items() if each != hosts}
        down = [n["node"] for n in nodes if n["state"] not in JOINED]
        return f"{job['state']} on {hosts}, {wrong}, down {down}" if wrong or down else ""

    def finish(self) -> None:
        """Ends the job, and compares its answer. The rigid run needs the program, too."""
        if self.faults is not None:
            self.faults.end_those_over(all_of_them=True)
        self._until(self.job).touch()
        self._until_so(self._has_ended, "the job does not end")
        job = self._ask(lambda client: client.job(self.job))
        self.ends[f"ended by itself: {job['state']}"] += 1
        problem = self.program.problem(self.rig.output(job))
        if job["state"] != "done" or problem:
            line = f"job {self.job}: {job['state']}: {job['reason']}: {problem}"
            self.problems.append(line)
        self._until_so(lambda: not self.rig.strays(""), "a task is left")
        self._until_so(lambda: not self.program.files(), "a file is left")

    def _has_ended(self) -> bool:
        return bool(self._ask(lambda client: client.job(self.job)["ended_ns"]))

    def check(self) -> None:
        """Ends the last job. Then nothing may be left, and no job may be lost."""
        self.finish()
        with self.rig.client() as client:
            self.problems += [
                f"{n['node']} has {n['jobs']}" for n in client.nodes() if n["jobs"]
            ]
            jobs = {each["job"]: each for each in client.queue(ended=self.job)}
        lost = [each for each in range(1, self.job + 1) if each not in jobs]
        self.problems += [f"job {each} is lost" for each in lost]
        for name in self.rig.config.members:
            if "Traceback" in self.rig.log(name):
                self.problems.append(f"{name} has an error:\n{self.rig.log(name)}")

    def lines(self):
        """Yields what was seen, one line each."""
        yield f"changes: {dict(self.done)}"
        for what, times in (("took", self.took_s), ("stood still", self.stood_s)):
            if len(times) > 1:
                p95 = statistics.quantiles(times, n=20)[-1]
                yield f"{what}: median {statistics.median(times):.2f} s, p95 {p95:.2f} s"
        yield f"jobs: {dict(self.ends)}"
        if self.faults is not None:
            yield f"faults: {self.faults.made.total()}: {dict(self.faults.made)}"


def _plain(reason: str) -> str:
    """Returns a reason without its numbers and folders, to count its kind."""
    return re.sub("[0-9]+", "N", re.sub(r"/\S+/", "", reason))


def run(storm: SizeStorm, changes: int, faults: int, minutes: float | None = None) -> None:
    """Makes the changes and the faults, and writes a line after each change. minutes: no
    change begins later than that; None: all are made."""
    storm.start()
    began_s = time.monotonic()
    for number in range(changes):
        if minutes is not None and time.monotonic() - began_s > minutes * 60:
            break
        made = storm.faults.made.total() if storm.faults is not None else 0
        storm.change(-(-(faults - made) // (changes - number)))
        print(f"{number + 1}: {dict(storm.done)}, {made} faults", file=sys.stderr)
    storm.check()


def main():
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("program", choices=("sten", "ge", "cl"))
    options.add_argument("--changes", type=int, default=500)
    options.add_argument("--faults", type=int, default=0, help="in all changes (root)")
    options.add_argument("--minutes", type=float, help="make no changes after this time")
    options.add_argument("--nodes", type=int, default=16)
    options.add_argument(
        "--lab", action="store_true", help="the nodes are lab nodes (root; no faults)"
    )
    options.add_argument("--mpi", choices=[*FOLDERS], default="mpich")
    languages = [each.value for each in Language]
    options.add_argument("--language", choices=languages, default="python")
    options.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    given = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    folder = Path(tempfile.mkdtemp(prefix="sizes"))
    print(f"seed {given.seed}, folder {folder}", flush=True)
    names = [CONTROLLER, *(f"n{at}" for at in range(1, given.nodes + 1))]
    with contextlib.ExitStack() as end:
        wires: Switch | LabMembers | None = None
        if given.faults:
            wires = end.enter_context(Switch(names))
        elif given.lab:
            wires = end.enter_context(LabMembers(folder / "lab", names))
        storm = SizeStorm(
            folder,
            given.program,
            given.nodes,
            given.seed,
            mpi=given.mpi,
            language=Language(given.language),
            wires=wires,
        )
        end.callback(storm.rig.close)
        if storm.faults is not None:
            end.callback(storm.faults.end_those_over, all_of_them=True)
        began_s = time.monotonic()
        run(storm, given.changes, given.faults, given.minutes)
    minutes = (time.monotonic() - began_s) / 60
    print(f"{given.program}, {given.language}, {given.mpi}: {minutes:.1f} minutes")
    for line in (*storm.lines(), *storm.problems):
        print(line)
    if not storm.problems:
        shutil.rmtree(folder)
    return 1 if storm.problems else 0


if __name__ == "__main__":
    sys.exit(main())
