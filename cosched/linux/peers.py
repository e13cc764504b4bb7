"""Finds the user at the other end of a TCP connection within this machine.

The kernel lists the user of each socket in /proc/net/tcp, and in /proc/net/tcp6 for sockets
of IPv6, which have connections of IPv4, too.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from cosched.core.bounds import UID_MOST
from cosched.core.decoding import parse_integer

NET = Path("/proc/net")
#: The columns of a row: the own address, the other one, and the user.
_OWN, _OTHER, _UID = 1, 2, 7


def uid_of_peer(
    peer: tuple[str, int], here: tuple[str, int], net: Path = NET
) -> int | None:
    """Returns the user of the socket at ``peer`` that is connected to ``here``; None: it is
    gone, or not of this machine. Addresses are of IPv4, with their ports."""
    own, other = _written(peer), _written(here)
    for name in ("tcp", "tcp6"):
        try:
            rows = (net / name).read_text("ascii").splitlines()[1:]
        except FileNotFoundError:  # a kernel without this protocol
            continue
        for row in rows:
            columns = row.split(maxsplit=_UID + 1)
            if columns[_OWN].endswith(own) and columns[_OTHER].endswith(other):
                return parse_integer(columns[_UID], "user", 0, UID_MOST)
    return None


def _written(address: tuple[str, int]) -> str:
    """Returns an address as the kernel writes it, with bytes in this machine's order."""
    number = int.from_bytes(socket.inet_aton(address[0]), sys.byteorder)
    return f"{number:08X}:{address[1]:04X}"
