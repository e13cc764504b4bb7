"""Makes namespaces and finds the processes in them.

Python 3.10 lacks unshare, setns and mount, so this module calls the C library; errors
become CoschedError. Functions that read processes take a ``root`` for tests.

Two facts of the kernel shape this file.

* sysfs shows the network interfaces of the namespace in which it was mounted. So a process
  in a private network namespace needs a private sysfs. The mounts below the old sysfs (the
  cgroup trees) must be carried over.
* The inode of a namespace is reused after its end. So a mark identifies the processes of a
  namespace without its founder: the mount source of the private sysfs. Every process of
  that mount namespace has it in its mountinfo.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.linux import pidfd, proc
from cosched.linux.cgroups.mounts import Mount, parse_mountinfo
from cosched.linux.processes.signals import send_by_pidfd

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWNET = 0x40000000

MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_BIND = 4096
MS_REC = 16384
MS_SLAVE = 1 << 19

SYS = Path("/sys")


# --- system calls -------------------------------------------------------------------


def _call(function: str, what: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, function)(*arguments) == 0:
        return
    code = ctypes.get_errno()
    forbidden = ": run as root, outside containers that forbid it"
    hint = {
        errno.EPERM: forbidden,
        errno.EACCES: forbidden,
        errno.EINVAL: ": this kernel may lack it",
        errno.ENOSYS: ": this kernel lacks it",
        errno.ENOSPC: ": see /proc/sys/user/max_*_namespaces",
    }.get(code, "")
    raise CoschedError(f"{what}: {os.strerror(code)}{hint}")


def unshare(flags: int) -> None:
    """Moves the calling thread into new namespaces."""
    _call("unshare", "cannot make namespaces", ctypes.c_int(flags))


def mount(source: str, target: Path, fstype: str | None, flags: int) -> None:
    """Calls mount(2)."""
    _call(
        "mount",
        f"cannot mount {source} on {target}",
        ctypes.c_char_p(os.fsencode(source)),
        ctypes.c_char_p(os.fsencode(target)),
        ctypes.c_char_p(None if fstype is None else fstype.encode()),
        ctypes.c_ulong(flags),
        None,
    )


@contextlib.contextmanager
def network_of(pid: int) -> Iterator[None]:
    """Puts the calling thread into the network namespace of ``pid`` meanwhile.

    Sockets that are opened inside stay there.
    """
    with (
        open("/proc/thread-self/ns/net", "rb") as home,
        open(f"/proc/{pid}/ns/net", "rb") as away,
    ):
        flag = ctypes.c_int(CLONE_NEWNET)
        what = f"cannot enter the network of process {pid}"
        _call("setns", what, ctypes.c_int(away.fileno()), flag)
        try:
            yield
        finally:
            _call("setns", what, ctypes.c_int(home.fileno()), flag)


# --- mounts -------------------------------------------------------------------------


def _mounts_of(pid: int, root: Path) -> list[Mount]:
    path = root / "proc" / str(pid) / "mountinfo"
    if proc.is_reaped(pid, root):
        return []
    try:
        return parse_mountinfo(path.read_text(errors="surrogateescape"))
    except OSError:  # gone, or a zombie
        return []


def outermost_below(mounts: Iterable[Mount], top: Path) -> list[Path]:
    """Returns the mount points below ``top`` that are below no other such mount point."""
    seen = {Path(mount.point) for mount in mounts}
    points = sorted(point for point in seen if top in point.parents)
    return [point for point in points if not set(points) & set(point.parents)]


def mount_private_sysfs(mark: str) -> None:
    """Mounts a sysfs for this network namespace, with the host's cgroup trees in it.

    The caller has a private mount namespace. Mounts made here stay here; later mounts of
    the host still arrive. ``mark`` becomes the source of the new sysfs.
    """
    mount("none", Path("/"), None, MS_REC | MS_SLAVE)
    below = outermost_below(_mounts_of(os.getpid(), proc.ROOT), SYS)
    held = [(point, os.open(point, os.O_PATH | os.O_DIRECTORY)) for point in below]
    mount(mark, SYS, "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    for point, descriptor in held:
        if point.is_dir():
            mount(f"/proc/self/fd/{descriptor}", point, None, MS_BIND | MS_REC)
        os.close(descriptor)


# --- processes ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process, identified by its pid and its start time."""

    pid: int  #: its pid as /proc shows it
    start_ticks: int  #: its start time in clock ticks since boot

    @classmethod
    def of(cls, pid: int, root: Path = proc.ROOT) -> ProcessId | None:
        """Returns the living process with this pid; None if there is none."""
        start_ticks = proc.start_ticks(pid, root)
        if start_ticks is None or proc.state(pid, root) in {"Z", "X", None}:
            return None
        return cls(pid, start_ticks)

    def alive(self, root: Path = proc.ROOT) -> bool:
        return ProcessId.of(self.pid, root) == self


