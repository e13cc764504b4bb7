"""Starts the agents of an allocation by srun, as one job step, and the controller here.

Each task of the step writes one line to srun, which puts the task's number in front. READY:
its agent listens. ABSENT: its node does not see the run directory. FAILED: a reason
follows. The tasks are numbered as the nodes. The controller ends with srun, so the domain
ends with the step. Slurm may not end what has left the tree of the batch script.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cosched.cluster.member import READY
from cosched.cluster.paths import DomainPaths
from cosched.cluster.slurm.allocation import Allocation
from cosched.cluster.up.domain import WITHIN_S, wait_joined
from cosched.cluster.up.members import CONTROLLER_MODULE, start_member
from cosched.cluster.up.nodes import DomainNode
from cosched.core.cluster.growth import Bounds
from cosched.core.decoding import is_whole, parse_integer, shown_text
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.linux.files.whole import write_whole
from cosched.linux.processes.background import leave_running
from cosched.linux.processes.signals import send_to_child
from cosched.start.own_command import own_command

STEP_MODULE = "cosched_daemons.stepagent"
GROWING_MODULE = "cosched_daemons.slurmnodes"
#: Variables of a batch script by which srun may give the step fewer CPUs than the job has.
#: No option says that they are not set. Slurm 22.05 reads the first two so.
_FEWER_CPUS = (
    *("SRUN_CPUS_PER_TASK", "SLURM_EXACT"),
    *("SLURM_CPUS_PER_TASK", "SLURM_HINT", "SLURM_THREADS_PER_CORE"),
)
ABSENT = "absent"
FAILED = "failed"
_READ_BYTES = 1 << 16


def allocation_places(allocation: Allocation, port: int) -> tuple[DomainNode, ...]:
    """Returns the nodes of the allocation; srun reaches them."""
    return tuple(DomainNode(name, f"{name}:{port}") for name in allocation.nodes)


def mark_path(paths: DomainPaths) -> Path:
    """Returns the file by which the nodes recognise the run directory."""
    return paths.directory / "step.mark"


def log_path(paths: DomainPaths) -> Path:
    """Returns the file of srun's messages."""
    return paths.directory / "step.log"


def step_words(
    srun: str, allocation: Allocation, paths: DomainPaths, mark: str
) -> list[str]:
    """Returns the command that starts one agent on each node.

    The step overlaps with the job's other steps and has all CPUs and memory of the job.
    Options are given where Slurm would take them from the environment of the batch script.
    """
    count = len(allocation.nodes)
    return [
        srun,
        *(f"--jobid={allocation.job}", f"--nodes={count}", f"--ntasks={count}"),
        *("--ntasks-per-node=1", "--distribution=block", "--overlap", "--mem=0"),
        *("--cpu-bind=none", "--mpi=none", "--export=ALL", "--input=none"),
        *("--kill-on-bad-exit=0", "--no-kill", "--wait=0"),
        *("--label", "--chdir=/", "--job-name=cosched-agents"),
        *("--", *own_command(STEP_MODULE)),
        *("--run-dir", str(paths.run_dir), "--mark", mark),
    ]


