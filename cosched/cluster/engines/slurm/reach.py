"""Checks whether SlurmUser can run the gate: its Python and cosched may lie in a closed
home."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from cosched.core.errors import CoschedError


def uid_of(user: str) -> int:
    """Returns the number of SlurmUser. Raises CoschedError if there is no such user."""
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise CoschedError(f"slurm.user: there is no user '{user}' here") from None


def check_runs(python: str, uid: int, user: str) -> None:
    """Raises CoschedError if the user cannot execute a Python. Groups do not count."""
    closed = _closed(Path(python), uid, stat.S_IXUSR, stat.S_IXOTH)
    if closed is not None:
        raise CoschedError(
            f"{closed}: Slurm's user {user} may not enter it, so it cannot run "
            f"{os.path.basename(python)}; name another Python with --python"
        )


def check_reads(file: str, uid: int, user: str) -> None:
    """Raises CoschedError if the user cannot read a file of cosched. Groups do not
    count."""
    closed = _closed(Path(file), uid, stat.S_IRUSR, stat.S_IROTH)
    if closed is not None:
        raise CoschedError(
            f"{closed}: Slurm's user {user} may not read it, so it cannot run "
            f"{os.path.basename(file)}; install cosched where {user} can read it"
        )


def _closed(path: Path, uid: int, own: int, others: int) -> Path | None:
    """Returns the first of the file and its directories that the user cannot use; None if
    there is none. own, others: the bit that the file needs for its owner and for others."""
    for start in (path, path.resolve()):
        for each in (start, *start.parents):
            try:
                status = each.stat()
            except OSError as error:
                raise CoschedError(f"{each}: {error.strerror}") from None
            bits = (own, others) if each == start else (stat.S_IXUSR, stat.S_IXOTH)
            mine = uid in (0, status.st_uid)
            if not status.st_mode & bits[0 if mine else 1]:
                return each
    return None
