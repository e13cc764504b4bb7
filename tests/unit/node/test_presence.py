"""Removed names of a running daemon, and the process in reserve of a timer daemon."""

from __future__ import annotations

import itertools
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from cosched.core.complaints import QUIET_NS, Complaints
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.node.children.kept_child import MOST_DELAYS, KeptChild
from cosched.node.lifetime.handover import lock_node
from cosched.node.lifetime.presence import Presence
from cosched.node.sockets.client import ControlClient
from cosched.node.timer.guardian import Guardian
from cosched.node.timer.spare import scheduler_above, start_spare
from cosched.rundir.lock import DaemonLock, lock_holder
from cosched.rundir.paths import NodePaths
from cosched.service.listener import UnixListener
from cosched.service.loop import Loop
from cosched.service.pacing import Pacer


@pytest.fixture
def paths():
    with tempfile.TemporaryDirectory(prefix="cosched-p-") as directory:
        paths = NodePaths(Path(directory), "n")
        paths.directory.mkdir()
        yield paths


@pytest.fixture
def daemon(paths):
    """A daemon's lock and control socket, and its presence."""
    loop, lock = Loop(), DaemonLock(paths.scheduler_lock)
    assert lock.acquire()
    listener = UnixListener(
        paths.control_socket,
        socket.SOCK_STREAM,
        loop,
        lambda connection, _peer: connection.close(),
        mode=0o600,
        complaints=Complaints(logging.warning, time.monotonic_ns),
        pacer=Pacer(loop, exempt=(os.geteuid(),)),
    )
    presence = Presence(lock, [listener])
    presence.lock = lock
    presence.listener = listener
    yield presence
    listener.close()
    lock.release()
    loop.close()


def test_removed_names_are_made_again(paths, daemon, caplog):
    assert daemon.keep()
    assert caplog.records == []
    paths.scheduler_lock.unlink()
    paths.control_socket.unlink()
    assert lock_holder(paths.scheduler_lock) is None
    assert daemon.keep()
    assert lock_holder(paths.scheduler_lock) == os.getpid()
    ControlClient(paths).close()
    assert [r.getMessage().partition(": ")[2] for r in caplog.records] == ["made again"] * 2
    assert daemon.keep()
    assert len(caplog.records) == 2


def test_daemon_without_its_directory_ends(paths, daemon):
    for path in paths.directory.iterdir():
        path.unlink()
    paths.directory.rmdir()
    assert not daemon.keep()
    assert not daemon.replaced
    paths.directory.mkdir()


def test_daemon_ends_for_another_only_if_that_has_its_socket(paths, daemon):
    """``cosched up`` has the lock while it asks the daemon that has lost it."""
    paths.scheduler_lock.unlink()
    other = DaemonLock(paths.scheduler_lock)
    assert other.acquire()
    assert daemon.keep()
    assert daemon.keep()
    other.release()
    assert daemon.keep()
    assert lock_holder(paths.scheduler_lock) == os.getpid()
    assert daemon.lock.is_in_place()

    paths.scheduler_lock.unlink()
    paths.control_socket.unlink()
    assert other.acquire()
    with socket.socket(socket.AF_UNIX) as others:
        others.bind(str(paths.control_socket))
        assert not daemon.keep()
        assert daemon.replaced
        daemon.listener.close()
        daemon.listener.close = lambda: None
        daemon.lock.release()
        assert paths.control_socket.exists()
        assert other.is_in_place()
    other.release()


def test_up_starts_no_daemon_beside_one_without_its_lock_file(paths):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(paths.control_socket))
        listener.listen()

        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b'{"pid": 7}\n')

        answering = threading.Thread(target=answer)
        answering.start()
        with pytest.raises(CoschedError, match=r"up already \(pid 7\)"):
            lock_node(paths)
        answering.join()
    assert not paths.scheduler_lock.exists()
    lock = lock_node(paths)  # it is dead now
    assert lock.is_in_place()
    lock.release()


# -- a child that cannot be started ---------------------------------------------------


class Times:
    """A loop in virtual time."""

    def __init__(self, monkeypatch):
        self.now_ns = 0
        self.calls = []
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.now_ns)

    def call_at(self, at_ns, call):
        self.calls.append((at_ns, call))

    def run(self, until_ns):
        while self.calls and self.calls[0][0] <= until_ns:
            self.now_ns, call = self.calls.pop(0)
            call()