def step_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of srun, in which the step has all CPUs of the job."""
    return {name: each for name, each in environ.items() if name not in _FEWER_CPUS}


def start_in_allocation(
    paths: DomainPaths, allocation: Allocation, environ: Mapping[str, str]
) -> None:
    """Starts the step and the controller of a domain that is written, and waits until all
    nodes have joined. Ends what it has started if one fails."""
    for name in allocation.nodes:
        paths.node(name).mkdir(mode=0o755, exist_ok=True)
    with contextlib.ExitStack() as started:
        step = _start_step(paths, allocation, environ)
        started.callback(step.end)
        controller = start_member(
            DomainNode(allocation.here, ""),
            CONTROLLER_MODULE,
            ["--run-dir", str(paths.run_dir), "--with", str(step.process.pid)],
            paths.controller_log,
        )
        started.callback(controller.end)
        controller.wait_ready()
        step.wait_ready()
        wait_joined(paths, allocation.nodes)
        started.pop_all()
    step.leave()
    controller.leave()


def start_growing(
    paths: DomainPaths,
    allocation: Allocation,
    bounds: Bounds,
    sbatch: str,
    environ: Mapping[str, str],
) -> None:
    """Starts the process that asks Slurm for more nodes and gives them back. sbatch:
    further words for that command."""
    cpus = parse_integer(environ.get("SLURM_CPUS_ON_NODE", "1"), "CPUs", 1, 1 << 20)
    words = ["--run-dir", str(paths.run_dir), "--base", str(allocation.job)]
    words += ["--least", str(bounds.least), "--most", str(bounds.most)]
    words += ["--idle", str(bounds.idle_ns / NS_PER_S), "--cpus", str(cpus)]
    kept = allocation.here if allocation.here in allocation.nodes else allocation.nodes[0]
    words += [f"--sbatch={sbatch}", "--kept", kept]
    here = DomainNode(allocation.here, "")
    start_member(here, GROWING_MODULE, words, paths.directory / "slurmnodes.log").settle()


def _start_step(
    paths: DomainPaths, allocation: Allocation, environ: Mapping[str, str]
) -> Step:
    srun = shutil.which("srun", path=environ.get("PATH"))
    if srun is None:
        raise CoschedError(
            f"srun not found in job {allocation.job} of Slurm; add Slurm's commands to"
            " PATH, or name the nodes with --hosts"
        )
    mark = secrets.token_hex(8)
    write_whole(mark_path(paths), mark)
    with log_path(paths).open("wb") as log:
        process = subprocess.Popen(
            step_words(srun, allocation, paths, mark),
            env=step_environment(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )
    return Step(process, allocation.nodes, paths)


@dataclass(slots=True)
class Step:
    """A step that was started."""

    process: subprocess.Popen[bytes]  #: srun
    nodes: tuple[str, ...]  #: by the numbers of its tasks
    paths: DomainPaths  #: the paths of the private domain
    _missing: set[str] = field(default_factory=set)

    def wait_ready(self, within_s: float = WITHIN_S) -> None:
        """Raises CoschedError if an agent fails, the step ends or the time is over."""
        self._missing = set(self.nodes)
        deadline = time.monotonic() + within_s
        rest = b""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while self._missing:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise CoschedError(self._problem(f"within {within_s:g} s"))
                data = os.read(self.process.stdout.fileno(), _READ_BYTES)
                if not data:
                    raise CoschedError(self._problem("before the step ended"))
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._take(shown_text(line))

    def _take(self, line: str) -> None:
        number, _, text = line.strip().partition(": ")
        last = len(self.nodes) - 1
        if not is_whole(number, most=last):
            return  # of Slurm itself
        node = self.nodes[parse_integer(number, "a node of the step", 0, last)]
        what, _, reason = text.partition(" ")
        if what == READY:
            self._missing.discard(node)
        elif what == ABSENT:
            raise CoschedError(
                f"{node} does not see {self.paths.run_dir} of this node; name a directory"
                " that all nodes share: export COSCHED_RUN_DIR=$HOME/.cosched/$SLURM_JOB_ID"
            )
        elif what == FAILED:
            raise CoschedError(f"{node}: agent: {reason}")

    def _problem(self, when: str) -> str:
        """Returns one line about the nodes that are not ready."""
        missing = [name for name in self.nodes if name in self._missing]
        names = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        log = log_path(self.paths)
        lines = log.read_text(errors="replace").strip().splitlines()
        errors = [line for line in lines if "error" in line] or lines
        said = f"; {errors[-1]}" if errors else ""
        count = f"{len(missing)} of {len(self.nodes)} nodes"
        return f"{count} did not answer {when}: {names}{said} (log: {log})"

    def end(self) -> None:
        """Ends the step; srun forwards the end to its tasks."""
        send_to_child(self.process, signal.SIGTERM)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def leave(self) -> None:
        """Leaves it running without this process."""
        leave_running(self.process)
