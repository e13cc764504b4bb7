"""Finds free ports on the loopback for daemons that start here.

The kernel gives connections local ports of a range of its own. A port of that range may be
free now and be taken when its daemon starts, or starts again. So these are below it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from pathlib import Path

from cosched.core.errors import CoschedError

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LEAST = 10_000
_TRIES = 1000


def free_address() -> str:
    """Returns ``HOST:PORT`` of a free port. Raises CoschedError."""
    return f"127.0.0.1:{free_ports(1)}"


def free_ports(count: int) -> int:
    """Returns the first of ``count`` ports in a row that are free. Raises CoschedError."""
    end = int(_RANGE.read_text().split()[0]) - count
    if end <= _LEAST:  # connections may take nearly all ports here
        end = 2**16 - count
    for _ in range(_TRIES):
        chance = int.from_bytes(os.urandom(4), sys.byteorder)
        first = _LEAST + chance % (end - _LEAST)
        if _are_free(first, count):
            return first
    raise CoschedError(f"no {count} free ports in a row on the loopback")


def _are_free(first: int, count: int) -> bool:
    with contextlib.ExitStack() as opened:
        try:
            for port in range(first, first + count):
                opened.enter_context(socket.create_server(("127.0.0.1", port)))
        except OSError:
            return False
    return True
