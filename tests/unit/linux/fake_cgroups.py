"""A kernel's cgroup and /proc files in a directory, with the rules that matter here.

Groups get their files when they are made. A group that holds processes or groups cannot
be removed. In version 2 a group hands down only controllers that it has, and not while it
holds processes. A move is seen in /proc/PID/cgroup. A write replaces a file's content.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from cosched.linux.cgroups import cgroup2, cgroupfs, freezer, groupclasses, top_weight
from cosched.linux.cgroups.inplace import loans

SELF = 100

CPU_V1 = {"cpu.shares": "1024", "cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}
CPU_V2 = {"cpu.weight": "100", "cpu.max": "max 100000"}
STAT_V2 = {"cpu.stat": "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\n"}


class FakeKernel:
    """Build it with ``mount``s and ``spawn``, then run the code on ``root``."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.writes: list[tuple[str, str]] = []
        self.without: set[str] = set()
        """Names of files that this kernel lacks."""
        self._mounts: dict[Path, str] = {}
        self._groups: dict[int, dict[Path, Path]] = {}
        self._mkdir, self._rmdir, self._pwrite = os.mkdir, os.rmdir, os.pwrite
        (root / "proc").mkdir()
        (root / f"proc/{SELF}").mkdir()
        (root / "proc/self").symlink_to(str(SELF))
        (root / "proc/self/mountinfo").write_text("22 1 0:5 / / rw - ext4 /dev/vda rw\n")
        self._groups[SELF] = {}
        monkeypatch.setattr(os, "mkdir", self._make)
        monkeypatch.setattr(os, "rmdir", self._remove)
        monkeypatch.setattr(os, "pwrite", self._overwrite)
        for module in (cgroupfs, cgroup2, freezer, groupclasses, loans, top_weight):
            monkeypatch.setattr(module, "write", self.write)
        self.attributes: dict[tuple[str, str], bytes] = {}
        monkeypatch.setattr(os, "setxattr", self._set_attribute)
        monkeypatch.setattr(os, "getxattr", self._get_attribute)
        monkeypatch.setattr(os, "removexattr", self._remove_attribute)

    # -- building ---------------------------------------------------------------------

    def mount(
        self, kind: str, where: str, *, options: str = "rw", shows: str = "/"
    ) -> Path:
        """Mounts "cgroup2", or version 1 controllers such as "cpu,cpuacct"."""
        path = self.root / where.lstrip("/")
        path.mkdir(parents=True)
        fstype, extra = ("cgroup2", "") if kind == "cgroup2" else ("cgroup", f",{kind}")
        line = f"30 22 0:9 {shows} {where} {options} - {fstype} cgroup rw{extra}\n"
        with (self.root / "proc/self/mountinfo").open("a") as mountinfo:
            mountinfo.write(line)
        self._mounts[path] = kind
        if kind == "cgroup2":
            self._fill(
                path, {"cgroup.procs": "", "cgroup.controllers": "cpuset cpu memory"}
            )
            self._fill(path, {"cgroup.subtree_control": "", **STAT_V2})
        else:
            self._fill_v1(path, kind)
        for pid in self._groups:
            self._put(pid, path)
        return path

    def spawn(self, pid: int, affinity: str = "0") -> int:
        """A process in every root group."""
        task = self.root / f"proc/{pid}/task/{pid}"
        task.mkdir(parents=True)
        (task / "status").write_text(f"Cpus_allowed_list:\t{affinity}\n")
        self._groups[pid] = {}
        for path in self._mounts:
            self._put(pid, path)
        return pid

    def begin(self, pid: int) -> None:
        """Gives a process the start time that identifies it."""
        stat = f"{pid} (rank) S 1 {'0 ' * 17}{pid} 0\n"
        (self.root / f"proc/{pid}/stat").write_text(stat)

    def starts(self, pid: int, *children: int) -> None:
        """Makes processes the children of another one."""
        text = " ".join(map(str, children))
        (self.root / f"proc/{pid}/task/{pid}/children").write_text(text)

    def task(self, pid: int, group: Path, uid: int = 1000) -> int:
        """A process of a user in one group, with the facts that identify it."""
        self.spawn(pid)
        self.begin(pid)
        folder = self.root / f"proc/{pid}"
        (folder / "status").write_text(f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        self.place(pid, group)
        return pid

    def end(self, pid: int) -> None:
        """Ends a process: it leaves its groups and /proc."""
        for group in self._groups.pop(pid).values():
            self._list(group / "cgroup.procs", [p for p in self.members(group) if p != pid])
        for file in sorted((self.root / f"proc/{pid}").rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
        (self.root / f"proc/{pid}").rmdir()

    def group(self, path: Path) -> Path:
        """Makes groups like another program."""
        if not path.parent.exists():
            self.group(path.parent)
        os.mkdir(path)
        return path

    def place(self, pid: int, path: Path) -> None:
        """Moves a process like another program."""
        self.write(path / "cgroup.procs", str(pid))
        self.writes.clear()

    # -- looking ----------------------------------------------------------------------

    def value(self, path: Path) -> str:
        return path.read_text().strip()

    def members(self, path: Path) -> list[int]:
        return [int(word) for word in (path / "cgroup.procs").read_text().split()]

    # -- the kernel's side ------------------------------------------------------------

    def write(self, path: Path, text: str) -> None:
        self.writes.append((str(path), text))
        if not path.exists():
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        if path.name == "cgroup.procs":
            self._move(path.parent, int(text))
        elif path.name == "cgroup.subtree_control":
            self._control(path.parent, text)
        else:
            path.write_text(text + "\n")

    def _overwrite(self, fd: int, text: bytes, offset: int) -> int:
        os.ftruncate(fd, 0)
        return self._pwrite(fd, text, offset)

    def _mount_of(self, path: Path) -> Path | None:
        return next((m for m in self._mounts if m == path or m in path.parents), None)

    def _make(self, path: str | Path, mode: int = 0o777, **rest: object) -> None:
        self._mkdir(path, mode, **rest)  # type: ignore[arg-type]
        path = Path(path)
        mount = self._mount_of(path)
        if mount is None or mount == path:
            return
        kind = self._mounts[mount]
        if kind != "cgroup2":
            self._fill_v1(path, kind)
            return
        handed = (path.parent / "cgroup.subtree_control").read_text()
        self._fill(path, {"cgroup.procs": "", "cgroup.subtree_control": "", **STAT_V2})
        self._fill(path, {"cgroup.controllers": handed, "cgroup.type": "domain"})
        self._fill(path, {"cgroup.freeze": "0"})
        if "cpu" in handed.split():
            self._fill(path, CPU_V2)

    def _remove(self, path: str | Path, **rest: object) -> None:
        path = Path(path)
        if self._mount_of(path) is None or not path.is_dir():
            self._rmdir(path, **rest)  # type: ignore[arg-type]
            return
        if self.members(path) or any(child.is_dir() for child in path.iterdir()):
            raise OSError(errno.EBUSY, "Device or resource busy", str(path))
        for child in path.iterdir():
            child.unlink()
        self._rmdir(path)
        self.attributes = {k: v for k, v in self.attributes.items() if k[0] != str(path)}

    def _move(self, path: Path, pid: int) -> None:
        if pid not in self._groups:
            raise ProcessLookupError(errno.ESRCH, "No such process")
        inner = path / "cgroup.subtree_control"
        if (path / "cgroup.type").exists() and inner.read_text().split():
            raise OSError(errno.EBUSY, "Device or resource busy")
        self._put(pid, path)

    def _put(self, pid: int, path: Path) -> None:
        mount = self._mount_of(path)
        assert mount is not None
        old = self._groups[pid].get(mount)
        if old is not None:
            self._list(old / "cgroup.procs", [p for p in self.members(old) if p != pid])
        self._list(path / "cgroup.procs", [*self.members(path), pid])
        self._groups[pid][mount] = path
        lines = []
        for number, (where, group) in enumerate(self._groups[pid].items(), start=1):
            kind = self._mounts[where]
            prefix = "0::" if kind == "cgroup2" else f"{number}:{kind}:"
            lines.append(f"{prefix}/{group.relative_to(where)}".removesuffix("/."))
            if lines[-1].endswith(":"):
                lines[-1] += "/"
        (self.root / f"proc/{pid}/cgroup").write_text("\n".join(lines) + "\n")

    def _control(self, path: Path, text: str) -> None:
        file = path / "cgroup.subtree_control"
        now = set(file.read_text().split())
        name = text[1:]
        children = [child for child in path.iterdir() if child.is_dir()]
        if text.startswith("+"):
            if name not in (path / "cgroup.controllers").read_text().split():
                raise FileNotFoundError(errno.ENOENT, "No such file or directory")
            if (path / "cgroup.type").exists() and self.members(path):
                raise OSError(errno.EBUSY, "Device or resource busy")
            now.add(name)
        else:
            if any((c / "cgroup.subtree_control").read_text().split() for c in children):
                raise OSError(errno.EBUSY, "Device or resource busy")
            now.discard(name)
        file.write_text(" ".join(sorted(now)))
        for child in children:
            (child / "cgroup.controllers").write_text(" ".join(sorted(now)))
            if "cpu" not in now:
                for name in CPU_V2:
                    (child / name).unlink(missing_ok=True)
            elif not (child / "cpu.weight").exists():
                self._fill(child, CPU_V2)

    def _fill_v1(self, path: Path, kind: str) -> None:
        self._fill(path, {"cgroup.procs": ""})
        if "cpu" in kind.split(","):
            self._fill(path, CPU_V1)
        if "cpuacct" in kind.split(","):
            self._fill(path, {"cpuacct.usage": "1500000\n"})

    def _fill(self, path: Path, files: dict[str, str]) -> None:
        for name, text in files.items():
            if name not in self.without:
                (path / name).write_text(text)

    def _set_attribute(self, path: str | Path, name: str, value: bytes) -> None:
        self._check(path)
        self.attributes[str(path), name] = value

    def _get_attribute(self, path: str | Path, name: str) -> bytes:
        self._check(path)
        if (str(path), name) not in self.attributes:
            raise OSError(errno.ENODATA, "No data available", str(path))
        return self.attributes[str(path), name]

    def _remove_attribute(self, path: str | Path, name: str) -> None:
        self._get_attribute(path, name)
        del self.attributes[str(path), name]

    @staticmethod
    def _check(path: str | Path) -> None:
        if not Path(path).exists():
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))

    @staticmethod
    def _list(file: Path, pids: list[int]) -> None:
        file.write_text("".join(f"{pid}\n" for pid in pids))
