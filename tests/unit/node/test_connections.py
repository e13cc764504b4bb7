"""Connections of users to a daemon's socket: their cost, their number, and a full queue."""

from __future__ import annotations

import logging
import os
import socket
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.complaints import Complaints
from cosched.core.errors import CoschedError, NoDaemon
from cosched.node.sockets import client as client_module
from cosched.node.sockets.client import ControlClient, ask_each
from cosched.rundir.directories import is_listening
from cosched.rundir.paths import NodePaths
from cosched.service import listener as listening
from cosched.service.door import SHUT_MOST, Door, encode_list
from cosched.service.listener import Peer, UnixListener, users_share
from cosched.service.loop import Loop
from cosched.service.pacing import Lane, Pacer

USER = 12345


@pytest.fixture
def paths():
    with tempfile.TemporaryDirectory(prefix="cosched-c-") as directory:
        paths = NodePaths(Path(directory), "n")
        paths.directory.mkdir()
        yield paths


class Site:
    """A listener whose clients seem to be of another user, with a door that is written
    down, and a clock that only accepting moves."""

    def __init__(self, path, monkeypatch, *, lists=True, costs_ns=10_000):
        self.now_ns = 0
        self.uid = USER
        self.log = []
        self.accepted = []
        self.clients = []
        self.loop = Loop()
        self.at = []
        self.loop.call_at = lambda at_ns, call: self.at.append((at_ns, call))
        self.pacer = Pacer(self.loop, exempt=[0], now_ns=lambda: self.now_ns)
        monkeypatch.setattr(listening.time, "monotonic_ns", lambda: self.now_ns)
        monkeypatch.setattr(listening, "peer_of", self.peer_of)
        self.costs_ns = costs_ns
        self.came = 0
        self.listener = UnixListener(
            path,
            socket.SOCK_STREAM,
            self.loop,
            lambda connection, peer: self.accepted.append((connection, peer)),
            mode=0o666,
            complaints=Complaints(logging.warning, time.monotonic_ns),
            pacer=self.pacer,
            most=10_000,
        )
        self.path = path
        site = self

        class Noted:
            def shut(self, uid):
                if not lists:
                    raise OSError("no lists here")
                site.log.append(("shut", uid))

            def open(self, uid):
                site.log.append(("open", uid))

        self.listener._door = Noted()

    def peer_of(self, _connection):
        self.now_ns += self.costs_ns
        return Peer(1, self.uid, 1)

    def connect(self, number=1):
        for _ in range(number):
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            client.connect(str(self.path))
            self.clients.append(client)

    def come(self, number):
        """Lets so many clients connect, be accepted and leave."""
        self.came += number
        for _ in range(number):
            self.connect()
            self.listener._accept()
            self.clients.pop().close()
            self.accepted.pop()[0].close()

    def wait(self):
        """Lets the time of the next planned call come."""
        at_ns, call = self.at.pop(self.at.index(min(self.at, key=lambda one: one[0])))
        self.now_ns = max(self.now_ns, at_ns)
        call()

    def close(self):
        for client in [*self.clients, *(connection for connection, _ in self.accepted)]:
            client.close()
        self.listener.close()
        self.loop.close()


@pytest.fixture
def site(paths, monkeypatch):
    sites = []

    def make(**more):
        sites.append(Site(paths.control_socket, monkeypatch, **more))
        return sites[-1]

    yield make
    for one in sites:
        one.close()


def test_accepting_counts_in_the_users_account(site):
    one = site(costs_ns=2 * 10**9)
    one.come(1)
    lane, done = Lane(), []
    one.pacer.submit(USER, lane, lambda: done.append("late"))
    one.pacer.submit(USER + 1, lane, lambda: done.append("at once"))
    assert done == ["at once"]


def test_user_who_connects_all_the_time_is_shut_out_for_moments(site, caplog):
    one = site()
    for _ in range(20):
        before = one.log.count(("shut", USER))
        while one.log.count(("shut", USER)) == before:
            one.come(1)
        one.come(100)  # they were waiting already
        while one.log[-1] != ("open", USER):
            one.wait()
    assert one.log == [("shut", USER), ("open", USER)] * 20
    assert one.came * one.costs_ns < 0.2 * one.now_ns
    assert caplog.text.count("connects too often") == one.now_ns // (60 * 10**9) + 1


def test_other_users_and_a_big_job_are_not_shut_out(site):
    one = site()
    one.come(2000)
    one.uid = 0
    one.come(10_000)
    assert one.log == []


def test_all_wait_a_little_where_no_user_can_be_shut_out(site):
    one = site(lists=False)
    while not one.listener._paused:
        one.come(1)
    one.connect(100)
    began_ns, served = one.now_ns, len(one.accepted)
    while len(one.accepted) < served + 100:
        if one.listener._paused:
            one.wait()
        else:
            one.listener._accept()
    lasted_ns = one.now_ns - began_ns
    assert 3 * 100 * one.costs_ns <= lasted_ns <= 5 * 100 * one.costs_ns


def test_users_without_connections_are_forgotten(site):
    one = site()
    for uid in range(1, 500):
        one.uid = uid
        one.come(1)
    assert len(one.listener._open) == 1


