"""Records the golden traces with live daemons: python -m tests.golden.record (as root).

The traces hold the machine's decisions: tests/unit/core/test_trace.py replays their events
and expects the same commands. Record them again only after a decision was changed on
purpose, and name the change in the commit.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from cosched.core.trace.codec import Header, decode, encode
from cosched.node.sockets.client import request
from tests.live.conftest import LiveNode, eventually

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def killed_task(node: LiveNode) -> None:
    """Two jobs of two tasks take turns; a task is killed, the other job's tasks leave."""
    node.up(slice="50ms", gmet="10ms")
    tasks = [node.task(job, rank) for rank in (0, 1) for job in "ab"]
    for task in tasks:
        eventually(lambda t=task: t.scheduled, "its turn")
    tasks[0].kill()
    eventually(lambda: len(node.job("a")["tasks"]) == 1, "the killed task's CMDOUT")
    for task in (tasks[1], tasks[3]):
        task.ask("leave")
    eventually(lambda: node.job("b") is None, "the end of b")


def settings_changed(node: LiveNode) -> None:
    """From aligned to free-running slices of another length, while three jobs run."""
    node.up(slice="100ms", align="on")
    tasks = [node.task(job) for job in "abc"]
    for change in ({"slice": "30ms"}, {"align": "off"}, {"gmet": "20ms"}):
        for task in tasks:
            eventually(lambda t=task: t.scheduled, "its turn")
        request(node.paths, "set", settings=change)


def refused_gmet(node: LiveNode) -> None:
    """A message comes too early, the job may ask again, and a message pulls: first for the
    job that was submitted later, which waits longer, then for the other job."""
    node.up(slice="10s", gmet="100ms")
    tasks = {job: node.task(job) for job in "ab"}

    def pulled(job: str) -> bool:
        tasks[job].ask("arrive 1")
        return bool(tasks[job].scheduled)

    for job, reason in (("b", "preceded"), ("a", "gmet")):
        eventually(
            lambda j=job, r=reason: pulled(j) or node.job(j)["refused"].get(r),
            "the refusal",
        )
        assert node.job(job)["refused"].get(reason), f"{job} was not refused"
        eventually(lambda j=job: pulled(j), "the switch")


def paper(node: LiveNode) -> None:
    """The paper's rules: a request within GMET is discarded, the next message may pull, and
    the timer gives the CPU to the job that has received least."""
    node.up(slice="400ms", gmet="150ms", order="paper")
    tasks = {job: node.task(job) for job in "abc"}

    def pulled(job: str) -> bool:
        tasks[job].ask("arrive 1")
        return bool(tasks[job].scheduled)

    for job in "cbab":
        eventually(lambda j=job: not tasks[j].scheduled, "another job's turn")
        eventually(lambda j=job: pulled(j), "the switch")


def side_by_side(node: LiveNode) -> None:
    """Jobs that fit side by side on two CPUs, and a third job that needs both."""
    node.up(slice="50ms")
    tasks = [node.task("a", 0, 0), node.task("b", 0, 1)]
    tasks += [node.task("c", rank, rank) for rank in (0, 1)]
    for task in tasks:
        eventually(lambda t=task: t.scheduled, "its turn")
    request(node.paths, "turn", job=f"{os.geteuid()}.b")
    tasks[1].ask("leave")
    eventually(lambda: node.job("b") is None, "the end of b")


def owners(node: LiveNode) -> None:
    """The modes that owners may choose: suspended, released, raised, and back."""
    node.up(slice="50ms", gmet="1ms")
    tasks = {job: node.task(job) for job in "abc"}
    for op in ("suspend", "resume", "release", "resume"):
        request(node.paths, op, job="b")
        for job in "ac" if op in ("suspend", "release") else "abc":
            eventually(lambda j=job: tasks[j].scheduled, "its turn")
    request(node.paths, "raise", job="b")
    tasks["c"].ask("arrive 1")
    eventually(lambda: node.job("c")["refused"].get("barred"), "the refusal")


def wavefronts(node: LiveNode) -> None:
    """A pair of real MPI jobs that exchange many small messages."""
    node.up(slice="200ms", gmet="20ms", align="off")
    scripts = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "wavefront"
        source = ROOT / "benchmarks/programs/wavefront.c"
        compiler = [str(scripts / "mpicc"), "-O2", str(source), "-lm", "-o", str(program)]
        subprocess.run(compiler, check=True)
        common = ["--run-dir", str(node.paths.run_dir), "--carrier", "prefix", "-n", "2"]
        jobs = [
            subprocess.Popen(
                [
                    *("taskset", "-c", "0", str(scripts / "cosched-run"), *common),
                    *("--job", name, str(program), "-i", "60"),
                ],
                stdout=subprocess.DEVNULL,
            )
            for name in ("north", "south")
        ]
        for job in jobs:
            if job.wait() != 0:
                raise SystemExit(f"a job ended with status {job.returncode}")


def record(scenario: Callable[[LiveNode], None]) -> None:
    """Runs one scenario under new daemons and keeps their trace."""
    with tempfile.TemporaryDirectory(prefix="cosched-g-") as folder:
        node = LiveNode(Path(folder), os.uname().nodename)
        try:
            scenario(node)
            node.down()
            lines = (node.paths.directory / "trace.jsonl").read_bytes().splitlines()
        finally:
            node.close()
    header, *rest = lines
    first = decode(header)
    assert isinstance(first, Header)
    named = replace(first, node="node1")
    path = HERE / f"{scenario.__name__}.jsonl"
    path.write_bytes(encode([named]) + b"".join(line + b"\n" for line in rest))
    print(f"{path.name}: {len(rest)} lines, {path.stat().st_size} bytes")


SCENARIOS = {
    scenario.__name__: scenario
    for scenario in (
        killed_task,
        settings_changed,
        refused_gmet,
        paper,
        side_by_side,
        owners,
        wavefronts,
    )
}

if __name__ == "__main__":
    for name in sys.argv[1:] or SCENARIOS:
        record(SCENARIOS[name])
