"""Sends requests to a node's scheduler daemon over its control socket."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from cosched.core.errors import CoschedError, NoDaemon
from cosched.shm.paths import NodePaths

TIMEOUT_S = 10.0


class ControlClient:
    """One connection to one daemon; a context manager."""

    def __init__(self, paths: NodePaths, timeout_s: float = TIMEOUT_S) -> None:
        self.node = paths.node
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(str(paths.control_socket))
        except PermissionError:
            self._socket.close()
            raise CoschedError(
                f"node {paths.node}: its daemon belongs to another user"
            ) from None
        except OSError:
            self._socket.close()
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
            line = self._reader.readline()
        except ConnectionError:
            line = b""
        except OSError as error:
            raise CoschedError(
                f"node {self.node}: the daemon does not answer: {error}"
            ) from None
        if not line.endswith(b"\n"):
            raise NoDaemon(
                f"node {self.node}: the daemon ended before it answered; try again"
            )
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise CoschedError(f"node {self.node}: {answer['error']}")
        return answer


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


def nodes_in(run_dir: Path) -> list[NodePaths]:
    """Returns the nodes with a control socket in a run directory, live or not."""
    return [
        NodePaths(run_dir, path.parent.name)
        for path in sorted(run_dir.glob("*/control.sock"))
    ]
