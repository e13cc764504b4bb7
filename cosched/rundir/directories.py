"""Finds the run directory that a command uses, and checks that it is safe.

Root's daemons are in /run/cosched, where each user may send requests to them. A user's own
daemons are in /tmp/cosched-UID. Any user can make a directory of that name, so it is used
only if it belongs to this user and no other user can write there. A directory that the user
named with --run-dir or COSCHED_RUN_DIR is used without these checks.
"""

from __future__ import annotations

import contextlib
import socket
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.linux.users import named_user
from cosched.rundir.paths import NodePaths, default_run_dir

SYSTEM_RUN_DIR = Path("/run/cosched")
#: The state directory of the systemd unit (StateDirectory=cosched).
SITE_STATE = Path("/var/lib/cosched")
ROOT_UID = 0
#: Users reach a domain at its agents, and on the controller's machine at the controller.
DOMAIN_SOCKETS = ("*/agent.sock", "domain/controller.sock")
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def own_run_dir(environ: Mapping[str, str], euid: int) -> Path:
    """Returns the run directory of daemons that this user starts. Raises CoschedError if
    another user prepared it."""
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
    """Returns the run directory of the daemons that serve this user: the user's own if they
    run, otherwise root's if they run, otherwise the user's own.

    ``node``: checks the daemons of this node only. Raises CoschedError if another user
    prepared the user's directory and root's daemons do not run.
    """
    return _dir_with((f"{node or '*'}/control.sock",), environ, euid, system)


def domain_dir_to_ask(
    environ: Mapping[str, str], euid: int, system: Path = SYSTEM_RUN_DIR
) -> Path:
    """Returns the run directory of the domain that serves this user, by the same rules."""
    return _dir_with(DOMAIN_SOCKETS, environ, euid, system)


def daemons_are_up(run_dir: Path) -> bool:
    """Returns whether a scheduler daemon answers in this directory."""
    return _are_up(run_dir, ("*/control.sock",))


def check_own(path: Path, euid: int) -> None:
    """Raises CoschedError if ``path`` exists and is not safe for this user."""
    problem = _problem_with(path, euid)
    if problem is not None:
        raise CoschedError(problem)


def check_own_domain(path: Path, euid: int) -> None:
    """Does the same for the directory of a domain. A link of this user may stand for it, as
    where the run directory is empty after a boot, and the domain is kept on a disk."""
    is_link = path.is_symlink() and path.lstat().st_uid == euid
    check_own(path.resolve() if is_link else path, euid)


def make_node_directory(paths: NodePaths, euid: int, *, private: bool) -> None:
    """Makes a node's directory, its parents and its subdirectories. Raises CoschedError if
    that fails, or if it exists and another user could have prepared it."""
    usual = paths.run_dir == default_run_dir({}, euid) and euid != ROOT_UID
    mode = 0o700 if private or usual else 0o755
    try:
        paths.run_dir.mkdir(mode=mode, exist_ok=True, parents=True)
        if usual:
            check_own(paths.run_dir, euid)
            paths.run_dir.chmod(0o700)  # other users may read an older one
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
    """Checks a directory that the user named. It may be root's, and shared, as /tmp is."""
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (ROOT_UID, euid):
        raise CoschedError(f"{path}: belongs to {named_user(found.st_uid)}; use --run-dir")


def _problem_with(path: Path, euid: int) -> str | None:
    """Returns why ``path`` is not safe, or None if it is safe or does not exist."""
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
            f"{path}: belongs to {named_user(found.st_uid)}, not to {named_user(euid)}; "
            "have it removed, or use --run-dir"
        )
    if found.st_mode & _WRITABLE_BY_OTHERS:
        return f"{path}: others can write there; chmod 700 it, or use --run-dir"
    return None


def _dir_with(
    sockets: Sequence[str], environ: Mapping[str, str], euid: int, system: Path
) -> Path:
    usual = default_run_dir(environ, euid)
    if environ.get("COSCHED_RUN_DIR") or usual == system:
        return usual
    problem = _problem_with(usual, euid)
    if problem is None and _are_up(usual, sockets):
        return usual
    if _problem_with(system, ROOT_UID) is None and _are_up(system, sockets):
        return system
    if problem is not None:
        raise CoschedError(problem)
    return usual


def _are_up(run_dir: Path, sockets: Sequence[str]) -> bool:
    """Returns whether one of these sockets answers in this directory: a socket can outlive
    its daemon."""
    try:
        found = [path for pattern in sockets for path in sorted(run_dir.glob(pattern))]
    except PermissionError:
        return False
    return any(is_listening(path) for path in found)


def is_listening(path: Path) -> bool:
    """Returns whether a process listens at a Unix socket that this user may reach."""
    with socket.socket(socket.AF_UNIX) as knock:
        knock.setblocking(False)
        try:
            knock.connect(str(path))
        except BlockingIOError:
            return True  # its queue of clients is full
        except PermissionError:
            return is_public(path)  # a user who connected too often is refused for a moment
        except OSError:
            return False
    return True


def is_public(path: Path) -> bool:
    """Returns whether a socket is for all users. It may still refuse one for a while."""
    with contextlib.suppress(OSError):
        return bool(path.stat().st_mode & stat.S_IWOTH)
    return False
