"""Attacks a node's daemons as other users, without root: each harms only the attacker.

tests/live/test_hostile_live.py has the attacks that need real daemons and a second user.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import mmap
import os
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.complaints import Complaints
from cosched.core.errors import CoschedError
from cosched.core.node.messages import OrderTimer
from cosched.linux import pidfd
from cosched.linux.cgroups import cgroupfs
from cosched.linux.probe import attach
from cosched.node.bell import silence
from cosched.node.lifetime.remains import remove_regions
from cosched.node.records import log_file
from cosched.node.sockets.control import ControlSocket, parse_request
from cosched.node.sockets.registration import Applicant, TaskHello
from cosched.node.tasks.job_table import JobTable
from cosched.node.tasks.left import attach_left, find_left, left_regions
from cosched.rundir import directories, lock
from cosched.rundir.directories import (
    check_own_domain,
    domain_dir_to_ask,
    make_node_directory,
    own_run_dir,
    run_dir_to_ask,
)
from cosched.rundir.lock import DaemonLock, hold_daemon, lock_holder
from cosched.rundir.paths import NodePaths, check_job_name
from cosched.service import listener
from cosched.service.allowance import MALFORMED_TIMES, REST, Allowance
from cosched.service.listener import hold_peer, peer_of
from cosched.service.loop import Loop
from cosched.service.pacing import Lane, Pacer
from cosched.shm.objects import SHM
from cosched.shm.region import JobRegion, NodeRegion
from tests.fakes import eventually
from tests.unit.linux.fake_cgroups import FakeKernel

SOMEBODY = 12345
LONG = 8 << 20  # bytes, more than a socket holds

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user: root")


# -- the control socket ---------------------------------------------------------------


@pytest.fixture
def served(tmp_path):
    """A control socket whose loop runs in a thread; calls give a connected client."""
    loop, clients = Loop(), []
    path = tmp_path / "control.sock"
    control = ControlSocket(
        path,
        loop,
        mode=0o600,
        readers={
            "status": lambda _: {"fine": True},
            "long": lambda _: {"long": "x" * LONG},
            "full": lambda _: os.open("/" + "x" * 300, os.O_RDONLY),
        },
        writers={},
        owners={"whose": lambda request, uid: {"uid": uid, "job": str(request.get("job"))}},
        held={},
        on_lease_end=lambda: None,
        complaints=Complaints(logging.warning, time.monotonic_ns),
        pacer=Pacer(loop, exempt=(os.geteuid(),)),
        line_ns=2_000_000_000,
    )
    thread = threading.Thread(target=loop.run)
    thread.start()

    def connect():
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(30)
        client.connect(str(path))
        clients.append(client)
        return client

    yield connect
    wake = connect()
    loop.call_at(0, loop.stop)
    wake.sendall(b"{}\n")
    thread.join()
    for client in clients:
        client.close()
    control.listener.close()
    loop.close()


def ask(client, line):
    client.sendall(line + b"\n")
    return json.loads(client.makefile("rb").readline())


@pytest.mark.parametrize(
    "line",
    [
        b'{"op":' + b"[" * 60000,
        b'{"op": "whose", "job": ' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"op": ' + b'{"a":' * 9000 + b"1" + b"}" * 9000 + b"}",
        b'{"op": []}',
        b'{"op": {}}',
        b'{"op": null}',
        b'{"op": "status", "x": [1]}',
        b"[" * 30000,
        b'{"op": ' + b"9" * 6000 + b"}",
        b"\xff\xfe",
        rb'{"op": "\ud800"}',
        rb'{"op": "whose", "job": "\ud800"}',
        b"",
    ],
)
def test_bad_request_gets_only_an_error(served, line):
    client = served()
    assert "not a request" in ask(client, line)["error"]
    assert ask(client, b'{"op": "status"}') == {"fine": True}


def test_odd_names_are_answered_as_text(served):
    client = served()
    assert "unknown op" in ask(client, rb'{"op": "\u0000\n\u2028"}')["error"]
    assert ask(client, rb'{"op": "whose", "job": "\u0007"}')["job"] == "\x07"


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_parsed_request_is_flat(document):
    request = parse_request(json.dumps(document).encode())
    if request is not None:
        assert isinstance(request["op"], str)
        json.dumps(request)


@given(st.binary())
def test_request_parser_accepts_any_bytes(line):
    assert parse_request(line) is None or isinstance(parse_request(line), dict)


def test_half_a_line_closes_only_its_connection(served, caplog):
    silent, other = served(), served()
    silent.sendall(b'{"op": "sta')
    assert ask(other, b'{"op": "status"}') == {"fine": True}
    assert silent.recv(100) == b""
    assert ask(other, b'{"op": "status"}') == {"fine": True}
    assert [r.message for r in caplog.records if "not finished" in r.message] == [
        f"user {os.geteuid()}: control: a line was not finished"
    ]


def test_endless_line_closes_its_connection(served):
    endless, other = served(), served()
    with pytest.raises(ConnectionError):
        endless.sendall(b"x" * (200 * 65536))
    assert ask(other, b'{"op": "status"}') == {"fine": True}


def test_lack_of_descriptors_is_an_answer(served, caplog):
    client = served()
    assert ask(client, b'{"op": "full"}') == {"error": "not now: File name too long"}
    assert ask(client, b'{"op": "full"}') == {"error": "not now: File name too long"}
    assert ask(client, b'{"op": "status"}') == {"fine": True}
    assert len(caplog.records) == 1


def test_requests_in_one_write_are_answered_in_order(served):
    client = served()
    client.sendall(b'{"op": "status"}\n' * 2000 + b'{"op": "none"}\n')
    lines = client.makefile("rb")
    assert [json.loads(lines.readline()) for _ in range(2000)] == [{"fine": True}] * 2000
    assert "unknown op" in json.loads(lines.readline())["error"]


def test_long_answer_arrives_whole_and_blocks_no_client(served):
    patient, other = served(), served()
    patient.sendall(b'{"op": "long"}\n{"op": "status"}\n{"op": "sta')
    assert ask(other, b'{"op": "status"}') == {"fine": True}
    lines = patient.makefile("rb")
    assert json.loads(lines.readline()) == {"long": "x" * LONG}
    assert json.loads(lines.readline()) == {"fine": True}
    patient.sendall(b'tus"}\n')
    assert json.loads(lines.readline()) == {"fine": True}


def test_unread_answer_closes_only_its_connection(served, caplog):
    deaf, other = served(), served()
    deaf.sendall(b'{"op": "long"}\n')
    assert ask(other, b'{"op": "status"}') == {"fine": True}
    assert eventually(lambda: "not read" in caplog.text)
    got = 0
    while data := deaf.recv(1 << 20):
        got += len(data)
    assert 0 < got < LONG
    assert ask(other, b'{"op": "status"}') == {"fine": True}


def test_client_gone_before_the_answer_is_dropped(served):
    gone, other = served(), served()
    gone.sendall(b'{"op": "long"}\n')
    assert len(gone.recv(100)) == 100
    gone.close()
    assert ask(other, b'{"op": "status"}') == {"fine": True}


# -- pacing and complaints ------------------------------------------------------------


class Clockwork:
    """A loop in virtual time, and work that takes some."""

    def __init__(self):
        self.now_ns = 0
        self.calls = deque()
        self.done = []

    def call_at(self, at_ns, function):
        self.calls.append((at_ns, function))

    def work(self, who, takes_ns=100):
        def do():
            self.done.append((self.now_ns, who))
            self.now_ns += takes_ns

        return do

    def run(self):
        while self.calls:
            self.calls = deque(sorted(self.calls, key=lambda call: call[0]))
            at_ns, function = self.calls.popleft()
            self.now_ns = max(self.now_ns, at_ns)
            function()


def pacer_of(clock, burst_ns=0):
    pacer = Pacer(clock, exempt=[0], now_ns=lambda: clock.now_ns, burst_ns=burst_ns)
    return pacer, Lane(lambda: clock.now_ns)


def test_user_gets_a_tenth_of_the_time_for_all_connections():
    clock = Clockwork()
    pacer, lane = pacer_of(clock)
    for _ in range(50):
        pacer.submit(SOMEBODY, lane, clock.work("flood"))
    clock.run()
    assert len(clock.done) == 50
    assert clock.now_ns == 50 * 100 * (1 + REST)


def test_others_are_served_while_a_user_rests():
    clock = Clockwork()
    pacer, lane = pacer_of(clock)
    for _ in range(20):
        pacer.submit(SOMEBODY, lane, clock.work("flood"))
    pacer.submit(1, lane, clock.work("other"))
    for _ in range(5):
        pacer.submit(0, lane, clock.work("root"))
    clock.run()
    order = [who for _, who in clock.done]
    assert order[:3] == ["flood", "other", "root"]
    assert order.index("flood", 1) > max(i for i, who in enumerate(order) if who == "root")


def test_burst_is_free_but_constant_work_gets_a_tenth():
    clock = Clockwork()
    pacer, lane = pacer_of(clock, burst_ns=1000)
    for _ in range(200):
        pacer.submit(SOMEBODY, lane, clock.work("registers"))
    clock.run()
    began = [at_ns for at_ns, _ in clock.done]
    assert began[:11] == [100 * n for n in range(11)]
    assert began[100:] == [began[100] + 100 * (1 + REST) * n for n in range(100)]


def test_long_queue_of_one_kind_does_not_delay_another():
    clock = Clockwork()
    pacer, registrations = pacer_of(clock)
    bells = Lane(lambda: clock.now_ns)
    for _ in range(20):
        pacer.submit(SOMEBODY, registrations, clock.work("registers"))
    for _ in range(2):
        pacer.submit(SOMEBODY, bells, clock.work("rings"))
    clock.run()
    order = [who for _, who in clock.done]
    assert order[:5] == ["registers", "registers", "rings", "registers", "rings"]


def test_work_on_malformed_input_counts_several_times():
    clock = Clockwork()
    pacer, lane = pacer_of(clock)

    def malformed():
        clock.work("malformed")()
        pacer.note_malformed()

    for work in (malformed, clock.work("fine"), clock.work("last")):
        pacer.submit(SOMEBODY, lane, work)
    clock.run()
    fine = 100 + REST * MALFORMED_TIMES * 100
    assert clock.done == [
        (0, "malformed"),
        (fine, "fine"),
        (fine + 100 + REST * 100, "last"),
    ]


def test_work_that_could_not_wait_counts_too():
    clock = Clockwork()
    pacer, lane = pacer_of(clock)
    clock.now_ns = 100
    pacer.charge(SOMEBODY, 100)
    pacer.submit(SOMEBODY, lane, clock.work("asks"))
    clock.now_ns = 150
    pacer.charge(SOMEBODY, 50)
    pacer.charge(0, 100)
    pacer.submit(0, lane, clock.work("root"))
    clock.run()
    assert clock.done == [(150, "root"), (100 + 50 + REST * 150, "asks")]


@given(
    st.lists(
        st.tuples(
            st.integers(1, 3),  # the user
            st.sampled_from(["connect", "ring", "ask"]),
            st.integers(0, 300),  # how long it takes
            st.integers(0, 400),  # how long the user waits before the next
        ),
        max_size=60,
    )
)
def test_no_user_takes_more_than_a_tenth_after_a_burst(plan):
    """Over any time, whatever the kinds of work and their order."""
    burst_ns = 500
    clock = Clockwork()
    pacer, asks = pacer_of(clock, burst_ns)
    rings = Lane(lambda: clock.now_ns)
    used = []

    def work(uid, takes_ns):
        def do():
            used.append((clock.now_ns, uid, takes_ns))
            clock.now_ns += takes_ns

        return do

    def come(uid, kind, takes_ns):
        if kind == "connect":  # the user is known only afterwards
            clock.now_ns += takes_ns
            pacer.charge(uid, takes_ns)
        else:
            pacer.submit(uid, asks if kind == "ask" else rings, work(uid, takes_ns))

    at_ns = 0
    for uid, kind, takes_ns, pause_ns in plan:
        clock.call_at(at_ns, lambda u=uid, k=kind, t=takes_ns: come(u, k, t))
        at_ns += pause_ns
    clock.run()
    assert len(used) == sum(kind != "connect" for _, kind, _, _ in plan)
    for uid in (1, 2, 3):
        own = [(began, takes) for began, who, takes in used if who == uid]
        for first, (since_ns, _) in enumerate(own):
            for last in range(first, len(own)):
                span_ns = own[last][0] - since_ns  # the last one may begin, and then rests
                taken_ns = sum(takes for _, takes in own[first:last])
                assert taken_ns * (1 + REST) <= span_ns + REST * (burst_ns + 300)


def test_rested_user_may_burst_again():
    allowance = Allowance(1000)
    assert allowance.charge("a", 2000, 2000) == REST * 1000
    assert allowance.charge("b", 1000, 2000) == 0
    assert allowance.charge("a", 100, 2100) == REST * 1100
    assert allowance.rest_ns("a", 3000) == REST * 1100 - 900
    assert allowance.charge("a", 1000, 2100 + REST * 2100 + 1000) == 0
    assert allowance.rest_ns("c", 0) == 0


def test_settled_debts_are_forgotten():
    allowance = Allowance(1000)
    for user in range(10_000):
        allowance.charge(user, 10, 100 * user)
    assert len(allowance) < 200
    allowance.charge("debtor", 5000, 10**6)
    for user in range(1000):
        allowance.charge(user, 0, 10**6 + 1)
    assert allowance.rest_ns("debtor", 10**6 + 1) == REST * 4000 - 1


# -- the process at the other end -----------------------------------------------------


@pytest.fixture
def visitor(tmp_path):
    """Makes a child connect and pass its end to this process, which then holds it."""
    path = str(tmp_path / "door.sock")
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    door.bind(path)
    os.chmod(path, 0o666)
    door.listen()
    held = []

    def visit(uid=None):
        mine, childs = socket.socketpair()
        stay, leave = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(leave)
            end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            end.connect(path)
            socket.send_fds(childs, [b"x"], [end.fileno()])
            if uid is not None:
                os.setresuid(uid, uid, uid)
            childs.send(b"y")
            os.read(stay, 1)
            os._exit(0)
        os.close(stay)
        _, fds, *_ = socket.recv_fds(mine, 1, 1)
        assert mine.recv(1) == b"y"
        connection, _ = door.accept()
        held.append((connection, fds[0], leave, mine, childs))

        def end():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

        return connection, pid, end

    yield visit
    for connection, fd, leave, *ends in held:
        connection.close()
        os.close(fd)
        os.close(leave)
        for one in ends:
            one.close()
    door.close()


@pytest.fixture(params=["peerpidfd", "older kernel"])
def kernels(request, monkeypatch):
    if request.param == "older kernel":
        monkeypatch.setattr(listener, "_SO_PEERPIDFD", 9999)


def test_pidfd_is_of_the_connecting_process(visitor, kernels):
    connection, pid, end = visitor()
    assert peer_of(connection).pid == pid
    fd = hold_peer(connection)
    assert not pidfd.exited(fd)
    end()
    assert pidfd.exited(fd)
    os.close(fd)


def test_unreadable_process_is_refused(visitor, kernels, monkeypatch):
    def full(_pid):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    connection, _, _ = visitor()
    before = sorted(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(listener.proc, "process_uids", full)
    with pytest.raises(OSError, match="Too many open files"):
        hold_peer(connection)
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_connection_of_an_ended_process_is_refused(visitor, kernels):
    """Otherwise a later process with the same pid could be registered through it."""
    connection, _, end = visitor()
    end()
    with pytest.raises(ProcessLookupError):
        hold_peer(connection)


@needs_root
def test_process_with_changed_user_is_refused(visitor, kernels):
    connection, _, end = visitor(SOMEBODY)
    with pytest.raises(ProcessLookupError, match="has ended"):
        hold_peer(connection)
    end()


def test_process_with_a_reused_pid_is_not_registered(visitor):
    connection, _, end = visitor()
    end()
    applicant = Applicant(connection, Loop(), TaskHello("a", 0, 1, 0, 0))
    applicant.answer(lambda *_: pytest.fail("registered a process that has ended"))
    assert connection.fileno() == -1


# -- control groups -------------------------------------------------------------------


def stat_line(start_ticks, parent=1):
    return f"1 (x) S {parent} " + "0 " * 17 + f"{start_ticks} 0\n"


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    fake = FakeKernel(tmp_path, monkeypatch)
    fake.mount("cpu,cpuacct", "/sys/fs/cgroup/cpu")
    return fake


def test_process_with_a_reused_pid_is_not_moved(kernel):
    classes = attach("n", "cgroup1", root=kernel.root)
    kernel.spawn(200)
    (kernel.root / "proc/200/stat").write_text(stat_line(9))
    classes.create("0.a", frozenset({0}))
    kernel.writes.clear()
    classes.add("0.a", 200, 7)
    assert kernel.writes == []


def test_pid_reused_during_the_move_returns_to_its_parent(kernel, monkeypatch):
    classes = attach("n", "cgroup1", root=kernel.root)
    base = kernel.root / "sys/fs/cgroup/cpu"
    session = kernel.group(base / "session")
    kernel.spawn(200)
    kernel.spawn(201)
    kernel.place(201, session)
    (kernel.root / "proc/200/stat").write_text(stat_line(7))
    classes.create("0.a", frozenset({0}))
    move = cgroupfs.move

    def reuse_and_move(directory, pid):
        if directory.name == "0.a":  # ours ended, and 201 has begun another
            (kernel.root / "proc/200/stat").write_text(stat_line(9, parent=201))
        return move(directory, pid)

    monkeypatch.setattr(cgroupfs, "move", reuse_and_move)
    classes.add("0.a", 200, 7)
    assert 200 in kernel.members(session)
    assert kernel.members(base / "cosched-n/0.a") == []


# -- shared memory --------------------------------------------------------------------


#: In /dev/shm, where other tests and daemons have theirs.
REGION = f"/cosched-hostile-{os.getpid()}"


@pytest.fixture
def planted():
    """Where the name is; and without what a test left there."""
    yield SHM / REGION[1:]
    for path in left():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def left():
    return list(SHM.glob(f"*{REGION[1:]}*"))


def plant_file(path, _other):
    path.write_text("planted")


def plant_link(path, other):
    other.write_text("precious")
    path.symlink_to(other)


def plant_directory(path, _other):
    (path / "full").mkdir(parents=True)


def plant_fifo(path, _other):
    os.mkfifo(path)


PLANTS = [plant_file, plant_link, plant_directory, plant_fifo]


@pytest.mark.parametrize("plant", PLANTS)
def test_planted_name_is_replaced_by_a_region(planted, tmp_path, plant):
    plant(planted, tmp_path / "other")
    region = JobRegion.create(REGION, "job", os.geteuid(), os.getegid())
    found = planted.lstat()
    assert stat.S_ISREG(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert JobRegion.attach(REGION, timeout_s=0).owner == os.geteuid()
    if plant is plant_link:
        assert (tmp_path / "other").read_text() == "precious"
    region.close()
    region.unlink()
    assert not planted.exists()


@pytest.mark.parametrize("plant", PLANTS)
def test_planted_object_is_no_region(planted, tmp_path, plant):
    plant(planted, tmp_path / "other")
    with pytest.raises(CoschedError, match=f"shared memory {REGION}"):
        JobRegion.attach(REGION, timeout_s=0)


@pytest.mark.usefixtures("planted")
def test_failed_region_leaves_nothing(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space"):
        JobRegion.create(REGION, "job", os.geteuid(), os.getegid())
    assert left() == []


@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize("error", [OSError(errno.ENOMEM, "no room"), ValueError("short")])
def test_unmapped_region_leaves_nothing(monkeypatch, error):
    def fail(*_):
        raise error

    region = JobRegion.create(REGION, "job", os.geteuid(), os.getegid())
    before = sorted(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(mmap, "mmap", fail)
    with pytest.raises(CoschedError):
        JobRegion.attach(REGION)
    assert sorted(os.listdir("/proc/self/fd")) == before
    with pytest.raises(type(error)):
        JobRegion.create(REGION, "job", os.geteuid(), os.getegid())
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert left() == []
    region.close()


@needs_root
def test_full_dev_shm_is_an_error_without_a_signal():
    program = (
        "import os; from cosched.shm.region import JobRegion; "
        "JobRegion.create('/cosched-x', 'job', os.geteuid(), os.getegid())"
    )
    full = 'mount -t tmpfs -o size=64k none /dev/shm && exec "$@"; '
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", full, "sh", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr


def test_only_regions_with_a_bell_are_taken_over(tmp_path):
    paths = NodePaths(tmp_path, "n")
    paths.bells.mkdir(parents=True)
    me = os.geteuid()
    mine, theirs = paths.job_region(f"{me}.a"), paths.job_region(f"{me + 1}.a")
    regions = [JobRegion.create(name, "a", me, os.getegid()) for name in (mine, theirs)]
    strange = SHM / f"{mine[1:]}\n[strange"
    strange.write_bytes(b"")
    os.mkfifo(paths.bell(f"{me + 1}.a"))
    try:
        with pytest.raises(CoschedError, match="no daemon of this node made it"):
            attach_left(paths, mine)
        with pytest.raises(CoschedError, match=f"belongs to uid {me}"):
            attach_left(paths, theirs)
        assert left_regions(paths) == [theirs]
        assert len(JobTable(paths).adopt()) == 1
        assert left_regions(paths) == []
        assert strange.exists()
        remove_regions(paths)
        assert list(SHM.glob(f"{paths.job_region_prefix[1:]}*")) == []
    finally:
        strange.unlink(missing_ok=True)
        for region in regions:
            region.close()
            region.unlink()


def test_planted_names_cost_a_restore_nothing(tmp_path, monkeypatch):
    """Not one of them is opened, whatever their number."""
    paths = NodePaths(tmp_path, "n")
    paths.bells.mkdir(parents=True)
    jobs = JobTable(paths)
    jobs.create("a", os.geteuid(), os.getegid())
    names = ["".join((paths.job_region("1.p")[1:], str(n))) for n in range(50)]
    try:
        for name in names:
            (SHM / name).touch()
        opened = []
        attach_one = JobRegion.attach.__func__

        def note(cls, name, **more):
            opened.append(name)
            return attach_one(cls, name, **more)

        monkeypatch.setattr(JobRegion, "attach", classmethod(note))
        found, refused = find_left(paths)
        assert opened == [paths.job_region(f"{os.geteuid()}.a")]
        assert len(found) == 1
        assert refused == {}
        found[0].region.close()
    finally:
        remove_regions(paths)
    assert not any((SHM / name).exists() for name in names)


def test_error_about_a_name_is_one_line():
    with pytest.raises(CoschedError) as caught:
        check_job_name("a\n2026-11-27 root: forged\x1b" + "x" * 5000)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200


def test_task_cannot_block_reads_of_its_bell(tmp_path):
    """A task may change the flags and the size of an open pipe."""
    paths = NodePaths(tmp_path, "n")
    paths.bells.mkdir(parents=True)
    jobs = JobTable(paths)
    job = jobs.create("a", os.geteuid(), os.getegid())
    try:
        fcntl.fcntl(job.task_bell_fd, fcntl.F_SETPIPE_SZ, 1 << 18)
        os.set_blocking(job.task_bell_fd, True)
        os.write(job.task_bell_fd, b"\1" * (1 << 17))
        silence(job.bell)
        assert select.select([job.bell], [], [], 0)[0], "the rest is for later"
        silence(job.bell)
        assert not select.select([job.bell], [], [], 0)[0]
        assert not os.get_blocking(job.bell)
        silence(job.bell)  # waits for nothing
    finally:
        jobs.destroy(job)


@pytest.mark.usefixtures("planted")
def test_half_written_orders_are_ignored():
    region = NodeRegion.create(REGION)
    region.give_orders(OrderTimer(idle=False, align=False, slice_ns=5, deadline_ns=6))
    assert region.orders().slice_ns == 5
    region.data.orders.generation += 1  # it died over the next ones
    assert region.orders() is None
    region.close()


# -- locks ----------------------------------------------------------------------------


def test_lock_is_private_and_has_its_holders_pid(tmp_path):
    mine = DaemonLock(tmp_path / "lock")
    (tmp_path / "lock").touch(0o666)
    assert mine.acquire()
    assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o600
    assert lock_holder(tmp_path / "lock") == os.getpid()
    held = hold_daemon(tmp_path / "lock")
    assert not pidfd.exited(held)
    os.close(held)
    assert not DaemonLock(tmp_path / "lock").acquire()
    mine.release()
    assert hold_daemon(tmp_path / "lock") is None


def test_lock_on_a_removed_file_is_taken_again(tmp_path, monkeypatch):
    path = tmp_path / "lock"
    flock, removed = fcntl.flock, []

    def remove_first(fd, operation):
        if not removed:
            removed.append(path.unlink())  # as the one before does at its end
        flock(fd, operation)

    monkeypatch.setattr(lock.fcntl, "flock", remove_first)
    mine = DaemonLock(path)
    assert mine.acquire()
    assert lock_holder(path) == os.getpid()
    mine.release()


def test_reader_of_a_lock_does_not_block_a_daemon(tmp_path, monkeypatch):
    path = tmp_path / "lock"
    path.touch()
    looker = os.open(path, os.O_RDONLY)
    fcntl.flock(looker, fcntl.LOCK_SH)
    yields = []

    def gone():
        yields.append(fcntl.flock(looker, fcntl.LOCK_UN))

    monkeypatch.setattr(lock.os, "sched_yield", gone)
    mine = DaemonLock(path)
    assert mine.acquire()
    assert yields
    mine.release()
    os.close(looker)


# -- the log --------------------------------------------------------------------------


@pytest.fixture
def bare_logging():
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = before
    root.setLevel(level)


def test_log_is_bounded_and_private(tmp_path, bare_logging):
    bare_logging.handlers.clear()  # pytest's would hand on what is logged as it is
    path = tmp_path / "scheduler.log"
    path.touch(0o644)
    handler = log_file.open_log(path, verbose=False, capture=False, limit_bytes=1000)
    joined = log_file._Following(path, 2000)
    for number in range(200):
        bare_logging.info("line %d of \ud800", number)
    joined.emit(bare_logging.makeRecord("t", 20, "f", 1, "the timer's", (), None))
    joined.close()
    handler.close()
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["scheduler.log", "scheduler.log.1"]
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    assert all(file.stat().st_size <= 1100 for file in files)
    assert path.read_text().splitlines()[-1] == "the timer's"


# -- directories ----------------------------------------------------------------------


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The user's own run directory and root's, both within the test's."""
    monkeypatch.setattr(directories, "ROOT_UID", os.geteuid())
    monkeypatch.setattr(directories, "default_run_dir", lambda *_: tmp_path / "own")
    return tmp_path / "own", tmp_path / "system"


