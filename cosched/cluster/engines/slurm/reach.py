"""Checks whether SlurmUser can run a program, which may lie in a closed home."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cosched.core.errors import CoschedError


def check_reachable(path: str, uid: int, user: str) -> None:
    """Raises CoschedError if the user cannot execute the file or enter its directories.
    Groups are not considered."""
    for start in (Path(path), Path(path).resolve()):
        for each in (start, *start.parents):
            try:
                status = each.stat()
            except OSError as error:
                raise CoschedError(f"{each}: {error.strerror}") from None
            mine = uid in (0, status.st_uid)
            if not status.st_mode & (stat.S_IXUSR if mine else stat.S_IXOTH):
                raise CoschedError(
                    f"{each}: {user} of Slurm may not enter it, so it cannot run "
                    f"{os.path.basename(path)}; name another Python with --python"
                )
