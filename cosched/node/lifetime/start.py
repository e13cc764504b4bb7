"""Starts a node's daemons from another process."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from cosched.core.config.kinds import OFF, SWITCH
from cosched.core.config.schema import NodeConfig
from cosched.core.errors import CoschedError, NoDaemon
from cosched.core.node.settings import Settings
from cosched.linux.processes.background import start_background
from cosched.node.lifetime.handover import (
    START_TIMEOUT_S,
    UP_ALREADY,
    Patience,
    wait_readable,
)
from cosched.node.sockets.client import request
from cosched.rundir.lock import lock_holder
from cosched.rundir.paths import NodePaths
from cosched.start.own_command import own_command

_USUAL = NodeConfig()


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """The start options of a scheduler daemon. None: the configuration decides."""

    settings: Settings  #: slice, GMET and the other settings of the schedule
    #: The name of the class scheduler, or ``auto``.
    class_scheduler: str = _USUAL.class_scheduler
    mode: str = _USUAL.mode  #: one of ``MODES``: whether others get unused time
    #: The daemon serves only this user's jobs, and ends after the last one.
    private: bool = False
    verbose: bool = False  #: the daemon logs each switch and refusal
    metrics: str = OFF  #: the address for Prometheus, ``HOST:PORT`` or ``off``
    #: The memory for all jobs together, as the user writes a size.
    memory: str | None = None
    #: The longest wait for memory, as the user writes a time.
    memory_wait: str | None = None
    allow_raise: bool | None = None  #: whether owners may run a job alone
    #: The disk space for the trace, as the user writes a size, or ``off``.
    trace: str | None = None

    def arguments(self) -> list[str]:
        """Returns the options as command-line arguments of ``coschedd``."""
        raises = None if self.allow_raise is None else SWITCH.text(self.allow_raise)
        texts = {
            **self.settings.texts(),
            "class-scheduler": self.class_scheduler,
            "mode": self.mode,
            "metrics": self.metrics,
            "memory": self.memory,
            "trace": self.trace,
            "memory-wait": self.memory_wait,
            "allow-boost": raises,
        }
        words: list[str] = []
        for name, text in texts.items():
            words += [] if text is None else [f"--{name.replace('_', '-')}", text]
        words += ["--private"] if self.private else []
        words += ["--verbose"] if self.verbose else []
        return words


def spawn(paths: NodePaths, options: NodeOptions) -> str:
    """Starts the daemons and returns their greeting; CoschedError if they cannot start."""
    read_end, write_end = os.pipe()
    command = [
        *own_command("cosched_daemons.scheduler"),
        *("--run-dir", str(paths.run_dir), "--node", paths.node),
        *("--ready-fd", str(write_end)),
        *options.arguments(),
    ]
    try:
        process = start_background(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[write_end],
        )
    finally:
        os.close(write_end)
    with os.fdopen(read_end) as ready:
        if not wait_readable(ready.fileno(), START_TIMEOUT_S):
            process.kill()
            raise CoschedError(
                f"node {paths.node}: the scheduler daemon was not ready in "
                f"{START_TIMEOUT_S:g} s; see {paths.log}"
            )
        word, _, message = ready.readline().strip().partition(" ")
    if word != "READY":
        raise CoschedError(f"node {paths.node}: " + (message or _last_words(paths)))
    return message


def _last_words(paths: NodePaths) -> str:
    """Returns the last log line of a daemon that died without a message.

    The log may be gone together with the node's directory (a lab that failed)."""
    try:
        lines = paths.log.read_text(errors="replace").split("\n")
    except OSError:
        lines = []
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"the daemon died; see {paths.log}" + (f", which ends: {last}" if last else "")


#: Starts the daemons and returns their greeting.
Start = Callable[[NodePaths, NodeOptions], str]


def start_node(paths: NodePaths, options: NodeOptions, start: Start = spawn) -> str:
    """Starts the daemons, detached; returns their one-line greeting when they are ready.

    Raises CoschedError with the daemon's message if it cannot start. If several private
    pairs start at once, one of them comes up and serves all. A private pair without jobs
    ends when daemons that are not private start.
    """
    paths.check_length()
    if options.private:
        return _start_or_join(paths, options, start)
    _wait_for_room(paths)
    return start(paths, options)


def _wait_for_room(paths: NodePaths) -> None:
    """Ends unused private daemons and waits for ending ones; CoschedError if daemons are
    up."""
    patience = Patience(paths)
    while lock_holder(paths.scheduler_lock) is not None:
        with contextlib.suppress(NoDaemon):
            answer = request(paths, "retire")
            if not answer["retired"]:
                raise CoschedError(
                    f"node {paths.node}: {UP_ALREADY} (pid {answer['pid']}); "
                    "stop them first: cosched down"
                )
        patience.await_change()


def _start_or_join(paths: NodePaths, options: NodeOptions, start: Start) -> str:
    """Starts a private pair, or joins one that another process just started."""
    patience = Patience(paths)
    while True:
        if lock_holder(paths.scheduler_lock) is None:
            try:
                return start(paths, options)
            except CoschedError as error:
                # Another pair came up first; it may have ended since.
                quicker = lock_holder(paths.scheduler_lock) is not None
                if not quicker and UP_ALREADY not in str(error):
                    raise
                continue
        with contextlib.suppress(NoDaemon):
            pid = request(paths, "status")["pid"]
            return f"node {paths.node}: {UP_ALREADY} (pid {pid})"
        patience.await_change()
