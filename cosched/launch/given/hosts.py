"""Reads the hosts of a job: a list such as ``n[1-4,7]``, or a hostfile.

A hostfile has a host a line, as for MPICH (``n1:2``) or Open MPI (``n1 slots=2``), and
comments behind ``#``. A host that stands there several times without a number has one slot
a line: PBS writes its nodes so.
"""

from __future__ import annotations

import re
from pathlib import Path

from cosched.core.decoding import parse_integer
from cosched.core.errors import CoschedError
from cosched.core.hostlist import expand_hosts
from cosched.core.named_tuples import NamedTuple
from cosched.linux.here import parse_address

#: Words behind a host that do not change the number of its ranks.
_IGNORED = (
    r"(max[-_]slots|slots[-_]max|binding|ifname|user|username|port|slot_list|cpu_max|boards"
    r"|sockets|sockets_per_board|cores_per_socket|cores|rack)=\S+"
)
_SLOTS = r"(?:slots|count|cpu|cpus)=([0-9]+)"
_HOST = r"([^\s:=^]+|\[[0-9a-fA-F:.]+\])(?::([0-9]+))?"
_BLANKS_AROUND = r"\s*=\s*"


class Hosts(NamedTuple):
    """The hosts of a job, in order."""

    names: tuple[str, ...] = ()  #: the hosts' names, each once; (): no host is named
    slots: tuple[int, ...] = ()  #: the most ranks on each host; (): not limited


def parse_hosts(text: str) -> Hosts:
    """Returns the hosts of ``a,b`` or ``n[1-4,7]``. Raises CoschedError for a list that
    does not parse or names a host twice."""
    return Hosts(expand_hosts(re.sub(r"\s*,\s*", ",", text.strip())))


def read_hostfile(path: Path) -> Hosts:
    """Returns the hosts of a hostfile. Raises CoschedError, with file and line."""
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise CoschedError(f"hostfile {path}: cannot be read ({error.strerror})") from None
    if "\0" in text:
        raise CoschedError(f"hostfile {path}: cannot be read (not a text)")
    return parse_hostfile(text, str(path))


def parse_hostfile(text: str, name: str) -> Hosts:
    """Returns the hosts of the text of a hostfile; ``name``: the file, for errors."""
    found: dict[str, int | None] = {}
    repeated: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = re.sub(_BLANKS_AROUND, "=", line.partition("#")[0]).split()
        if not words:
            continue
        try:
            hosts, slots = _read_line(words)
        except CoschedError as error:
            raise CoschedError(f"hostfile {name}:{number}: {error}") from None
        for host in hosts:
            if host in found and (slots is not None or found[host] is not None):
                raise CoschedError(
                    f"hostfile {name}:{number}: host '{host}' stands there twice, with a "
                    "number of slots; write one line for it"
                )
            found[host] = slots
            repeated[host] = repeated.get(host, 0) + 1
    if not found:
        raise CoschedError(f"hostfile {name}: no host in it")
    if all(slots is None for slots in found.values()) and max(repeated.values()) == 1:
        return Hosts(tuple(found))
    return Hosts(
        tuple(found),
        tuple(repeated[host] if slots is None else slots for host, slots in found.items()),
    )


def host_of(text: str) -> str:
    """Returns the host of ``HOST:SLOTS`` or ``USER@HOST``. An IPv6 address has brackets in
    front of slots."""
    host = text.strip().rpartition("@")[2]
    if parse_address(host) is not None:
        return host.strip("[]")
    return host.partition("]")[0].strip("[]") if "]" in host else host.partition(":")[0]


#: The most slots of a host in a list.
SLOTS_MOST = 1 << 20


def _slots(text: str, word: str) -> int:
    return parse_integer(text, f"'{word}': its slots", 0, SLOTS_MOST)


def _read_line(words: list[str]) -> tuple[tuple[str, ...], int | None]:
    """Returns the hosts of a line and the slots of each; None if it names no number."""
    address = parse_address(words[0])
    match = re.fullmatch(_HOST, f"[{address}]" if address is not None else words[0])
    if match is None:
        raise CoschedError(f"'{words[0]}' is not a host, such as n1, n1:2 or n[1-4]:2")
    slots = None if match[2] is None else _slots(match[2], words[0])
    for word in words[1:]:
        number = re.fullmatch(_SLOTS, word)
        if number is not None:
            slots = _slots(number[1], word)
        elif not re.fullmatch(_IGNORED, word):
            raise CoschedError(f"'{word}' is not known; write slots=N")
    if slots == 0:
        raise CoschedError(f"host '{words[0]}' has no slots; leave it out")
    host = match[1].rpartition("@")[2]
    if parse_address(host) is not None:
        return (host.strip("[]"),), slots
    return expand_hosts(host), slots
