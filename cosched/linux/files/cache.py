"""Chooses where compiled code is kept.

The user's programs load this code. So it counts only if this user and root alone can change
it and each folder above it, and if programs may execute there. Where the usual place is not
so, or cannot be made, a place of the user below /tmp takes the builds. The caller reports
why.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple
from cosched.linux.files.owners import ROOT_UID, owners_of
from cosched.linux.homes import cache_home
from cosched.linux.users import named_user

#: Folders in which each user can make one more place.
SHARED = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))
REMEDY = "set XDG_CACHE_HOME to a directory of yours where programs may execute"


class CacheLocation(NamedTuple):
    """A folder for compiled code."""

    folder: Path  #: its path
    remark: str = ""  #: why it is not the usual folder; "" if it is


def cache_folder(environ: Mapping[str, str], kind: str) -> Path:
    """Returns ``$XDG_CACHE_HOME/cosched/KIND`` or ``~/.cache/cosched/KIND``."""
    return cache_home(environ) / "cosched" / kind


def choose_cache(environ: Mapping[str, str], kind: str) -> CacheLocation:
    """Returns the first place that is safe and takes builds: the usual one, that of the
    home directory, and one of the user in a folder of all users. Raises CoschedError if
    none does."""
    first = ""
    for place in _places(environ, kind):
        problem = _why_unusable(place)
        if problem is None:
            return CacheLocation(place, first and f"{first}; builds are kept in {place}")
        first = first or problem
    raise CoschedError(f"{first}; {REMEDY}")


def _places(environ: Mapping[str, str], kind: str) -> Iterator[Path]:
    yield cache_folder(environ, kind)
    home = {"HOME": environ["HOME"]} if "HOME" in environ else {}
    yield cache_folder(home, kind)
    for folder in SHARED:
        if folder.is_dir():
            yield folder / f"cosched-cache-{os.geteuid()}" / kind


def _why_unusable(place: Path) -> str | None:
    try:
        problem = problem_with(place)
    except CoschedError as error:  # a folder that this user may not enter
        return str(error)
    if problem is None and not place.is_dir() and not _can_be_made(place):
        return f"{place}: cannot be made"
    if problem is None and not can_be_preloaded(place):
        return (
            f"{place}: a library below a path with a blank or a colon cannot be preloaded"
        )
    return problem


def can_be_preloaded(path: Path) -> bool:
    """Returns whether LD_PRELOAD can name a path: blanks and colons separate paths."""
    return re.search(r"[\s:]", str(path)) is None


def check_cache(path: Path, below: Path = Path("/")) -> None:
    """Raises CoschedError if compiled code in ``path`` must not be used. below: as for
    ``problem_with``."""
    problem = problem_with(path, below)
    if problem is not None:
        raise CoschedError(f"{problem}; {REMEDY}")


def problem_with(path: Path, below: Path = Path("/")) -> str | None:
    """Returns why compiled code in ``path`` must not be used; None if it may be. below: a
    folder that is trusted with all that is above it."""
    owners = owners_of(path, below)
    others = owners.users - {os.geteuid(), ROOT_UID}
    if others:
        return f"{path}: {named_user(min(others))} can change it"
    if owners.open_at is not None:
        return f"{owners.open_at}: other users can change it"
    if _is_noexec(path):
        return f"{path}: its file system lets no program execute (noexec)"
    return None


def _is_noexec(path: Path) -> bool:
    return bool(os.statvfs(_existing(path)).f_flag & os.ST_NOEXEC)


def _can_be_made(path: Path) -> bool:
    return os.access(_existing(path), os.W_OK | os.X_OK, effective_ids=True)


def _existing(path: Path) -> Path:
    return next(each for each in (path, *path.parents) if each.exists())
