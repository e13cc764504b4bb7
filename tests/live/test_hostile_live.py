"""Attacks of another user on root's daemons: they stay up and serve the other users."""

from __future__ import annotations

import os
import resource
import socket
from pathlib import Path

import pytest

from cosched.node.sockets.client import ControlClient
from cosched.shm.region import JobRegion, NodeRegion
from tests.live.conftest import eventually

pytestmark = pytest.mark.live

STRANGER = 65534


@pytest.fixture
def as_stranger(node):
    """Runs a function in a child of another user, to its end."""

    def run(function):
        os.chmod(node.paths.run_dir, 0o755)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.setgroups([])
                os.setresgid(STRANGER, STRANGER, STRANGER)
                os.setresuid(STRANGER, STRANGER, STRANGER)
                function()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0

    return run


@pytest.fixture
def planted():
    """Paths that the test's other user made in /dev/shm, removed at the end."""
    paths = []
    yield paths
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)


def test_floods_and_bad_lines_affect_only_their_sender(node, as_stranger):
    node.up()
    daemon = node.scheduler_pid

    def trouble():
        clients = []
        for line in (
            b'{"op":' + b"[" * 60000,
            b'{"op": {}}',
            b'{"op": "sta',
            b"\0" * 60000,
        ):
            clients.append(socket.socket(socket.AF_UNIX))
            clients[-1].connect(str(node.paths.control_socket))
            clients[-1].sendall(line + b"\n" * (line[-1:] != b"a"))
        for _ in range(20):
            clients.append(socket.socket(socket.AF_UNIX))
            clients[-1].connect(str(node.paths.control_socket))
            clients[-1].setblocking(False)
            clients[-1].send(b'{"op": "status"}\n' * 4000)
        for _ in range(50):
            clients.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            clients[-1].connect(str(node.paths.register_socket))
        clients[-1].send(b"no hello")

    as_stranger(trouble)
    task = node.task("a")
    assert task.error == 0
    assert node.status()["pid"] == daemon


def test_daemon_without_descriptors_continues_later(node):
    node.up()
    daemon = node.scheduler_pid
    usual = resource.prlimit(daemon, resource.RLIMIT_NOFILE)
    assert usual[0] > 1024 or usual[0] == usual[1]
    used = len(os.listdir(f"/proc/{daemon}/fd"))
    resource.prlimit(daemon, resource.RLIMIT_NOFILE, (used + 5, usual[1]))
    clients = []
    for _ in range(40):
        clients.append(socket.socket(socket.AF_UNIX))
        clients[-1].connect(str(node.paths.control_socket))
    log = node.paths.log
    eventually(lambda: "no new connections for now" in log.read_text(), "a line")
    clients[0].sendall(b'{"op": "status"}\n')
    assert clients[0].recv(4096) == b'{"error":"not now: Too many open files"}\n'
    for client in clients:
        client.close()
    assert node.status()["pid"] == daemon
    assert log.read_text().count("no new connections") == 1
    assert node.task("a").error != 0  # it needs several: it runs on its own
    resource.prlimit(daemon, resource.RLIMIT_NOFILE, usual)
    assert node.task("a").error == 0
    assert node.status()["pid"] == daemon


def test_planted_shared_memory_stops_no_daemon(node, as_stranger, planted):
    paths = node.paths
    at = {
        what: Path(f"/dev/shm{name}")
        for what, name in {
            "directory": paths.node_region,
            "fifo": paths.job_region("0.fifo"),
            "file": paths.job_region("0.a"),
            "link": paths.job_region("0.link"),
            "region": paths.job_region(f"{STRANGER}.theirs"),
            "strange": paths.job_region("0.b\n;"),
        }.items()
    }
    planted.extend(at.values())

    def plant():
        at["directory"].mkdir()
        os.mkfifo(at["fifo"])
        at["file"].write_bytes(b"x" * JobRegion.size())
        at["link"].symlink_to("/etc/passwd")
        at["strange"].touch()
        region = JobRegion.create(f"/{at['region'].name}", "theirs", STRANGER, STRANGER)
        region.occupy(0, pid=os.getpid(), start_ticks=1, rank=0, world=1, carrier=0)

    as_stranger(plant)
    before = set(Path("/dev/shm").glob("planted.*"))
    node.up()
    planted.extend(set(Path("/dev/shm").glob("planted.*")) - before)
    assert node.status()["jobs"] == []
    region = NodeRegion.attach(paths.node_region)
    assert region.owner == os.geteuid()
    region.close()
    task = node.task("a")
    assert task.error == 0
    assert task.scheduled
    assert at["file"].stat().st_uid == os.geteuid()


def test_other_user_cannot_lock_or_read_the_log(node, as_stranger):
    node.up()

    def look():
        for path in (node.paths.scheduler_lock, node.paths.timer_lock, node.paths.log):
            with pytest.raises(PermissionError):
                os.open(path, os.O_RDONLY)

    as_stranger(look)
    with ControlClient(node.paths) as client:
        assert client.request("retire") == {"retired": False, "pid": node.scheduler_pid}
