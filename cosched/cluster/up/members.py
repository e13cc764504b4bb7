"""Starts one member of a domain at its place, and waits until it is ready."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cosched.cluster.member import READY
from cosched.cluster.paths import DomainPaths
from cosched.cluster.up.nodes import DomainNode
from cosched.core.errors import CoschedError
from cosched.linux.processes.background import leave_running, start_background
from cosched.start.own_command import own_command

CONTROLLER_MODULE = "cosched_daemons.controller"
AGENT_MODULE = "cosched_daemons.agent"
#: A member that starts begins a new log if the present one has more.
LOG_BYTES = 4 * 1024 * 1024


def start_controller(place: DomainNode, paths: DomainPaths, *options: str) -> StartedMember:
    """Starts the controller of a domain that is written. options: of cosched-controller."""
    words = ("--run-dir", str(paths.run_dir), *options)
    return start_member(place, CONTROLLER_MODULE, words, paths.controller_log)


def start_agent(
    place: DomainNode, paths: DomainPaths, steps: Path | None = None
) -> StartedMember:
    """Starts the agent of a node. steps: the file in which it notes the steps of starts."""
    paths.node(place.name).mkdir(mode=0o755, exist_ok=True)
    noted = () if steps is None else ("--steps", str(steps))
    words = ("--run-dir", str(paths.run_dir), "--node", place.name, *noted)
    return start_member(place, AGENT_MODULE, words, paths.agent_log(place.name))


@dataclass(slots=True)
class StartedMember:
    """A member that was started; its stdout gets one line when it is ready."""

    what: str  #: shown in errors
    process: subprocess.Popen[bytes]  #: the member, or the shell that reaches it
    log: Path  #: the path of its log

    def wait_ready(self) -> None:
        """Raises CoschedError with the last line of its log if it ends before."""
        assert self.process.stdout is not None
        if self.process.stdout.readline().strip() != READY.encode():
            self.process.wait()
            lines = self.log.read_text(errors="replace").strip().splitlines()
            raise CoschedError(f"{self.what}: {lines[-1] if lines else 'did not start'}")

    def settle(self) -> None:
        """Waits until it is ready and lets it run on. Ends it if that fails."""
        try:
            self.wait_ready()
        except BaseException:
            self.end()
            raise
        self.leave()

    def end(self) -> None:
        """Ends it and waits for its end."""
        self.process.terminate()
        self.process.wait()

    def leave(self) -> None:
        """Leaves it running without this process."""
        leave_running(self.process)


def make_room(log: Path) -> None:
    """Puts a log of more than LOG_BYTES aside, in place of the one that was before."""
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > LOG_BYTES:
            log.replace(log.with_name(f"{log.name}.1"))


def start_member(
    place: DomainNode, module: str, words: Sequence[str], log: Path
) -> StartedMember:
    """Starts a member at a place; its log gets what it writes to stderr."""
    make_room(log)
    log.touch(mode=0o644)
    with log.open("ab") as file:
        process = start_background(
            [*place.enter, *own_command(module), *words],
            stdout=subprocess.PIPE,
            stderr=file,
        )
    return StartedMember(f"{place.name}: {module.rpartition('.')[2]}", process, log)