@pytest.fixture
def daemons():
    opened = []

    def up(run_dir, node="n", name="control.sock"):
        (run_dir / node).mkdir(parents=True, mode=0o700, exist_ok=True)
        run_dir.chmod(0o700)
        opened.append(socket.socket(socket.AF_UNIX))
        opened[-1].bind(str(run_dir / node / name))
        opened[-1].listen()
        return opened[-1]

    yield up
    for one in opened:
        one.close()


def to_ask(places, euid=None, node=None):
    return run_dir_to_ask({}, os.geteuid() if euid is None else euid, node, places[1])


def test_own_daemons_precede_those_of_root(places, daemons):
    own, system = places
    assert to_ask(places) == own
    daemons(system)
    assert to_ask(places) == system
    mine = daemons(own)
    assert to_ask(places) == own
    mine.close()  # killed: its socket is still there
    assert to_ask(places) == system


def test_daemons_of_other_nodes_do_not_count(places, daemons):
    own, system = places
    daemons(own, "n")
    daemons(system, "m")
    assert to_ask(places, node="m") == system
    assert to_ask(places, node="n") == own
    assert to_ask(places, node="o") == own


def test_domain_may_be_elsewhere_than_the_daemons(places, daemons):
    own, system = places
    daemons(own)
    assert domain_dir_to_ask({}, os.geteuid(), system) == own
    daemons(system, "domain", "controller.sock")
    assert domain_dir_to_ask({}, os.geteuid(), system) == system
    assert to_ask(places) == own
    daemons(own, "n", "agent.sock")
    assert domain_dir_to_ask({}, os.geteuid(), system) == own


