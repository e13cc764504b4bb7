"""Finds free ports on the loopback for daemons that start here.

The kernel gives connections local ports of a range of its own. A port of that range may be
free now and be taken when its daemon starts, or starts again. So these are below it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterable
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.linux import proc

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LEAST = 10_000
_TRIES = 1000


def free_address() -> str:
    """Returns ``HOST:PORT`` of a free port. Raises CoschedError."""
    return f"127.0.0.1:{free_ports(1)}"


def free_ports(count: int) -> int:
    """Returns the first of ``count`` ports in a row that are free. Raises CoschedError."""
    ports = usual_ports()
    places = len(ports) - count
    for _ in range(_TRIES if places > 0 else 0):
        chance = int.from_bytes(os.urandom(4), sys.byteorder)
        first = ports[chance % places]
        if are_free(range(first, first + count)):
            return first
    raise CoschedError(f"no {count} free ports in a row on the loopback")


def usual_ports() -> range:
    """Returns the ports that no connection takes. If there are none, returns those above
    the least, most of which connections may take."""
    end = proc.integer((proc.read_text(_RANGE) or "0").split()[0])
    return range(_LEAST, end if end > _LEAST else 2**16)


def are_free(ports: Iterable[int]) -> bool:
    """Returns whether all these ports are free on the loopback."""
    with contextlib.ExitStack() as opened:
        try:
            for port in ports:
                opened.enter_context(socket.create_server(("127.0.0.1", port)))
        except OSError:
            return False
    return True
