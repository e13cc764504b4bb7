"""Whose run directory a command talks to, and which directories may be believed.

Root's daemons are in /run/cosched, where every user may ask them. A user's own are in
/tmp/cosched-UID; since anybody can make a directory of that name, it is believed only if it
belongs to this user and nobody else can write there. A directory that was named with
--run-dir or COSCHED_RUN_DIR is taken as it is: whoever names it answers for it.
"""

from __future__ import annotations

import contextlib
import pwd
import socket
import stat
from collections.abc import Mapping
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.shm.paths import NodePaths, default_run_dir

SYSTEM_RUN_DIR = Path("/run/cosched")
ROOT_UID = 0
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
#: Daemons answer at once; one that is stopped is there all the same.
_KNOCK_S = 1.0


def own_run_dir(environ: Mapping[str, str], euid: int) -> Path:
    """Where daemons that this user starts are. CoschedError if somebody planted it."""
    usual = default_run_dir(environ, euid)
    if not environ.get("COSCHED_RUN_DIR"):
        check_own(usual, euid)
    return usual


def run_dir_to_ask(
    environ: Mapping[str, str],
    euid: int,
    node: str | None = None,
    system: Path = SYSTEM_RUN_DIR,
) -> Path:
    """Where the daemons are that serve this user: his own if they are up, else root's if
    those are, else where his own would be.

    ``node``: only this node's count. CoschedError if his own directory was planted, unless
    root's daemons are up: then it does not matter.
    """
    usual = default_run_dir(environ, euid)
    if environ.get("COSCHED_RUN_DIR") or usual == system:
        return usual
    problem = _problem_with(usual, euid)
    if problem is None and _are_up(usual, node):
        return usual
    if _problem_with(system, ROOT_UID) is None and _are_up(system, node):
        return system
    if problem is not None:
        raise CoschedError(problem)
    return usual


def check_own(path: Path, euid: int) -> None:
    """CoschedError if there is something at ``path`` that may not be believed."""
    problem = _problem_with(path, euid)
    if problem is not None:
        raise CoschedError(problem)


def make_node_directory(paths: NodePaths, euid: int, *, private: bool) -> None:
    """Makes a node's directory and what is above and in it; CoschedError if it cannot be
    made, or is there already and somebody else could have prepared it."""
    usual = paths.run_dir == default_run_dir({}, euid) and euid != ROOT_UID
    mode = 0o700 if private or usual else 0o755
    try:
        paths.run_dir.mkdir(mode=mode, exist_ok=True, parents=True)
        if usual:
            check_own(paths.run_dir, euid)
            paths.run_dir.chmod(0o700)  # an older one may be open to others' eyes
        else:
            _check_given(paths.run_dir, euid)
        paths.directory.mkdir(mode=0o700 if private else 0o755, exist_ok=True)
        check_own(paths.directory, euid)
        paths.bells.mkdir(mode=0o711, exist_ok=True)
        check_own(paths.bells, euid)
    except OSError as error:
        raise CoschedError(
            f"{paths.directory}: cannot be made ({error.strerror}); use --run-dir"
        ) from None


def _check_given(path: Path, euid: int) -> None:
    """A directory that was named may be root's, and shared, as /tmp is."""
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (ROOT_UID, euid):
        raise CoschedError(f"{path}: belongs to {_user(found.st_uid)}; use --run-dir")


def _problem_with(path: Path, euid: int) -> str | None:
    """Why what is at ``path`` may not be believed; None if it may, or is not there."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{path}: {error.strerror}; use --run-dir"
    if not stat.S_ISDIR(found.st_mode):
        return f"{path}: is not a directory; remove it, or use --run-dir"
    if found.st_uid != euid:
        return (
            f"{path}: belongs to {_user(found.st_uid)}, not to {_user(euid)}; "
            "have it removed, or use --run-dir"
        )
    if found.st_mode & _WRITABLE_BY_OTHERS:
        return f"{path}: others can write there; chmod 700 it, or use --run-dir"
    return None


def _are_up(run_dir: Path, node: str | None) -> bool:
    """Whether somebody answers in this directory; a socket can outlive its daemon."""
    pattern = "*" if node is None else node
    try:
        sockets = sorted(run_dir.glob(f"{pattern}/control.sock"))
    except PermissionError:
        return False
    return any(_answers(path) for path in sockets)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as knock, contextlib.suppress(OSError):
        knock.settimeout(_KNOCK_S)
        knock.connect(str(path))
        return True
    return False


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
