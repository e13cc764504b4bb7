"""Parses the list of mounts that a process sees (proc(5), mountinfo)."""

from __future__ import annotations

import re

from cosched.core.named_tuples import NamedTuple

_OCTAL = r"\\([0-7]{3})"
_FIELDS, _KIND = 6, 3


class Mount(NamedTuple):
    """One line of mountinfo."""

    root: str  #: the part of its file system that is mounted at ``point``
    point: str  #: the path where it is mounted
    options: frozenset[str]  #: options of the mount
    fstype: str  #: the kind of file system
    source: str  #: the device, or a name that the kind gives
    super_options: frozenset[str]  #: options of the file system


def parse_mountinfo(text: str) -> list[Mount]:
    """Returns the mounts of a ``/proc/PID/mountinfo``, oldest first."""
    mounts = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if len(fields) >= _FIELDS and len(kind) >= _KIND:
            mounts.append(
                Mount(
                    root=_plain(fields[3]),
                    point=_plain(fields[4]),
                    options=frozenset(fields[5].split(",")),
                    fstype=kind[0],
                    source=_plain(kind[1]),
                    super_options=frozenset(kind[2].split(",")),
                )
            )
    return mounts


def _plain(escaped: str) -> str:
    return re.sub(_OCTAL, lambda match: chr(int(match[1], 8)), escaped)
