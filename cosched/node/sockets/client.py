"""Sends requests to a node's scheduler daemon over its control socket."""

from __future__ import annotations

import json
import select
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

from cosched.core.decoding import Malformed, decode_line
from cosched.core.errors import CoschedError, NoDaemon
from cosched.rundir.directories import is_public
from cosched.rundir.paths import NodePaths

TIMEOUT_S = 10.0
#: A client that waits longer for an answer reports it.
SLOW_S = 2.0
T = TypeVar("T")


class ControlClient:
    """One connection to one daemon; a context manager."""

    def __init__(self, paths: NodePaths, timeout_s: float = TIMEOUT_S) -> None:
        self.node = paths.node
        self._timeout_s = timeout_s
        self._log = paths.log
        try:
            self._socket = connect(paths.control_socket, timeout_s)
        except PermissionError:
            raise CoschedError(_why_refused(paths)) from None
        except BlockingIOError:
            raise CoschedError(
                f"node {paths.node}: the daemon does not answer: it has accepted no "
                f"connection for {timeout_s:g} s; try again later"
            ) from None
        except OSError:
            raise NoDaemon(
                f"node {paths.node}: no scheduler daemon is up; start it: cosched up"
            ) from None
        self._reader = self._socket.makefile("rb")

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._reader.close()
        self._socket.close()

    def request(self, op: str, **arguments: Any) -> dict[str, Any]:
        """Returns the daemon's answer.

        Raises CoschedError with an ``error`` in the answer, and NoDaemon if the daemon ends
        before it answers."""
        try:
            self._socket.sendall(json.dumps({"op": op, **arguments}).encode() + b"\n")
            self._wait_for_answer()
            line = self._reader.readline()
        except ConnectionError:
            line = b""
        except TimeoutError:
            raise CoschedError(
                f"node {self.node}: the daemon did not answer in time; try again, and if "
                f"it hangs look at {self._log}, then use kill -9"
            ) from None
        except OSError as error:
            raise CoschedError(
                f"node {self.node}: the daemon does not answer: {error}"
            ) from None
        if not line.endswith(b"\n"):
            raise NoDaemon(
                f"node {self.node}: the daemon ended before it answered; try again"
            )
        answer = decode_line(line, "an answer of a daemon")
        if not isinstance(answer, dict):
            raise Malformed("not an answer of a daemon: not an object")
        if "error" in answer:
            raise CoschedError(f"node {self.node}: {answer['error']}")
        return answer

    def _wait_for_answer(self) -> None:
        """Waits until an answer begins; reports that it is slow. Raises TimeoutError."""
        soon_s = min(SLOW_S, self._timeout_s)
        if not self._is_answered(soon_s):
            _report_slow(self.node)
            if not self._is_answered(self._timeout_s - soon_s):
                raise TimeoutError

    def _is_answered(self, within_s: float) -> bool:
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        return bool(waiting.poll(within_s * 1000))


def _report_slow(node: str) -> None:
    import logging  # most daemons answer soon

    logging.getLogger(__name__).warning(
        "node %s: the daemon has not answered yet; waiting for it", node
    )


def connect(path: Path, timeout_s: float) -> socket.socket:
    """Returns a connection to a Unix socket, with this timeout for later calls too.

    It waits while many other clients wait to be accepted. Raises BlockingIOError if that
    takes too long, and other OSErrors at once."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A timeout of Python would make the socket non-blocking: then connect() fails at
        # once if too many clients wait.
        limit = struct.pack("@ll", *divmod(round(timeout_s * 1e6), 1_000_000))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        connection.connect(str(path))
        connection.settimeout(timeout_s)
    except BaseException:
        connection.close()
        raise
    return connection


def _why_refused(paths: NodePaths) -> str:
    if is_public(paths.control_socket):
        return (
            f"node {paths.node}: its daemon refuses your connections for a moment, because "
            "you have made too many; try again later"
        )
    return f"node {paths.node}: its daemon belongs to another user"


def find_daemon(paths: NodePaths) -> ControlClient | None:
    """Returns a connection to a node's daemon; None if none is up."""
    try:
        return ControlClient(paths)
    except NoDaemon:
        return None


def request(paths: NodePaths, op: str, **arguments: Any) -> dict[str, Any]:
    """Makes one request on a new connection; returns the answer."""
    with ControlClient(paths) as client:
        return client.request(op, **arguments)


class HeldChanges(ExitStack):
    """Changes of nodes that last until this context closes, or until this process ends."""

    def hold(self, paths: NodePaths, op: str, **arguments: Any) -> dict[str, Any]:
        """Makes a change (``borrow``, ``forget``) on one node; returns the answer."""
        client = self.enter_context(ControlClient(paths))
        answer = client.request(op, **arguments)
        self.callback(_give_back, client)
        return answer


def _give_back(client: ControlClient) -> None:
    with suppress(NoDaemon):  # the changes ended with the daemon
        client.request("give_back")


def ask_each(
    run_dir: Path, nodes: Sequence[str], ask: Callable[[NodePaths], T]
) -> Iterator[tuple[str, T]]:
    """Yields each of these nodes with the answer that ``ask`` gets from it; without nodes,
    each one that is up in the run directory. Raises NoDaemon for a named node that is not
    up."""
    here = sorted(path.parent.name for path in run_dir.glob("*/control.sock"))
    for name in nodes or here:
        paths = NodePaths(run_dir, name)
        try:
            yield name, ask(paths)
        except NoDaemon:  # without names: the socket of a daemon that was killed
            if here and not paths.directory.exists():
                raise NoDaemon(
                    f"node {name}: not found in {run_dir}, which has {', '.join(here)}"
                ) from None
            if nodes:
                raise
