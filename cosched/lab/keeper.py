"""Starts keepers: processes that do nothing but hold the namespaces of a node.

``cosched lab up`` forks a keeper. The keeper makes its namespaces, reports on a pipe that
it is ready, and waits on another pipe for a confirmation. If ``lab up`` dies first, the
pipe closes and the keeper ends, so the state file names every keeper that is left. After
the confirmation it becomes a shell that reads from a pipe without a writer until SIGTERM.
The shell takes about a megabyte and no CPU time. It ignores SIGHUP and SIGINT and has a
separate session.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cosched.core.decoding import parse_integer, shown_text
from cosched.core.errors import CoschedError
from cosched.linux import namespaces
from cosched.linux.namespaces import ProcessId
from cosched.linux.proc import PID_MOST

READY_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class NodeShape:
    """The node that a keeper makes."""

    name: str  #: the node's host name
    mark: str  #: the source of the node's sysfs mount, which identifies its processes
    cpus: Sequence[int]  #: the node's CPUs by number; empty: any
    hosts: Path | None  #: the node's /etc/hosts; None: the machine's


@dataclass(slots=True)
class PendingKeeper:
    """A keeper that has made its namespaces and waits to be confirmed."""

    process: ProcessId  #: the keeper itself; pid 0 until it is ready
    _confirm: int

    def confirm(self) -> None:
        """Confirms the keeper, which then stays until SIGTERM."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._confirm, b"\n")
        self.close()

    def close(self) -> None:
        """Ends the keeper unless it was confirmed."""
        if self._confirm >= 0:
            os.close(self._confirm)
            self._confirm = -1


def start_keeper(shape: NodeShape) -> PendingKeeper:
    """Starts a keeper of such a node; returns it ready but not confirmed."""
    ready_read, ready_write = os.pipe()
    confirm_read, confirm_write = os.pipe()
    child = os.fork()
    if child == 0:
        # Forked twice, so that init reaps the keeper.
        if os.fork() == 0:
            _keep(shape, ready_write, confirm_read)
        os._exit(0)
    os.close(ready_write)
    os.close(confirm_read)
    os.waitpid(child, 0)
    pending = PendingKeeper(ProcessId(0, 0), confirm_write)
    try:
        pending.process = _wait_ready(shape.name, ready_read)
    except CoschedError:
        pending.close()
        raise
    finally:
        os.close(ready_read)
    return pending


def _wait_ready(name: str, ready: int) -> ProcessId:
    waiting = select.poll()
    waiting.register(ready, select.POLLIN)
    answer = b""
    if waiting.poll(int(READY_WITHIN_S * 1000)):
        answer = os.read(ready, 4096)
    word, _, rest = shown_text(answer).partition(" ")
    if word == "ready":
        process = ProcessId.of(parse_integer(rest, f"{name}: its keeper", 1, PID_MOST))
        if process is not None:
            return process
    raise CoschedError(f"{name}: {rest or 'its keeper did not get ready'}")


def _keep(shape: NodeShape, ready: int, confirm: int) -> None:
    """Runs as a keeper; never returns."""
    try:
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        os.chdir("/")
        _hold_only(ready, confirm)
        _make_node(shape)
        os.write(ready, f"ready {os.getpid()}".encode())
        os.close(ready)
        if os.read(confirm, 1):
            _become_shell(shape.name)
    except CoschedError as error:
        os.write(ready, f"failed {error}".encode())
    except OSError as error:
        os.write(ready, f"failed keeper: {error}".encode())
    finally:
        os._exit(1)


def _hold_only(*descriptors: int) -> None:
    """Connects the streams to /dev/null and closes all other inherited files."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    edges = [2, *sorted(descriptors), os.sysconf("SC_OPEN_MAX")]
    for below, above in itertools.pairwise(edges):
        os.closerange(below + 1, above)


def _make_node(shape: NodeShape) -> None:
    namespaces.unshare(
        namespaces.CLONE_NEWNET | namespaces.CLONE_NEWUTS | namespaces.CLONE_NEWNS
    )
    namespaces.mount_private_sysfs(shape.mark)
    if shape.hosts is not None:
        hosts = Path("/etc/hosts")
        namespaces.mount(str(shape.hosts), hosts, None, namespaces.MS_BIND)
    socket.sethostname(shape.name)
    if shape.cpus:
        os.sched_setaffinity(0, shape.cpus)


def _become_shell(name: str) -> None:
    read, write = os.pipe()
    os.dup2(read, 0)
    os.set_inheritable(write, True)
    os.execv("/bin/sh", ["sh", "-c", "read -r line", "cosched-lab-keeper", name])
