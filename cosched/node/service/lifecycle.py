"""Starts and stops a node's daemons from another process."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

from cosched.core.errors import CoschedError, NoDaemon
from cosched.core.node.messages import Mode
from cosched.core.node.settings import Settings
from cosched.linux.classes import NAMES
from cosched.linux.pidfd import open_pidfd, send_signal
from cosched.linux.probe import attach
from cosched.node.service.lock import DaemonLock, hold_daemon, lock_holder, locked
from cosched.node.service.remains import remove_remains
from cosched.node.sockets.client import ControlClient, request
from cosched.node.tasks.left import find_left, left_regions
from cosched.shm.paths import NodePaths

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 10.0
AWAIT_S = 0.02
_UP_ALREADY = "its daemons are up already"


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """The start options of a scheduler daemon."""

    settings: Settings
    class_scheduler: str = "auto"
    mode: str = "proportional"
    private: bool = False
    verbose: bool = False
    metrics: str = "off"
    memory: str | None = None
    memory_wait: str | None = None
    allow_raise: bool | None = None
    trace: str | None = None

    def arguments(self) -> list[str]:
        """Returns the options as command-line arguments of ``coschedd``."""
        words: list[str] = []
        for name, text in self.settings.texts().items():
            words += [f"--{name}", text]
        words += [
            "--class-scheduler",
            self.class_scheduler,
            "--mode",
            self.mode,
            "--metrics",
            self.metrics,
        ]
        if self.memory is not None:
            words += ["--memory", self.memory]
        if self.trace is not None:
            words += ["--trace", self.trace]
        if self.memory_wait is not None:
            words += ["--memory-wait", self.memory_wait]
        if self.allow_raise is not None:
            words += ["--allow-boost", "on" if self.allow_raise else "off"]
        words += ["--private"] if self.private else []
        words += ["--verbose"] if self.verbose else []
        return words


def start_node(paths: NodePaths, options: NodeOptions) -> str:
    """Starts the daemons, detached; returns their one-line greeting when they are ready.

    Raises CoschedError with the daemon's message if it cannot start. If several private
    pairs start at once, one of them comes up and serves all. A private pair without jobs
    ends when daemons that are not private start.
    """
    paths.check_length()
    if options.private:
        return _start_or_join(paths, options)
    _wait_for_room(paths)
    return _spawn(paths, options)


def _wait_for_room(paths: NodePaths) -> None:
    """Ends unused private daemons and waits for ending ones; CoschedError if daemons are
    up."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while lock_holder(paths.scheduler_lock) is not None:
        with contextlib.suppress(NoDaemon):
            answer = request(paths, "retire")
            if not answer["retired"]:
                raise CoschedError(
                    f"node {paths.node}: {_UP_ALREADY} (pid {answer['pid']}); "
                    "stop them first: cosched down"
                )
        _await_change(paths, deadline)


def _start_or_join(paths: NodePaths, options: NodeOptions) -> str:
    """Starts a private pair, or joins one that another process just started."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        if lock_holder(paths.scheduler_lock) is None:
            try:
                return _spawn(paths, options)
            except CoschedError as error:
                # Another pair came up first; it may have ended since.
                quicker = lock_holder(paths.scheduler_lock) is not None
                if not quicker and _UP_ALREADY not in str(error):
                    raise
                continue
        with contextlib.suppress(NoDaemon):
            pid = request(paths, "status")["pid"]
            return f"node {paths.node}: {_UP_ALREADY} (pid {pid})"
        _await_change(paths, deadline)


def _await_change(paths: NodePaths, deadline: float) -> None:
    """Waits for a moment, or for the end of the daemon that holds the lock.

    CoschedError after ``deadline``."""
    daemon = hold_daemon(paths.scheduler_lock)
    try:
        if time.monotonic() > deadline:
            raise CoschedError(
                f"node {paths.node}: the scheduler daemon (pid "
                f"{lock_holder(paths.scheduler_lock)}) neither answered nor ended in "
                f"{START_TIMEOUT_S:g} s; see {paths.log}"
            )
        select.select([] if daemon is None else [daemon], [], [], AWAIT_S)
    finally:
        if daemon is not None:
            os.close(daemon)


def _spawn(paths: NodePaths, options: NodeOptions) -> str:
    read_end, write_end = os.pipe()
    command = [
        sys.executable,
        "-m",
        "cosched_daemons.scheduler",
        "--run-dir",
        str(paths.run_dir),
        "--node",
        paths.node,
        "--ready-fd",
        str(write_end),
        *options.arguments(),
    ]
    try:
        process = subprocess.Popen(
            command,
            pass_fds=[write_end],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            # A module in the current directory must not replace one of cosched.
            cwd="/",
        )
    finally:
        os.close(write_end)
    with os.fdopen(read_end) as ready:
        if not select.select([ready], [], [], START_TIMEOUT_S)[0]:
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


def stop_node(paths: NodePaths) -> bool:
    """Stops the daemons and waits for their end; returns False if none was up.

    It also removes the files of killed daemons, except while a daemon holds the node's
    lock: that daemon is starting or ending.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    waited = False
    while not _end_daemons(paths):
        if not paths.directory.exists():
            return waited
        with locked(paths.scheduler_lock) as mine:
            if mine:
                return _clean_dead_node(paths) or waited
        waited = True
        _await_change(paths, deadline)
    return True


