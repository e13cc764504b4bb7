"""Starts a private domain: this machine alone, for the jobs of one user.

A command starts its members when it needs them. So it also starts a member again that was
killed: the controller finds the jobs in its store, and they run on meanwhile.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from cosched.cluster.client import NoDomain
from cosched.cluster.keys import remove_broken
from cosched.cluster.paths import DomainPaths
from cosched.cluster.up.domain import (
    WITHIN_S,
    await_end,
    start_again,
    start_domain,
    stop_domain,
    write_domain,
)
from cosched.cluster.up.nodes import LOOPBACK, DomainNode, local_nodes
from cosched.config.domain import DomainConfig, load_config
from cosched.config.queue import CPU, QueueSettings
from cosched.config.slurm import is_coupled
from cosched.core.decoding import host_of
from cosched.core.errors import CoschedError
from cosched.core.names import CONTROLLER, PRIVATE, member_of
from cosched.linux.ports import free_ports
from cosched.linux.waiting import comes_true
from cosched.rundir.directories import (
    SYSTEM_RUN_DIR,
    check_own_domain,
    is_listening,
    make_node_directory,
)
from cosched.rundir.lock import has_locked, is_held, was_killed
from cosched.rundir.paths import NodePaths

#: How many ranks of a job a CPU takes there, if the job has more ranks than CPUs.
TASKS_PER_CPU = 8
#: How many jobs that share a CPU take turns there.
SHARING = 2
#: The controller ends the domain when no job came for this time, in seconds.
_IDLE = ("--idle", "60")
_POLL_S = 0.05


def start_private(run_dir: Path, note: Callable[[str], object] = lambda line: None) -> None:
    """Starts a domain of this machine alone, which ends when no job came for a while.

    Does nothing if another process has just started it; otherwise ``note`` takes one line
    before. Raises NoDomain if an operator's domain has this run directory: only its
    operator starts it. A domain of this machine alone in another directory than the
    system's is replaced; its jobs that wait are kept.
    """
    paths = DomainPaths(run_dir)
    if _is_configured(paths) and not (_is_private(paths) or _is_replaceable(paths)):
        raise NoDomain(
            f"the domain in {run_dir} is down; start it with: cosched cluster up"
        )
    _check_directories(paths)
    with _starting(paths):
        if not _start_missing(paths, lambda line: None):
            note("starting a private domain on this machine")
            _start_all(paths)


def restore_private(run_dir: Path, note: Callable[[str], object]) -> None:
    """Starts the missing member of a private domain again, for the user who started it.
    Does nothing in another domain, or if no member is up. note: takes one line if there is
    something to start. Raises CoschedError if it cannot be started."""
    paths = DomainPaths(run_dir)
    if not _is_private(paths):
        return
    _check_directories(paths)
    with _starting(paths):
        _start_missing(paths, note)


def renew_private(run_dir: Path, what: str, warn: Callable[[str], object]) -> None:
    """Ends a private domain of this user and starts it again, unless jobs run there. what:
    the lower limits that it has. warn: takes a line if jobs run."""
    paths = DomainPaths(run_dir)
    if not _is_private(paths):
        return
    try:
        stop_domain(paths, _this_node(), end_jobs=False)
    except NoDomain:  # another command ends it
        pass
    except CoschedError:
        warn(f"jobs run in the private domain, so it keeps {what}; so does this job")
        return
    start_private(run_dir)


def give_way(run_dir: Path) -> None:
    """Ends a private domain of this user without jobs, so that another domain can have its
    run directory. Raises CoschedError if jobs run there."""
    paths = DomainPaths(run_dir)
    if not _is_private(paths):
        return
    node = _this_node()
    try:
        stop_domain(paths, node, end_jobs=False)
    except NoDomain:  # it ends just now, or none is up
        pass
    except CoschedError as error:
        raise CoschedError(f"the private domain in {run_dir}: {error}") from None
    await_end(paths, node)


def _this_node() -> str:
    return member_of(os.uname().nodename)


def _is_configured(paths: DomainPaths) -> bool:
    """Returns whether a run directory is that of a domain. Raises CoschedError if this user
    may not look there."""
    try:
        return paths.config.exists()
    except PermissionError as error:
        raise CoschedError(f"{paths.run_dir}: {error.strerror}; use --run-dir") from None


def _is_private(paths: DomainPaths) -> bool:
    """Returns whether the domain in a directory is a private one of this user."""
    if not _is_configured(paths) or is_coupled(paths.config):
        return False
    config = load_config(paths.config)
    is_own = paths.directory.lstat().st_uid == os.geteuid()
    return is_own and config.name == PRIVATE and len(config.nodes) == 1


def _is_replaceable(paths: DomainPaths) -> bool:
    """Returns whether a domain has this machine alone as its node, and is not that of the
    machine's own daemons."""
    if paths.run_dir == SYSTEM_RUN_DIR or is_coupled(paths.config):
        return False
    config, here = load_config(paths.config), _this_node()
    return tuple(config.nodes) == (here,) and host_of(config.nodes[here]) == LOOPBACK


