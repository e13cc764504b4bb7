"""Remembers what a tool printed about files that have not changed since.

A start of a job asks its MPI some questions, such as ``mpicc -show``, and each costs as
much as the start itself. The answers are kept in a folder of the user that no other user
can change. An answer counts only for the same question, the same environment and the same
files: device, inode, size and both times of each. It counts for a day, since a tool may
read files that are not known here.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from cosched.core.decoding import shown_text
from cosched.core.digest import sha256
from cosched.core.errors import CoschedError
from cosched.linux.files.cache import cache_folder, problem_with
from cosched.linux.files.whole import PRIVATE, write_whole

FOLDER = "answers"
#: How long an answer counts.
VALID_S = 24 * 3600.0
#: More answers than this are all forgotten, so that the folder stays small.
MOST = 500
#: The longest answer that is kept.
_MOST_BYTES = 1 << 20
_NAME_CHARACTERS = 200
#: Variables that differ between shells and jobs, and that no such tool reads.
_VOLATILE = ("_", "SHLVL", "PWD", "OLDPWD", "LINES", "COLUMNS", "TERM", "WINDOWID", "SHELL")
_VOLATILE_PREFIXES = ("COSCHED_", "SLURM_", "PBS_", "SSH_", "XDG_SESSION_", "PMI_", "PMIX_")


def remembered(
    question: Sequence[str],
    files: Iterable[Path],
    environ: Mapping[str, str],
    ask: Callable[[], str],
) -> str:
    """Returns the answer to a question: the one that is kept, otherwise that of ``ask``.

    One answer is kept for the first two words of the question. files: the answer depends
    on them. environ: the user's environment, on which it may depend. Errors of ``ask``
    pass; an empty answer is not kept.
    """
    place = _place(question, environ)
    if place is None:
        return ask()
    key = "\0".join((*question, *map(_identity, files), _digest(environ))) + "\0\0"
    prefix = key.encode("utf-8", "surrogateescape")
    kept = _read(place)
    if kept is not None and kept.startswith(prefix):
        return shown_text(kept[len(prefix) :])
    answer = ask()
    if answer and len(answer) <= _MOST_BYTES:
        _keep(place, prefix + answer.encode("utf-8", "surrogateescape"))
    return answer


def _place(question: Sequence[str], environ: Mapping[str, str]) -> Path | None:
    """Returns the file of an answer; None if the user has no safe folder for it."""
    try:
        folder = cache_folder(environ, FOLDER)
        if problem_with(folder) is not None:
            return None
    except (CoschedError, OSError):
        return None
    name = "+".join(question[:2]).replace("/", "+")
    return folder / name[-_NAME_CHARACTERS:]


def _identity(path: Path) -> str:
    """Returns what changes with a file, or with the names in a folder."""
    try:
        found = os.stat(path)
    except OSError:
        return f"{path} is not there"
    times = f"{found.st_mtime_ns} {found.st_ctime_ns}"
    return f"{path} {found.st_dev} {found.st_ino} {found.st_size} {times}"


def _digest(environ: Mapping[str, str]) -> str:
    """Returns what changes with the environment. Its values may be secret, so no file has
    them."""
    lines = (
        f"{name}={environ[name]}"
        for name in sorted(environ)
        if name not in _VOLATILE and not name.startswith(_VOLATILE_PREFIXES)
    )
    text = "\0".join(lines)
    digest: str = sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
    return digest


def _read(place: Path) -> bytes | None:
    """Returns the content of a file that this user alone can write, if it is young."""
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or others:
            return None
        if not 0 <= time.time() - found.st_mtime <= VALID_S:
            return None
        return os.read(descriptor, 2 * _MOST_BYTES)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _keep(place: Path, content: bytes) -> None:
    """Writes an answer. The next start asks again if that fails."""
    with contextlib.suppress(CoschedError, OSError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        names = os.listdir(place.parent)
        for name in names if len(names) > MOST else ():
            os.unlink(place.parent / name)
        write_whole(place, content, PRIVATE)
