"""Two small Slurms on the loopback, each steered by a controller that follows the test."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue

import pytest

from cosched.cluster.engines.slurm.prolog_scripts import front_script
from cosched.config.slurm import SlurmSettings
from tests.labs.slurms import Cluster, SmallSlurm
from tests.tools.ports import free_ports

MISSING = [
    name
    for name in ("munged", "slurmctld", "slurmd", "sbatch")
    if shutil.which(name) is None
]
DEADLINE_S = 60.0
USER = "nobody"
#: SlurmUser may not run a Python in a home of root.
PYTHON = "/usr/bin/python3"
GROUP = "g1"
#: Quick settings, so that tests wait for events and not for polls.
QUICK = {"poll_s": 0.5, "controller_lost_after_s": 20.0, "try_s": 8.0}
CONTROLLER = Path(__file__).parent / "controller.py"


@pytest.fixture(autouse=True)
def need_slurm():
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if MISSING:
        pytest.skip(f"{', '.join(MISSING)} not found; apt-get install slurm-wlm munge")


class Steered:
    """A Slurm with its controller. events: those that no test has awaited."""

    def __init__(self, slurm, other, settings):
        self.slurm = slurm
        self.name = slurm.cluster.name
        self.other = other
        self.settings = SlurmSettings(conf=str(slurm.cluster.conf), **settings)
        self._settings = {"conf": str(slurm.cluster.conf), **settings}
        self.socket = slurm.cluster.folder / "gate.sock"
        self.lines = SimpleQueue()
        self.past = []
        self.unread = []
        self._process = None

    def start(self):
        words = (self.name, [self.other], str(self.socket), self._settings)
        with (self.slurm.cluster.folder / "engine.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(CONTROLLER), *map(json.dumps, words)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONPATH": str(CONTROLLER.parents[2])},
            )
        self.lines = SimpleQueue()
        reader = threading.Thread(
            target=_pass_on, args=(self._process.stdout, self.lines), daemon=True
        )
        reader.start()
        self.expect("Reached", up=True)

    def kill(self):
        """Ends the controller with SIGKILL."""
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()

    def revive(self):
        """Starts what a failed test has left dead, and forgets its events."""
        self.unread.clear()
        if not self.slurm.has_controller:
            self.slurm.start_controller()
        if self._process.poll() is not None:
            self.start()

    def close(self):
        if self._process.poll() is None:
            self._process.stdin.close()
            assert self._process.wait(DEADLINE_S) == 0

    def order(self, order, *values):
        self._process.stdin.write(json.dumps([order, *values]) + "\n")
        self._process.stdin.flush()

    def expect(self, kind, number=None, within_s=DEADLINE_S, others=(), **fields):
        """Waits for an event, or one of ``others``, that no test has awaited yet. ``past``
        keeps all events."""

        def fits(name, event):
            return (
                name in (kind, *others)
                and number in (None, event.get("number", _of_job(event)))
                and all(event[key] == value for key, value in fields.items())
            )

        for each in self.unread:
            if fits(*each):
                self.unread.remove(each)
                return each[1]
        deadline = time.monotonic() + within_s
        while True:
            try:
                line = self.lines.get(timeout=max(0, deadline - time.monotonic()))
            except Empty:
                seen = self.past[-8:]
                raise AssertionError(f"no {kind} {number} {fields}; last: {seen}") from None
            name, event = json.loads(line)
            self.past.append((name, event))
            if fits(name, event):
                return event
            self.unread.append((name, event))

    def sbatch(self, *options, mate=True, script="date +%s.%N; sleep 1"):
        """Submits a job with a mate; returns its number."""
        comment = [f"--comment=cosched:mate={GROUP}@{self.other}"] if mate else []
        words = ["sbatch", "--parsable", "--time=5", f"--output={self.out('%j')}"]
        words += [*comment, *options, f"--wrap={script}"]
        return int(self.slurm.run(*words, user=USER))

    def save(self, job):
        save(self.slurm, job)

    def out(self, job):
        return f"{self.slurm.cluster.folder}/out/{job}"

    def times(self, job):
        """Returns when the script of a job began, each time."""
        return [float(line) for line in Path(self.out(job)).read_text().split()]

    def show(self, job):
        """Returns the fields of scontrol show job."""
        text = self.slurm.run("scontrol", "show", "job", str(job))
        return dict(field.partition("=")[::2] for field in text.split())

    def end_all(self):
        """Cancels all jobs, and waits until the nodes are idle."""
        self.slurm.try_run("scancel", "--quiet", "--partition=main")
        until(
            lambda: (
                not self.slurm.run(
                    *("squeue", "-h", "-t", "pending,running,configuring,completing")
                )
            ),
            "all jobs end",
        )


def _of_job(event):
    return event.get("job", {}).get("number")


def _pass_on(stream, lines):
    for line in stream:
        lines.put(line)


def save(slurm, job):
    """Waits until slurmctld has written its state with this job as it is. It forgets what
    it has not written when it is killed."""
    state = slurm.cluster.folder / "state" / "job_state"
    before = time.time()
    slurm.run("scontrol", "update", f"jobid={job}", "admincomment=saved")
    until(lambda: state.exists() and state.stat().st_mtime > before, "it is written")


def until(condition, what, within_s=DEADLINE_S):
    """Polls a condition of Slurm, which reports no event."""
    deadline = time.monotonic() + within_s
    while not (result := condition()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(0.1)
    return result


def make(folder, name, other, *lines, nodes=2, beside=None, **settings):
    """Starts a Slurm and its controller. lines: further ones of slurm.conf. beside: texts
    of files beside it, by name."""
    place = folder / name
    port = free_ports(nodes + 1)
    cluster = Cluster(name, place, port, folder / f"prolog.{name}", nodes, lines)
    slurm = SmallSlurm(cluster, os.environ)
    steered = Steered(slurm, other, {**QUICK, **settings})
    prolog = cluster.prolog  # slurmctld ignores one that is missing when it starts
    prolog.write_text(front_script(PYTHON, steered.socket, steered.settings))
    prolog.chmod(0o755)
    place.mkdir(mode=0o755)
    for file, text in (beside or {}).items():
        (place / file).write_text(text)
    try:
        slurm.start()
        (place / "out").mkdir()
        (place / "out").chmod(0o777)
        steered.start()
    except BaseException:
        slurm.close()
        raise
    return steered


@pytest.fixture(scope="module")
def pair():
    """Two coupled Slurms, al and be, of two nodes each."""
    folder = Path(tempfile.mkdtemp(prefix="cosched-slurms-"))
    folder.chmod(0o755)
    made = []
    try:
        for name, other in (("al", "be"), ("be", "al")):
            made.append(make(folder, name, other))
        yield made
    finally:
        for steered in made:
            steered.close()
            steered.slurm.close()
        shutil.rmtree(folder)


@pytest.fixture
def al(pair):
    """One of them, without jobs at the end."""
    pair[0].revive()
    yield pair[0]
    pair[0].revive()
    pair[0].end_all()


@pytest.fixture
def both(pair):
    for steered in pair:
        steered.revive()
    yield pair
    for steered in pair:
        steered.end_all()


@pytest.fixture
def alone():
    """Starts one Slurm with the settings of the test. scripts: texts of scripts by the
    setting of slurm.conf that names them."""
    folder = Path(tempfile.mkdtemp(prefix="cosched-slurms-"))
    folder.chmod(0o755)
    made = []

    def start(*lines, scripts=None, **settings):
        named = []
        for setting, text in (scripts or {}).items():
            script = folder / setting
            script.write_text(text)
            script.chmod(0o755)
            named.append(f"{setting}={script}")
        made.append(make(folder, "al", "be", *named, *lines, **settings))
        return made[0]

    yield start
    for steered in made:
        steered.close()
        steered.slurm.close()
    shutil.rmtree(folder)