def _check_directories(paths: DomainPaths) -> None:
    """Makes the directories that are missing. Raises CoschedError if another user could
    have prepared one."""
    euid = os.geteuid()
    make_node_directory(NodePaths(paths.run_dir, _this_node()), euid, private=False)
    paths.directory.mkdir(mode=0o755, exist_ok=True)
    check_own_domain(paths.directory, euid)


@contextlib.contextmanager
def _starting(paths: DomainPaths) -> Iterator[None]:
    """Keeps other processes from starting members meanwhile. Raises CoschedError if one
    does for too long."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open(paths.private_lock, flags, 0o600)
    try:
        os.fchmod(lock, 0o600)  # others could hold it
        _until(lambda: has_locked(lock), f"{paths.private_lock}: is held")
        yield
    finally:
        os.close(lock)


def _start_all(paths: DomainPaths) -> None:
    port = free_ports(2)
    places = local_nodes(port + 1)
    config = DomainConfig(
        PRIVATE,
        f"127.0.0.1:{port}",
        {place.name: place.address for place in places},
        queue=QueueSettings(jobs_per_node=SHARING, unit=CPU),
        tasks_per_slot=TASKS_PER_CPU,
        own_daemons=True,
    )
    remove_broken(paths.keys, config.members)
    write_domain(paths, config)
    start_domain(paths, places, *_IDLE)


def _start_missing(paths: DomainPaths, note: Callable[[str], object]) -> bool:
    """Starts the controller or the agent if only the other one is up. Returns whether both
    are up then."""
    if not paths.config.exists():
        return False
    ((node, address),) = load_config(paths.config).nodes.items()
    locks = {CONTROLLER: paths.controller_lock, node: paths.agent_lock(node)}
    sockets = {CONTROLLER: paths.controller_socket, node: paths.agent_socket(node)}
    missing = [name for name in locks if not _is_up(sockets[name], locks[name])]
    if len(missing) == len(locks):
        return False
    for name in missing:
        what, log = "the agent of the private domain", paths.agent_log(node)
        if name == CONTROLLER:
            what, log = "the controller of the private domain", paths.controller_log
        how = "was killed" if was_killed(locks[name]) else f"has ended (see {log})"
        note(f"{what} {how}; starting it again")
    start_again(paths, [DomainNode(node, address)], missing, *_IDLE)
    return True


def _is_up(socket: Path, lock: Path) -> bool:
    """Returns whether a member listens. Waits for one that ends, or that begins."""

    def is_clear() -> bool:
        return is_listening(socket) or not is_held(lock)

    _until(is_clear, f"{lock}: the member does not answer")
    return is_listening(socket)


def _until(condition: Callable[[], bool], problem: str) -> None:
    """Waits for a condition. Raises CoschedError if it does not come true in time."""
    if not comes_true(condition, WITHIN_S, _POLL_S):
        raise CoschedError(f"{problem} for more than {WITHIN_S:g} s")
