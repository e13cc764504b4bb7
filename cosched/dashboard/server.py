"""Serves the dashboard on the loopback address, and opens it in the user's browser."""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from cosched.core.errors import CoschedError
from cosched.linux.files.whole import PRIVATE, write_whole
from cosched.linux.peers import uid_of_peer
from cosched.linux.processes.handlers import handled, not_ignored

LOOPBACK = "127.0.0.1"
#: Connections that are open at a time; the browser makes up to six for a page.
CONNECTIONS_MOST = 24
#: Requests that are answered at a time.
THREADS = 4
#: A silent connection ends after this time.
SILENT_S = 30
#: Beside Ctrl-C: of kill, and of a terminal that closes.
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_TOKEN_BYTES = 24
_HEADER_BYTES_MOST = 16 << 10
_BODY_BYTES_MOST = 1
_OPENER = """<!doctype html>
<meta charset="utf-8"><title>cosched</title>
<meta http-equiv="refresh" content="0; url={url}">
<a href="{url}">cosched dashboard</a>
"""


class OwnConnections(socket.socket):
    """A listening socket that takes connections of this user and of root. Others could hold
    all connections, and keep the page from its user."""

    def accept(self) -> tuple[socket.socket, tuple[str, int]]:
        """Returns the next connection. Raises ConnectionRefusedError for another user's."""
        connection, peer = super().accept()
        uid = uid_of_peer(peer, connection.getsockname())
        if uid not in (None, 0, os.geteuid()):
            connection.close()
            raise ConnectionRefusedError(errno.ECONNREFUSED, "it is of another user")
        return connection, peer


def listen(port: int) -> socket.socket:
    """Returns a socket that listens at the loopback address. port: 0: any free one. Raises
    CoschedError if the port is taken."""
    try:
        with socket.create_server((LOOPBACK, port), backlog=CONNECTIONS_MOST) as made:
            return OwnConnections(fileno=made.detach())
    except OSError as error:
        if error.errno == errno.EACCES:
            line = f"port {port}: needs root; choose one above 1023, or leave out --port"
        else:
            line = f"port {port}: {error.strerror}; leave out --port for a free one"
        raise CoschedError(line) from None


def new_token() -> str:
    """Returns a token that is not to be guessed, as a part of an address."""
    return os.urandom(_TOKEN_BYTES).hex()


def serve(listening: socket.socket, application: Callable[..., Any]) -> None:
    """Serves in a thread, until the process ends."""
    # The address is printed before.
    import logging

    from waitress.server import create_server

    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # a burst is no trouble
    server = create_server(
        application,
        sockets=[listening],
        threads=THREADS,
        connection_limit=CONNECTIONS_MOST,
        channel_timeout=SILENT_S,
        cleanup_interval=SILENT_S // 3,
        max_request_header_size=_HEADER_BYTES_MOST,
        max_request_body_size=_BODY_BYTES_MOST,
        ident="cosched",
        log_socket_errors=False,  # as a refused connection
    )
    threading.Thread(target=server.run, daemon=True).start()


def can_open(environ: Mapping[str, str]) -> bool:
    """Returns whether this session has a screen on which a browser can open."""
    return bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


@contextmanager
def opened(url: str, folder: Path | None) -> Iterator[None]:
    """Opens the address in the user's browser.

    All users can read the words of a command, so the browser gets a file that only its user
    can read, and that leads to the address. folder: where the file stands during the block;
    None: nothing is opened.
    """
    if folder is None:
        yield
        return
    path = folder / f"dashboard-{os.getpid()}.html"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with handled(not_ignored(_ENDING), _end):
        write_whole(path, _OPENER.format(url=url), mode=PRIVATE)
        try:
            import webbrowser  # not for --no-open

            webbrowser.open(path.as_uri())
            yield
        finally:
            path.unlink(missing_ok=True)


def _end(number: int, _frame: FrameType | None) -> None:
    """Ends this process as the signal does, but by way of each ``finally``."""
    raise SystemExit(128 + number)
