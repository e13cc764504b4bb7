"""A task's link under signals, with closed descriptors, and with threads that wait when it
deregisters."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from cosched.shm._native import ffi, lib
from tests.fakes import FakeNode

PATIENCE_S = 30
TIMED_OUT = os.strerror(errno.ETIMEDOUT)

#: Attaches while a timer ticks each millisecond; prints the error and the reason.
TICKING = """
import signal, sys
from cosched.shm._native import ffi, lib
link, name = ffi.new("struct cosched_link *"), ffi.new("char[]", b"j")
part = ffi.new("struct cosched_registration *")
part.job, part.world = name, 1
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
error = lib.cosched_attach(link, sys.argv[1].encode(), part, int(sys.argv[2]))
signal.setitimer(signal.ITIMER_REAL, 0)
print(error, ffi.string(link.reason).decode())
"""

#: Detaches while threads pause, and asks them for more until they saw it.
LEAVING = """
import sys, threading
from cosched.shm._native import ffi, lib
link, name = ffi.new("struct cosched_link *"), ffi.new("char[]", b"j")
part = ffi.new("struct cosched_registration *")
part.job, part.world = name, 1
assert lib.cosched_attach(link, sys.argv[1].encode(), part, 5000) == 0
paused = threading.Semaphore(0)
def wait():
    while lib.cosched_sleep_unscheduled(link):
        paused.release()
        lib.cosched_arrived(link, 1)
        lib.cosched_looked(link)
threads = [threading.Thread(target=wait) for _ in range(4)]
for thread in threads:
    thread.start()
for _ in range(20):
    paused.acquire()
lib.cosched_detach(link)
for thread in threads:
    thread.join()
print("left")
"""

#: Attaches with no stdin, under a limit on open files, and says which number the bell has.
NUMBERED = """
import os, resource, sys
from cosched.shm._native import ffi, lib
link, name = ffi.new("struct cosched_link *"), ffi.new("char[]", b"j")
part = ffi.new("struct cosched_registration *")
part.job, part.world = name, 1
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), hard))
os.close(0)
assert lib.cosched_attach(link, sys.argv[1].encode(), part, 5000) == 0
print(link.bell)
lib.cosched_detach(link)
"""

#: Puts a file where the bell is, asks for its turn, forks, and leaves.
REPLACED = """
import os, sys
from cosched.shm._native import ffi, lib
link, name = ffi.new("struct cosched_link *"), ffi.new("char[]", b"j")
part = ffi.new("struct cosched_registration *")
part.job, part.world = name, 1
assert lib.cosched_attach(link, sys.argv[1].encode(), part, 5000) == 0
bell = link.bell
os.dup2(os.open(sys.argv[2], os.O_RDWR | os.O_CREAT), bell)
lib.cosched_looked(link)
lib.cosched_arrived(link, 1)
assert link.counters.posted == 1
child = os.fork()
if child == 0:
    lib.cosched_abandon(link)
    os.fstat(bell)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
lib.cosched_detach(link)
print(os.fstat(bell).st_size)
"""

#: Pauses once; prints errno, which was 0.
PAUSING = """
import sys
from cosched.shm._native import ffi, lib
link, name = ffi.new("struct cosched_link *"), ffi.new("char[]", b"j")
part = ffi.new("struct cosched_registration *")
part.job, part.world = name, 1
assert lib.cosched_attach(link, sys.argv[1].encode(), part, 5000) == 0
ffi.errno = 0
assert lib.cosched_sleep_unscheduled(link) == 1
print(ffi.errno)
"""


def run_script(script: str, *words: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


@pytest.fixture
def silent(tmp_path):
    """A socket that never accepts; two connections fit into its queue."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        path = tmp_path / "s"
        listener.bind(str(path))
        listener.listen(1)
        yield path, listener


@contextmanager
def filled(path):
    """Fills the queue of the socket: the next connection has to wait."""
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as first,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as second,
    ):
        first.connect(str(path))
        second.connect(str(path))
        yield


def test_registration_with_ticking_timer_times_out(silent):
    path, _ = silent
    said = run_script(TICKING, path, 200)
    assert said == f"{-errno.ETIMEDOUT} registration not answered: {TIMED_OUT}\n"


def test_connecting_with_ticking_timer_times_out(silent):
    path, _ = silent
    with filled(path):
        said = run_script(TICKING, path, 200)
    assert said == f"{-errno.ETIMEDOUT} no scheduler daemon: {TIMED_OUT}\n"


def test_late_registration_survives_ticking_timer(silent):
    path, listener = silent
    answer = ffi.new("struct cosched_welcome *")
    answer.magic, answer.abi = lib.COSCHED_HELLO_MAGIC, lib.COSCHED_ABI
    answer.error = -errno.EPERM
    answer.reason = b"not today"

    def serve() -> None:
        # The first two are the test's own: when they are let in there is room again.
        for _ in range(2):
            listener.accept()[0].close()
        with listener.accept()[0] as task:
            assert task.recv(4096)
            task.sendall(bytes(ffi.buffer(answer)))
            task.recv(1)  # until it has gone

    server = threading.Thread(target=serve)
    with filled(path):
        server.start()
        said = run_script(TICKING, path, 20_000)
    server.join()
    assert said == f"{-errno.EPERM} not today\n"


