"""Mounts and processes, read from a made-up /proc; ending processes, for real."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cosched.linux.cgroups.mounts import Mount, parse_mountinfo
from cosched.linux.namespaces import (
    ProcessId,
    bears_mark,
    end_processes,
    outermost_below,
    processes_inside,
)

MOUNTINFO = r"""22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
24 22 0:20 / /sys rw,relatime shared:7 - sysfs sysfs rw
25 24 0:30 / /sys/fs/cgroup rw - tmpfs tmpfs rw
26 25 0:31 / /sys/fs/cgroup/cpu rw master:2 - cgroup cgroup rw,cpu
27 24 0:7 / /sys/kernel/debug rw - debugfs none rw
28 22 0:40 /my\040dir /mnt/a\040b rw - 9p host\134share rw
"""


def test_mountinfo_is_parsed_with_its_escapes():
    mounts = parse_mountinfo(MOUNTINFO)
    assert len(mounts) == 6
    rw = frozenset({"rw"})
    assert mounts[1] == Mount("/", "/sys", rw | {"relatime"}, "sysfs", "sysfs", rw)
    assert mounts[-1] == Mount("/my dir", "/mnt/a b", rw, "9p", "host\\share", rw)
    assert parse_mountinfo("\nnonsense\n") == []


def test_only_outermost_mounts_are_moved():
    below = outermost_below(parse_mountinfo(MOUNTINFO), Path("/sys"))
    assert below == [Path("/sys/fs/cgroup"), Path("/sys/kernel/debug")]


class FakeProc:
    """Namespaces are files, told apart by inode as the kernel's are."""

    def __init__(self, root):
        self.root = root
        (root / "ns").mkdir()
        (root / "proc").mkdir()
        (root / "proc" / "meminfo").write_text("")

    def inode(self, name):
        place = self.root / "ns" / name
        place.touch()
        return place.stat().st_ino

    def add(self, pid, mnt, net, mark="sysfs", state="S"):
        place = self.root / "proc" / str(pid)
        (place / "ns").mkdir(parents=True)
        for kind, name in (("mnt", mnt), ("net", net)):
            self.inode(name)
            (place / "ns" / kind).symlink_to(self.root / "ns" / name)
        (place / "mountinfo").write_text(
            MOUNTINFO + f"9 1 0:1 / /sys rw - sysfs {mark} rw\n"
        )
        fields = [state, *["0"] * 18, str(1000 + pid), "0"]
        (place / "stat").write_text(f"{pid} (a b) c) {' '.join(fields)}\n")


@pytest.fixture
def fake(tmp_path):
    fake = FakeProc(tmp_path)
    fake.add(1, "mnt0", "net0")
    fake.add(11, "mnt1", "net1", "cosched-lab-aa-lab1")
    fake.add(12, "mnt2", "net2", "cosched-lab-aa-lab2")
    fake.add(13, "mnt1", "net0", "cosched-lab-aa-lab1")
    fake.add(14, "mnt0", "net1")
    fake.add(15, "mnt1", "net1", "cosched-lab-aa-lab1", state="Z")
    fake.add(16, "mnt3", "net3", "cosched-lab-bb-lab1")
    return fake


def test_mark_or_network_identifies_members(fake, tmp_path):
    marked = processes_inside("cosched-lab-aa-", (), tmp_path)
    assert sorted(p.pid for p in marked) == [11, 12, 13]
    networks = [fake.inode("net1")]
    found = processes_inside("cosched-lab-aa-", networks, tmp_path)
    assert sorted(p.pid for p in found) == [11, 12, 13, 14]
    assert ProcessId(11, 1011) in found


def test_mark_is_searched_on_every_sysfs(fake, tmp_path):
    assert bears_mark(11, "cosched-lab-aa-", tmp_path)
    assert not bears_mark(11, "cosched-lab-bb-", tmp_path)
    assert not bears_mark(99, "cosched-lab-aa-", tmp_path)


def test_process_is_identified_by_its_start(fake, tmp_path):
    assert ProcessId.of(11, tmp_path) == ProcessId(11, 1011)
    assert ProcessId(11, 1011).alive(tmp_path)
    assert not ProcessId(11, 1010).alive(tmp_path)
    assert ProcessId.of(15, tmp_path) is None  # a zombie
    assert ProcessId.of(99, tmp_path) is None


@pytest.fixture
def child():
    children = []

    def start(code):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        children.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        identity = ProcessId.of(process.pid)
        assert identity is not None
        return process, identity

    yield start
    for process in children:
        process.kill()
        process.communicate()


def living(*processes):
    return lambda: [p for p in processes if p.alive()]


PATIENT = "import signal; print('ready', flush=True); signal.pause()"
STUBBORN = f"import signal; signal.signal(15, signal.SIG_IGN); {PATIENT}"


def test_process_that_obeys_sigterm_is_not_killed(child):
    process, identity = child(PATIENT)
    assert end_processes(living(identity), grace_s=30) == []
    assert process.wait() == -signal.SIGTERM


def test_process_that_ignores_sigterm_is_killed(child):
    process, identity = child(STUBBORN)
    assert end_processes(living(identity), grace_s=0.05) == []
    assert process.wait() == -signal.SIGKILL


def test_reused_pid_is_not_signalled(child):
    process, identity = child(PATIENT)
    other = ProcessId(identity.pid, identity.start_ticks - 1)
    assert end_processes(lambda: [other], grace_s=0, kill_s=0) == [other]
    assert process.poll() is None


def test_no_processes_need_no_wait():
    assert end_processes(list, grace_s=30) == []
