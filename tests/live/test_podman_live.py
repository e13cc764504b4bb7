"""Tasks in containers of a real Podman: shares are set in the containers' own groups."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cosched.linux.cgroups.cgroupfs import hierarchies
from tests.live.conftest import eventually

pytestmark = [
    pytest.mark.live,
    pytest.mark.long,
    pytest.mark.skipif(
        not (shutil.which("podman") and shutil.which("runc")),
        reason="apt-get install podman runc",
    ),
]

LIMIT_BYTES = 256 << 20
#: The machine's own files, of which a container changes a copy. runc also knows version 1.
PODMAN = (
    *("podman", "--runtime", "runc", "--cgroup-manager", "cgroupfs", "run", "--rm", "-i"),
    *("--network", "none", "--ipc", "host", "--pid", "host", "--memory", str(LIMIT_BYTES)),
    *("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"),
)


def container(node):
    run_dir = str(node.paths.run_dir)
    return (*PODMAN, "-v", f"{run_dir}:{run_dir}", "--rootfs", "/:O")


def limits():
    """Returns the memory limits of all containers, by the names of their groups."""
    found = {}
    for hierarchy in hierarchies():
        for name in ("memory.limit_in_bytes", "memory.max"):
            for file in hierarchy.mount_point.glob(f"libpod_parent/libpod-*/{name}"):
                found[file.parent.name] = int(file.read_text())
    return found


def test_containers_are_steered_in_their_own_groups(node):
    node.up(slice="30s")
    tasks = [node.task(name, through=container(node)) for name in ("a", "b")]
    assert [task.error for task in tasks] == [0, 0]
    places = {name: node.job(name)["class"] for name in ("a", "b")}
    groups = [Path(group) for place in places.values() for group in place["groups"]]
    print(places)
    assert [place["ways"] for place in places.values()] == [["in place"]] * 2
    assert len({group.name for group in groups}) == 2
    assert all(group.parent.name == "libpod_parent" for group in groups)
    assert limits() == dict.fromkeys((group.name for group in groups), LIMIT_BYTES)
    weights = sorted(int((group / "cpu.shares").read_text()) for group in groups)
    assert weights[1] == 1024
    assert weights[0] < 50
    for task in tasks:
        assert task.ask("leave") == "bye"
    eventually(lambda: not node.status()["jobs"], "both gone")
    still = [group for group in groups if group.exists()]
    assert all((group / "cpu.shares").read_text() == "1024\n" for group in still)


def test_podman_left_nothing():
    words = ["podman", "ps", "-aq"]
    assert subprocess.run(words, capture_output=True, check=True).stdout == b""
