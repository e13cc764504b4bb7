"""Removes the shared memory that MPI libraries leave when their tasks are killed.

A library that is not finalized leaves its files in /dev/shm, and they take memory. A file
is removed under four conditions. It has the name of such a file, and a task of the job had
it mapped. It belongs to the job's user, and no other user may open it. No process maps it.

Files of tasks that die all at once must be noted before. So tasks are looked at now and
then: first after ``FIRST_LOOK_S``, later whenever the job is twice as old.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

from cosched.linux import proc

SHARED_MEMORY = Path("/dev/shm")
#: How long after the start of a job its tasks are looked at for the first time.
FIRST_LOOK_S = 1.0
#: Names of MPICH, Open MPI and UCX.
NAMES = (
    "mpich_shm_*",
    "mpich_shar_tmp*",
    "sm_segment.*",
    "vader_segment.*",
    "osc_rdma.*",
    "ucx_shm_*",
)

#: Device and inode of each file.
Files = dict[Path, tuple[int, int]]


def mapped_files(pids: Iterable[int]) -> Files:
    """Returns the files of MPI libraries that these processes have mapped."""
    found: Files = {}
    for pid in pids:
        for path in _mapped_paths(pid):
            if path.parent == SHARED_MEMORY and _is_of_mpi(path.name):
                with contextlib.suppress(OSError):
                    status = path.lstat()
                    found[path] = (status.st_dev, status.st_ino)
    return found


def remove_unused(files: Files) -> list[Path]:
    """Removes the files that are still the same, belong to this user alone and are mapped
    by no process; returns them."""
    left = [path for path, identity in files.items() if _is_ours(path, identity)]
    if not left:
        return []
    used = {path for pid in proc.processes() for path in _mapped_paths(pid)}
    removed = []
    for path in left:
        with contextlib.suppress(OSError):
            if path not in used and _is_ours(path, files[path]):
                path.unlink()
                removed.append(path)
    return removed


def _is_ours(path: Path, identity: tuple[int, int]) -> bool:
    """Returns whether a file is still the same one, and this user's alone."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return (
        (status.st_dev, status.st_ino) == identity
        and stat.S_ISREG(status.st_mode)
        and status.st_uid == os.geteuid()
        and not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    )


def _is_of_mpi(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in NAMES)


def _mapped_paths(pid: int) -> set[Path]:
    """Returns the files in shared memory that a process maps; none if it is gone, or if it
    belongs to another user."""
    try:
        text = Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape")
    except OSError:
        return set()
    words = (line.split(maxsplit=5) for line in text.splitlines())
    places = (parts[5] for parts in words if len(parts) == 6)
    return {Path(place) for place in places if place.startswith(f"{SHARED_MEMORY}/")}