def network_inode(pid: int, root: Path = proc.ROOT) -> int | None:
    """Returns the network namespace of ``pid``, or None if it is gone."""
    if proc.is_reaped(pid, root):
        return None
    try:
        return os.stat(root / "proc" / str(pid) / "ns/net").st_ino
    except OSError:
        return None


def bears_mark(pid: int, prefix: str, root: Path = proc.ROOT) -> bool:
    """Returns whether ``pid`` has a sysfs whose source begins with ``prefix``."""
    return any(
        mount.fstype == "sysfs" and mount.source.startswith(prefix)
        for mount in _mounts_of(pid, root)
    )


def processes_inside(
    mark_prefix: str, networks: Iterable[int], root: Path = proc.ROOT
) -> list[ProcessId]:
    """Returns the processes with the mark in their sysfs, or in one of the networks.

    It reads one mountinfo per mount namespace, not per process.
    """
    wanted = set(networks)
    marked: dict[int, bool] = {}
    found = []
    for entry in (root / "proc").iterdir():
        if not entry.name.isdecimal():
            continue
        pid = proc.integer(entry.name)
        try:
            mounts = os.stat(entry / "ns/mnt").st_ino
        except OSError:
            continue
        if mounts not in marked:
            marked[mounts] = bears_mark(pid, mark_prefix, root)
        if marked[mounts] or network_inode(pid, root) in wanted:
            process = ProcessId.of(pid, root)
            if process is not None:
                found.append(process)
    return found


def end_processes(
    find: Callable[[], list[ProcessId]], grace_s: float, kill_s: float = 5.0
) -> list[ProcessId]:
    """Sends SIGTERM to all processes of ``find``, and SIGKILL after ``grace_s``.

    It calls ``find`` again until it returns none, because processes fork. Returns the
    processes that are still alive, normally none.
    """
    for number, patience in ((signal.SIGTERM, grace_s), (signal.SIGKILL, kill_s)):
        deadline = time.monotonic() + patience
        signalled: set[ProcessId] = set()
        while found := find():
            _signal_and_wait(found, signalled, number, deadline)
            signalled.update(found)
            if time.monotonic() >= deadline:
                break
    return find()


def _signal_and_wait(
    processes: list[ProcessId],
    signalled: set[ProcessId],
    number: signal.Signals,
    deadline: float,
) -> None:
    with contextlib.ExitStack() as stack:
        waiting = select.poll()
        left = 0
        for process in processes:
            descriptor = pidfd.open_identified(process.pid, process.start_ticks)
            if descriptor is None:
                continue
            stack.callback(os.close, descriptor)
            if process not in signalled:
                send_by_pidfd(descriptor, number)
            waiting.register(descriptor, select.POLLIN)
            left += 1
        while left and (rest := deadline - time.monotonic()) > 0:
            for descriptor, _ in waiting.poll(max(1, int(rest * 1000))):
                waiting.unregister(descriptor)
                left -= 1
