"""Opens listening sockets at the addresses of settings."""

from __future__ import annotations

import os
import socket

from cosched.core.decoding import parse_address
from cosched.core.errors import CoschedError

_BACKLOG = 16


def listen_at(address: str, setting: str) -> socket.socket:
    """Returns a listening socket at ``HOST:PORT``; CoschedError, with the name of the
    setting, if that fails."""
    host, port = parse_address(address, setting, 0)
    host = host.removeprefix("[").removesuffix("]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error
        raise CoschedError(
            f"{setting}: cannot listen at {address} ({reason}); choose another address"
        ) from None
