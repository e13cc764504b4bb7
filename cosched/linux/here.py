"""Decides whether a name or an address of a host means this machine.

A machine has several names: its host name in any case, with and without its domain, and
each name that resolves to one of its addresses. Launchers and batch systems use any of
them.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

    Address = IPv4Address | IPv6Address
    Resolve = Callable[[str], Iterable[Address]]

#: The longest wait for the resolver. A name server that does not answer takes longer.
RESOLVE_S = 2.0
_LOOPBACK = frozenset(("localhost", "localhost.localdomain", "ip6-localhost"))


class Here:
    """The identity of one machine.

    hostname: as uname(2) has it. addresses: returns those of its interfaces. resolve:
    returns the addresses of a name; none if it is not known, or not in time.
    """

    def __init__(
        self, hostname: str, addresses: Callable[[], Iterable[Address]], resolve: Resolve
    ) -> None:
        self._name = _folded(hostname)
        self._addresses = cache(lambda: frozenset(addresses()))
        self._resolve = cache(lambda name: tuple(resolve(name)))

    def is_meant_by(self, host: str) -> bool:
        """Whether ``host``, a name or an address, means this machine."""
        if self.is_named_by(host):
            return True
        if parse_address(host) is not None or not host.strip():
            return False
        return any(map(self._has, self._resolve(_folded(host))))

    def are_all_meant_by(self, hosts: Iterable[str]) -> bool:
        """Whether each of ``hosts`` means this machine."""
        return all(map(self.is_meant_by, hosts))

    def is_one_meant_by(self, hosts: Sequence[str]) -> bool:
        """Whether one of ``hosts`` means this machine. It resolves names only if none of
        them shows that."""
        return any(map(self.is_named_by, hosts)) or any(map(self.is_meant_by, hosts))

    def is_named_by(self, host: str) -> bool:
        """Whether ``host`` means this machine as far as that shows without the resolver."""
        address = parse_address(host)
        if address is not None:
            return self._has(address)
        name = _folded(host)
        if name.endswith(".localhost"):
            return True
        return name in {self._name, self._name.partition(".")[0], *_LOOPBACK} - {""}

    def _has(self, address: Address) -> bool:
        return address.is_loopback or address in self._addresses()


def this_node(environ: Mapping[str, str]) -> str:
    """Returns this node's name, the same as the tasks find."""
    return environ.get("COSCHED_NODE") or os.uname().nodename


def this_machine() -> Here:
    """Returns the machine on which this process runs."""
    return Here(os.uname().nodename, interface_addresses, Resolver(getaddrinfo))


def parse_address(text: str) -> Address | None:
    """Returns the address that ``text`` is, perhaps with brackets or a zone; otherwise
    None."""
    import ipaddress  # most jobs name no hosts

    try:
        found = ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def interface_addresses() -> frozenset[Address]:
    """Returns the addresses of this machine's network interfaces."""
    import psutil

    texts = (entry.address for each in psutil.net_if_addrs().values() for entry in each)
    return frozenset(filter(None, map(parse_address, texts)))


def getaddrinfo(name: str) -> tuple[Address, ...]:
    """Returns the addresses of a name as this machine resolves it; none if it has none."""
    try:
        answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(filter(None, (parse_address(str(entry[4][0])) for entry in answers)))


class Resolver:
    """Asks for addresses of names, and waits ``within_s`` for all answers together."""

    def __init__(self, ask: Resolve, within_s: float = RESOLVE_S) -> None:
        self._ask = ask
        self._left_s = within_s

    def __call__(self, name: str) -> tuple[Address, ...]:
        """Returns the addresses of a name; none if they do not come in time."""
        if self._left_s <= 0:
            return ()
        import threading

        found: list[Address] = []
        # A daemon thread: the resolver cannot be interrupted, and the process may end
        # before it.
        thread = threading.Thread(target=lambda: found.extend(self._ask(name)), daemon=True)
        began = time.monotonic()
        thread.start()
        thread.join(self._left_s)
        self._left_s -= time.monotonic() - began
        return tuple(found)


def _folded(name: str) -> str:
    return name.strip().rstrip(".").casefold()