def _end_daemons(paths: NodePaths) -> bool:
    """Ends the daemons and waits for them; returns False if none answers."""
    with contextlib.ExitStack() as held:
        try:
            with ControlClient(paths) as client:
                daemon = open_pidfd(int(client.request("status")["pid"]))
                if daemon is not None:
                    held.callback(os.close, daemon)
                # It still answers, so the descriptor is the right one.
                client.request("down")
        except NoDaemon:
            return False
        if daemon is not None:
            _await_end(daemon, f"node {paths.node}: the scheduler daemon")
        return True


def lock_node(paths: NodePaths) -> DaemonLock:
    """Takes the lock of the node's scheduler daemon; CoschedError if daemons are up.

    It waits for a daemon or a guardian that is about to end."""
    lock = DaemonLock(paths.scheduler_lock)
    deadline = time.monotonic() + START_TIMEOUT_S
    while not lock.acquire():
        with contextlib.suppress(NoDaemon):
            pid = request(paths, "status")["pid"]
            raise CoschedError(f"{_UP_ALREADY} (pid {pid})")
        _await_change(paths, deadline)
    return lock


def end_orphans(paths: NodePaths) -> None:
    """Ends the child processes of a dead scheduler daemon."""
    for lock, what in (
        (paths.timer_lock, "timer daemon"),
        (paths.metrics_lock, "metrics server"),
    ):
        daemon = hold_daemon(lock)
        if daemon is None:
            continue
        try:
            send_signal(daemon, signal.SIGTERM)
            _await_end(daemon, f"node {paths.node}: the old {what}")
        finally:
            os.close(daemon)


def free_jobs(paths: NodePaths) -> bool:
    """Gives the jobs of killed daemons normal shares; returns False if there are none.

    Later daemons can take these jobs over. CoschedError if daemons are up."""
    holder = lock_holder(paths.scheduler_lock)
    if holder is not None:
        raise CoschedError(f"node {paths.node}: its daemons are up (pid {holder})")
    if not left_regions(paths):
        return False
    # A live guardian does the same. A daemon with the lock takes the jobs over.
    if lock_holder(paths.timer_lock) is None:
        with locked(paths.scheduler_lock) as mine:
            if mine:
                _restore_shares(paths, keep=True)
    return True


def _clean_dead_node(paths: NodePaths) -> bool:
    """Cleans up after killed daemons; returns False if they left nothing.

    The caller holds their lock."""
    left = (
        lock_holder(paths.timer_lock) is not None
        or bool(left_regions(paths))
        or paths.control_socket.exists()
    )
    end_orphans(paths)
    _restore_shares(paths, keep=False)
    remove_remains(paths)
    return left


def _restore_shares(paths: NodePaths, *, keep: bool) -> None:
    """Wakes every task and gives every class the kernel's normal shares.

    ``keep``: the classes stay for a daemon that takes their jobs over."""
    pids, suspended = _release_tasks(paths)
    # The last step runs first; a failed step does not skip the others.
    with contextlib.ExitStack() as steps:
        for name in reversed(NAMES):
            try:
                classes = attach(paths.tag, name)
            except CoschedError:
                continue  # this machine has no such classes, so none are left
            if not keep:
                steps.callback(classes.close)
            for key in suspended:
                steps.callback(classes.thaw, key)
            steps.callback(classes.restore, pids)


def _release_tasks(paths: NodePaths) -> tuple[dict[str, dict[int, int]], list[str]]:
    """Marks running tasks as scheduled.

    Returns their pids and start times by job, and the suspended jobs."""
    found: dict[str, dict[int, int]] = {}
    suspended: list[str] = []
    for job in find_left(paths)[0]:
        found[job.key] = job.starts
        if job.region.mode is Mode.SUSPENDED:
            suspended.append(job.key)
        for task in job.tasks.values():
            os.close(task.pidfd)
        job.region.let_run_freely()
        job.region.close()
    return found, suspended


def _await_end(daemon: int, what: str) -> None:
    if not select.select([daemon], [], [], STOP_TIMEOUT_S)[0]:
        raise CoschedError(f"{what} did not end in {STOP_TIMEOUT_S:g} s")
