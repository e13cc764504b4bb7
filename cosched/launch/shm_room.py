"""Warns of a full /dev/shm, where MPI libraries keep the messages of a node."""

from __future__ import annotations

import os
from pathlib import Path

from cosched.core.units import format_bytes

#: An MPI library takes some MiB at its start, and a bus error ends it without them.
LEAST_BYTES = 4 << 20
_SHM = Path("/dev/shm")


def shm_text(shm: Path = _SHM) -> str:
    """Returns one line if MPI libraries lack room in ``shm``; "" otherwise."""
    try:
        about = os.statvfs(shm)
    except OSError:
        return ""  # the library names what it lacks
    free = about.f_bavail * about.f_frsize
    if free >= LEAST_BYTES:
        return ""
    return (
        f"{shm}: {format_bytes(free)} are free, so a bus error may end the ranks; remove "
        "files of dead jobs there"
    )