@contextmanager
def answering(listener, *connections):
    """Answers each connection by these errors and closes it. Then it listens no longer."""
    answer = ffi.new("struct cosched_welcome *")
    answer.magic, answer.abi = lib.COSCHED_HELLO_MAGIC, lib.COSCHED_ABI

    def serve() -> None:
        for number, errors in enumerate(connections, 1):
            with listener.accept()[0] as task:
                assert task.recv(4096)
                for error in errors:
                    answer.error = -error
                    task.sendall(bytes(ffi.buffer(answer)))
                if number == len(connections):
                    listener.close()

    server = threading.Thread(target=serve)
    server.start()
    yield
    server.join()


def say_hello(call: str, path, limit_ms: int, link=None) -> int:
    """Returns the result of cosched_attach or cosched_announce."""
    link, reason = link or ffi.new("struct cosched_link *"), ffi.new("char[128]")
    name, part = ffi.new("char[]", b"j"), ffi.new("struct cosched_registration *")
    part.job, part.world = name, 1
    if call == "attach":
        return lib.cosched_attach(link, str(path).encode(), part, limit_ms)
    return lib.cosched_announce(str(path).encode(), part, limit_ms, reason)


@pytest.mark.parametrize("call", ["attach", "announce"])
def test_timeout_covers_connecting_and_answer(silent, call):
    """A task that connects late has only the rest of the timeout for the answer."""
    path, listener = silent
    let_in: list[socket.socket] = []

    def serve() -> None:
        time.sleep(1.6)
        let_in.extend(listener.accept()[0] for _ in range(3))

    server = threading.Thread(target=serve)
    with filled(path):
        server.start()
        began = time.monotonic()
        assert say_hello(call, path, 2000) == -errno.ETIMEDOUT
        took_s = time.monotonic() - began
    server.join()
    for each in let_in:
        each.close()
    assert 1.9 < took_s < 3


def test_launched_process_does_not_wait_for_memory(silent):
    path, listener = silent
    with answering(listener, [errno.EINPROGRESS]):
        assert say_hello("announce", path, 2000) == -errno.EINPROGRESS


@pytest.mark.parametrize(
    ("errors", "error", "presence"),
    [
        ([], errno.ECONNRESET, "NO_DAEMON"),
        ([errno.EINPROGRESS], errno.ECONNREFUSED, "LEFT"),
    ],
)
def test_daemon_that_ends_during_a_registration_has_gone(silent, errors, error, presence):
    """It ends at once, or while the task waits for memory."""
    path, listener = silent
    link = ffi.new("struct cosched_link *")
    with answering(listener, errors):
        assert say_hello("attach", path, 300, link) == -error
    assert link.presence == getattr(lib, f"COSCHED_{presence}")


def test_task_that_waits_for_memory_registers_with_the_next_daemon(silent):
    path, listener = silent
    wait = [errno.EINPROGRESS] * 2
    with answering(listener, wait, wait, [errno.EPERM]):
        assert say_hello("attach", path, 5000) == -errno.EPERM


def report_launcher(path):
    """Reports this process as a launcher; returns the error and the time in seconds."""
    name, part = ffi.new("char[]", b"j"), ffi.new("struct cosched_registration *")
    part.job = name
    began = time.monotonic()
    error = lib.cosched_announce_launcher(str(path).encode(), part)
    return error, time.monotonic() - began


def test_launcher_waits_neither_for_an_answer_nor_for_a_daemon(silent, tmp_path):
    path, listener = silent
    assert report_launcher(path)[0] == 0
    with listener.accept()[0] as launcher:
        hello = ffi.new("struct cosched_hello *")
        ffi.memmove(hello, launcher.recv(4096), ffi.sizeof(hello[0]))
        assert launcher.recv(1) == b""
    assert (hello.phase, ffi.string(hello.job)) == (lib.COSCHED_PHASE_LAUNCHER, b"j")
    assert report_launcher(tmp_path / "none")[0] == -errno.ENOENT
    assert report_launcher("x" * 200)[0] == -errno.ENAMETOOLONG
    with filled(path):  # by a daemon that hangs
        error, took_s = report_launcher(path)
    assert error == -errno.EAGAIN
    assert took_s < 1


@pytest.mark.parametrize(("limit", "least"), [(1024, 1000), (256, 240), (32, 3)])
def test_bell_descriptor_avoids_low_numbers(run_dir, limit, least):
    with FakeNode(run_dir, "n") as node:
        bell = int(run_script(NUMBERED, node.register_socket, limit))
    assert least <= bell < limit


def test_file_with_bells_descriptor_is_not_written(run_dir, tmp_path):
    with FakeNode(run_dir, "n", scheduled=False) as node:
        said = run_script(REPLACED, node.register_socket, tmp_path / "log")
        assert node.jobs["j"].codes() == [lib.COSCHED_CMDSCH, lib.COSCHED_CMDOUT]
    assert said == "0\n"


def test_pause_keeps_errno(run_dir):
    with FakeNode(run_dir, "n", scheduled=False) as node:
        assert run_script(PAUSING, node.register_socket) == "0\n"


def test_waiting_threads_survive_detach(run_dir):
    with FakeNode(run_dir, "n", scheduled=False) as node:
        assert run_script(LEAVING, node.register_socket) == "left\n"
        assert node.jobs["j"].codes()[-1] == lib.COSCHED_CMDOUT