def test_closed_listener_leaves_the_socket_of_another(paths, site):
    one = site()
    paths.control_socket.unlink()
    with socket.socket(socket.AF_UNIX) as another:
        another.bind(str(paths.control_socket))
        one.listener.close()
        one.listener.close = lambda: None
        assert paths.control_socket.exists()


def test_share_of_connections_is_bounded():
    assert 64 <= users_share() <= listening.USERS_MOST


# -- the list of a socket's file --------------------------------------------------------


@given(st.integers(0, 0o777), st.sets(st.integers(1, 2**32 - 2), max_size=SHUT_MOST))
def test_list_shuts_out_exactly_these_users(mode, shut):
    words = memoryview(encode_list(mode, shut)[4:]).cast("I")
    found = [
        (words[i] & 0xFFFF, words[i] >> 16, words[i + 1]) for i in range(0, len(words), 2)
    ]
    assert [
        uid for tag, permissions, uid in found if tag == 2 and not permissions
    ] == sorted(shut)
    others = {tag: permissions for tag, permissions, _ in found if tag != 2}
    group = mode >> 3 & 7
    assert others == {1: mode >> 6, 4: group, 0x10: group, 0x20: mode & 7}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user: root")
def test_kernel_refuses_a_user_who_is_shut_out(paths):
    paths.run_dir.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(paths.control_socket))
        paths.control_socket.chmod(0o666)
        server.listen()
        door = Door(paths.control_socket, 0o666)

        def reach(uid):
            child = os.fork()
            if child == 0:
                try:
                    os.setresuid(uid, uid, uid)
                    ControlClient(paths).close()
                    os._exit(0)
                except CoschedError as error:
                    os._exit(7 if "you have made too many" in str(error) else 9)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

        door.shut(USER)
        assert [reach(USER), reach(USER + 1), reach(0)] == [7, 0, 0]
        door.shut(USER + 1)
        door.open(USER)
        assert [reach(USER), reach(USER + 1)] == [0, 7]
        door.open(USER + 1)
        assert reach(USER + 1) == 0
        paths.control_socket.unlink()
        door.open(USER)


def test_door_has_room_for_some_users_only(paths):
    paths.control_socket.touch()
    door = Door(paths.control_socket, 0o666)
    for uid in range(1, SHUT_MOST + 1):
        door.shut(uid)
    with pytest.raises(OSError, match="No space"):
        door.shut(SHUT_MOST + 1)
    door.open(1)
    door.shut(SHUT_MOST + 1)


# -- clients of a daemon whose queue is full --------------------------------------------


@pytest.fixture
def full(paths):
    """A listening socket whose queue has no place, and the clients in it."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(paths.control_socket))
        server.listen(0)
        waiting = []
        while True:
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            waiting.append(client)
            try:
                client.connect(str(paths.control_socket))
            except BlockingIOError:
                break
        yield server
        for client in waiting:
            client.close()


def test_full_queue_is_no_missing_daemon(paths, full):
    with pytest.raises(CoschedError, match="has accepted no connection") as caught:
        ControlClient(paths, timeout_s=0.05)
    assert not isinstance(caught.value, NoDaemon)
    assert is_listening(paths.control_socket)


def test_client_waits_for_a_place_in_the_queue(paths, full):
    has_room = threading.Event()

    def make_room():
        has_room.set()
        full.accept()[0].close()

    accepting = threading.Timer(0.05, make_room)
    accepting.start()
    with closing(ControlClient(paths, timeout_s=30)):
        assert has_room.is_set()
    accepting.join()


def test_missing_daemon_is_reported_at_once(paths):
    for _ in ("no socket", "no listener"):
        with pytest.raises(NoDaemon):
            ControlClient(paths)
        with socket.socket(socket.AF_UNIX) as dead:
            paths.control_socket.unlink(missing_ok=True)
            dead.bind(str(paths.control_socket))
    assert not is_listening(paths.control_socket)


def test_wrong_name_of_a_node_is_answered_by_the_nodes_that_are_there(paths):
    def ask(of):
        with ControlClient(of):
            return "answer"

    def asked(*names):
        return list(ask_each(paths.run_dir, names, ask))

    with pytest.raises(NoDaemon, match=r"^node m: no scheduler daemon is up"):
        asked("m")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(paths.control_socket))
        listener.listen()
        assert asked() == asked("n") == [("n", "answer")]
        with pytest.raises(NoDaemon) as raised:
            asked("n", "m")
    assert str(raised.value) == f"node m: not found in {paths.run_dir}, which has n"
    assert asked() == []
    with pytest.raises(NoDaemon, match=r"^node n: no scheduler daemon is up"):
        asked("n")


def test_late_answer_is_reported_while_the_client_waits(paths, monkeypatch, caplog):
    monkeypatch.setattr(client_module, "SLOW_S", 0.01)
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(str(paths.control_socket))
        stopped.listen()
        with (
            ControlClient(paths, timeout_s=0.02) as client,
            pytest.raises(CoschedError, match="did not answer in time"),
        ):
            client.request("status")
    assert caplog.messages == ["node n: the daemon has not answered yet; waiting for it"]
