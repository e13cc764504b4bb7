"""Spawns a node's daemons, or joins those that another process just spawned.

cosched-run does so while a user waits. So this imports no more than it needs: the daemon
reads the configuration by itself.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Sequence

from cosched.core.errors import CoschedError, NoDaemon
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

PRIVATE = "--private"
#: Starts the daemons with options; returns their greeting.
Start = Callable[[NodePaths, Sequence[str]], str]


def spawn(paths: NodePaths, words: Sequence[str]) -> str:
    """Starts the daemons and returns their greeting; CoschedError if they cannot start.

    words: options of ``coschedd``."""
    read_end, write_end = os.pipe()
    command = [
        *own_command("cosched_daemons.scheduler"),
        *("--run-dir", str(paths.run_dir), "--node", paths.node),
        *("--ready-fd", str(write_end)),
        *words,
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
    return read_greeting(paths, read_end, process.kill)


def read_greeting(paths: NodePaths, ready_fd: int, kill: Callable[[], None]) -> str:
    """Returns the greeting of daemons that start; CoschedError if they cannot start.

    ready_fd: the other end of their ``--ready-fd``, which is closed. kill: ends a scheduler
    daemon that is not ready in time."""
    with os.fdopen(ready_fd) as ready:
        if not wait_readable(ready.fileno(), START_TIMEOUT_S):
            kill()
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


def start_or_join(paths: NodePaths, words: Sequence[str], start: Start = spawn) -> str:
    """Starts a private pair, or joins one that another process just started."""
    patience = Patience(paths)
    while True:
        if lock_holder(paths.scheduler_lock) is None:
            try:
                return start(paths, words)
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
