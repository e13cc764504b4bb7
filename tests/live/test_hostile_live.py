"""Attacks of another user on root's daemons: they stay up and serve the other users."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cosched.node.records.history_writer import RECENT_RECORDS
from cosched.node.records.user_lines import AT_ONCE
from cosched.node.sockets.client import ControlClient, request
from cosched.shm.region import JobRegion, NodeRegion
from tests.live.conftest import eventually
from tests.live.test_daemons_live import weights
from tests.places import ROOT

pytestmark = pytest.mark.live

STRANGER = 65534
OTHER = 65533
#: For how long the daemon's part of a CPU is measured.
MEASURED_S = 5.0


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
    for job in "vw":  # one of them waits, so its task is looked at
        node.task(job)
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
    for line in ("no new connections for now", "cannot look at killed tasks for now"):
        eventually(lambda line=line: line in log.read_text(), line)
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


# -- what one user costs ----------------------------------------------------------------


@pytest.fixture
def attack(node):
    """Starts an attack of a user, which lasts until the test ends."""
    running = []

    def start(kind, number):
        os.chmod(node.paths.run_dir, 0o755)
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.tools.attack"),
                *(str(node.paths.directory), kind, str(number)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "TASK_UID": str(STRANGER)},
            cwd=ROOT,
        )
        running.append(process)
        assert process.stdout.readline() == b"attacking\n"

    yield start
    for process in running:
        process.communicate(timeout=60)


def cpu_s(pid):
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    ("kind", "processes"),
    [("bells", 12), ("connect-register", 2), ("connect-control", 2), ("join", 4)],
)
def test_attack_of_a_user_takes_a_small_part_of_the_daemon(node, attack, kind, processes):
    """Without bounds a daemon of real-time priority uses all of a CPU."""
    node.up()
    daemon = node.scheduler_pid
    attack(kind, processes)
    time.sleep(2)  # a user may have a second of work at once
    began_s, used_s = time.monotonic(), cpu_s(daemon)
    registered = 0
    while time.monotonic() < began_s + MEASURED_S:
        task = node.task(f"v{registered}", uid=OTHER)
        assert task.error == 0
        registered += 1
        task.end()
    part = (cpu_s(daemon) - used_s) / (time.monotonic() - began_s)
    assert part < 0.35, f"{part:.0%} of a CPU beside {registered} registrations"
    assert request(node.paths, "status")["pid"] == daemon
    lines = node.paths.log.read_text().splitlines()
    assert sum(" DEBUG " not in line for line in lines) < 3 * AT_ONCE  # up() is verbose


def test_user_with_many_jobs_pushes_out_no_other_users_records(node, as_stranger):
    """Root has the many jobs, because an ordinary user would need minutes for them."""
    node.up()
    os.chmod(node.paths.run_dir, 0o755)
    for number in range(3):
        task = node.task(f"kept{number}", uid=STRANGER)
        assert task.error == 0
        assert task.ask("leave") == "bye"
    many = subprocess.run(
        [
            *(sys.executable, "-m", "tests.tools.attack"),
            *(str(node.paths.directory), "join", "1", str(RECENT_RECORDS + 100)),
        ],
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TASK_UID": "0"},
        cwd=ROOT,
        check=False,
    )
    assert many.returncode == 0
    eventually(lambda: not node.status()["jobs"], "the end of all jobs")

    def ask():
        own = [record["name"] for record in request(node.paths, "history")["records"]]
        assert own == [f"kept{number}" for number in range(3)]

    as_stranger(ask)


def test_planted_names_do_not_delay_a_restore(node, as_stranger, planted):
    node.up()
    tasks = [node.task(name) for name in "ab"]
    log = node.paths.log
    before = len(log.read_bytes())
    names = [node.paths.job_region(f"{STRANGER}.p{number}") for number in range(5000)]
    names.append(node.paths.job_region(f"{STRANGER}.a\n2026-11-27 INFO root: forged"))
    at = [Path(f"/dev/shm{name}") for name in names]
    planted.extend(at)

    def plant():
        for path in at:
            path.touch()

    as_stranger(plant)
    os.kill(node.scheduler_pid, signal.SIGKILL)
    eventually(lambda: all(task.scheduled for task in tasks), "all running", 5.0)
    eventually(lambda: len(set(weights(node).values())) == 1, "equal weights", 5.0)
    for task in tasks:
        assert task.ask("leave") == "bye"
        task.process.wait()
    eventually(lambda: node.timer_pid is None, "the guardian's end")
    assert node.remains() == []
    written = log.read_bytes()[before:].decode()
    assert len(written) < 2000
    assert "forged" not in written