def test_child_that_cannot_be_forked_logs_a_line_a_minute(monkeypatch, caplog):
    tries = []

    class Refused(KeptChild):
        def _launch(self):
            tries.append(times.now_ns)
            raise OSError(11, "Resource temporarily unavailable")

    times = Times(monkeypatch)
    delay_ns = NS_PER_S // 10
    kept = Refused(times, "timer daemon", delay_ns)
    kept._complaints = Complaints(logging.warning, lambda: times.now_ns)
    kept._start_again()
    times.run(10 * QUIET_NS)
    assert len(caplog.records) == 10
    assert len(tries) < 200
    gaps = [later - before for before, later in itertools.pairwise(tries)]
    assert gaps[0] == delay_ns
    assert max(gaps) == MOST_DELAYS * delay_ns


# -- the process in reserve -----------------------------------------------------------


@pytest.fixture
def sleepers():
    """Starts processes that stand for daemons, each with a pidfd."""
    processes = []

    def start():
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        processes.append((process, os.pidfd_open(process.pid)))
        return processes[-1]

    yield start
    for process, pidfd in processes:
        process.kill()
        process.communicate()
        os.close(pidfd)


@pytest.fixture
def reserve(paths, sleepers):
    """Starts a reserve, which makes a file when it restores. Its timer daemon seems to be
    another process, which can be killed."""
    lock = DaemonLock(paths.timer_lock)
    assert lock.acquire()
    restored = paths.directory / "restored"

    def start(scheduler):
        timer, pidfd = sleepers()
        daemons = [pidfd] if scheduler is None else [pidfd, scheduler]
        spare = start_spare(daemons, lock, paths.spare_lock, restored.touch)
        assert lock_holder(paths.spare_lock) == spare.pid

        def die():
            spare._line.close()
            assert not restored.exists()
            timer.kill()

        spare.die = die
        return spare

    yield start
    assert lock_holder(paths.timer_lock) == os.getpid()
    lock.release()


def test_dismissed_reserve_restores_nothing(paths, reserve, sleepers):
    reserve(sleepers()[1]).dismiss()
    assert not (paths.directory / "restored").exists()
    assert not paths.spare_lock.exists()


@pytest.mark.parametrize("first", ["timer", "scheduler"])
def test_reserve_restores_only_after_both_have_died(paths, reserve, sleepers, first):
    scheduler, pidfd = sleepers()
    spare = reserve(pidfd)
    deaths = [spare.die, scheduler.kill]
    for die in deaths if first == "timer" else deaths[::-1]:
        assert not (paths.directory / "restored").exists()
        die()
    assert os.waitstatus_to_exitcode(os.waitpid(spare.pid, 0)[1]) == 0
    assert (paths.directory / "restored").exists()
    assert not paths.spare_lock.exists()


def test_reserve_without_a_scheduler_daemon_restores_at_once(paths, reserve):
    spare = reserve(None)
    spare.die()
    os.waitpid(spare.pid, 0)
    assert (paths.directory / "restored").exists()


def test_next_reserve_ends_the_older_one(paths, reserve, sleepers):
    _, pidfd = sleepers()
    older = reserve(pidfd)
    older.die()
    newer = reserve(pidfd)
    assert os.WIFSIGNALED(os.waitpid(older.pid, 0)[1])
    newer.dismiss()
    assert not (paths.directory / "restored").exists()


@pytest.mark.parametrize("ended", [False, True])
def test_scheduler_daemon_is_the_parent_while_its_pipe_is_open(ended):
    read_end, write_end = os.pipe()
    if ended:
        os.close(write_end)
    pidfd = scheduler_above(read_end)
    assert (pidfd is None) == ended
    if not ended:
        assert f"Pid:\t{os.getppid()}\n" in Path(f"/proc/self/fdinfo/{pidfd}").read_text()
        os.close(pidfd)
        os.close(write_end)
    os.close(read_end)


def test_guardian_leaves_a_node_with_another_daemon_alone(paths):
    lock = DaemonLock(paths.scheduler_lock)
    assert lock.acquire()
    calls = []

    class Classes:
        def __getattr__(self, name):
            return lambda *_: calls.append(name)

    before = signal.getsignal(signal.SIGTERM)
    for after, done in ((os.getpid() + 1, []), (os.getpid(), ["restore"])):
        guardian = Guardian(paths, Classes(), after)
        guardian.run()
        guardian._loop.close()
        assert calls == done  # the second one's daemon is dying
    signal.signal(signal.SIGTERM, before)
    lock.release()