def test_directory_of_another_user_is_not_trusted(places, daemons, monkeypatch):
    own, system = places
    daemons(own)
    with pytest.raises(CoschedError, match=f"{own}: belongs to .*; have it removed"):
        to_ask(places, euid=SOMEBODY)
    with pytest.raises(CoschedError, match="belongs to"):
        own_run_dir({}, SOMEBODY)
    daemons(system)
    assert to_ask(places, euid=SOMEBODY) == system


def test_writable_directory_or_link_is_not_trusted(places, tmp_path):
    own, _ = places
    own.mkdir()
    own.chmod(0o777)
    with pytest.raises(CoschedError, match="chmod 700"):
        to_ask(places)
    own.rmdir()
    (tmp_path / "elsewhere").mkdir()
    own.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CoschedError, match="is not a directory"):
        to_ask(places)


def test_own_link_may_stand_for_the_directory_of_a_domain(tmp_path):
    disk, place = tmp_path / "disk", tmp_path / "domain"
    disk.mkdir()
    place.symlink_to(disk)
    check_own_domain(place, os.geteuid())
    disk.chmod(0o777)
    with pytest.raises(CoschedError, match=f"{disk}: others can write there"):
        check_own_domain(place, os.geteuid())
    with pytest.raises(CoschedError, match="is not a directory"):
        check_own_domain(place, SOMEBODY)  # another user's link


def test_named_directory_is_used_unchecked(tmp_path):
    asked = {"COSCHED_RUN_DIR": str(tmp_path)}
    assert run_dir_to_ask(asked, SOMEBODY) == tmp_path
    assert own_run_dir(asked, SOMEBODY) == tmp_path


def test_planted_node_directory_is_refused(tmp_path):
    paths = NodePaths(tmp_path, "n")
    make_node_directory(paths, os.geteuid(), private=True)
    assert stat.S_IMODE(paths.directory.stat().st_mode) == 0o700
    make_node_directory(paths, os.geteuid(), private=True)
    paths.directory.chmod(0o777)
    with pytest.raises(CoschedError, match="others can write"):
        make_node_directory(paths, os.geteuid(), private=True)
    paths.bells.rmdir()
    paths.directory.rmdir()
    paths.directory.symlink_to(tmp_path)
    with pytest.raises(CoschedError, match="is not a directory"):
        make_node_directory(paths, os.geteuid(), private=True)
