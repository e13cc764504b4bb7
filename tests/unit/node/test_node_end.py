"""The end of a node's daemons: the files of a live daemon stay, and an error about one job
does not skip the other jobs."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from cosched_daemons import scheduler
from cosched_daemons import timer as timerd

from cosched.core.config.words import CLASS_SCHEDULERS
from cosched.core.errors import CoschedError, NoDaemon
from cosched.core.node.messages import Mode
from cosched.linux import proc
from cosched.node.daemon import SchedulerDaemon
from cosched.node.lifetime.handover import Patience, lock_node, wait_readable
from cosched.node.lifetime.remains import remove_remains
from cosched.node.lifetime.stop import free_jobs, stop_node
from cosched.node.sockets.client import ControlClient
from cosched.node.tasks.job_table import JobTable
from cosched.node.tasks.left import left_regions
from cosched.node.timer import timer
from cosched.node.timer.guardian import Guardian
from cosched.node.timer.timer import TimerDaemon
from cosched.rundir.lock import DaemonLock, lock_holder
from cosched.rundir.paths import NodePaths
from cosched.shm.objects import path_of
from cosched.shm.region import NodeRegion

ME = os.geteuid()


@pytest.fixture
def paths(tmp_path):
    paths = NodePaths(tmp_path, "n")
    paths.bells.mkdir(parents=True)
    yield paths
    for name in (*left_regions(paths), paths.node_region):
        path_of(name).unlink(missing_ok=True)


class Left:
    """Jobs of a daemon that was killed: contended, not scheduled, suspended. Each has a
    task that waits for ``end``."""

    def __init__(self, paths, *names):
        table = JobTable(paths)
        self.tasks, self.regions = [], {}
        for name in names:
            job = table.create(name, ME, os.getegid())
            task = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
            ticks = proc.start_ticks(task.pid)
            job.region.occupy(
                0, pid=task.pid, start_ticks=ticks, rank=0, world=1, carrier=0
            )
            job.region.publish_mode(Mode.SUSPENDED)
            job.region.publish_contention(True)
            job.region.publish_status(5, False)
            os.close(job.bell)
            self.tasks.append(task)
            self.regions[job.key] = job.region
        self.keys = list(self.regions)

    def free(self):
        """Returns the jobs whose tasks may run and need not wait."""
        return [
            key
            for key, region in self.regions.items()
            if region.status() == (6, True) and region.data.status.contended == 0
        ]

    def end(self):
        for task in self.tasks:
            task.kill()
            task.communicate()

    def close(self):
        self.end()
        for region in self.regions.values():
            region.close()


@pytest.fixture
def left(paths):
    jobs = Left(paths, "a", "b", "c")
    yield jobs
    jobs.close()


class Classes:
    """Records the calls; the calls in ``refused`` fail."""

    def __init__(self, *refused, on_thaw=None):
        self.refused = refused
        self.calls = []
        self._on_thaw = on_thaw

    def _note(self, *call):
        self.calls.append(call)
        if call in self.refused:
            raise CoschedError(f"{call} failed")

    def restore(self, pids):
        self._note("restore", len(pids))

    def thaw(self, key):
        if self._on_thaw is not None:
            self._on_thaw(key)
        self._note("thaw", key)

    def destroy(self, key):
        self._note("destroy", key)

    def vacate(self):
        self._note("vacate")

    def close(self):
        self._note("close")


def hold(*locks):
    """A process that holds these locks until its input ends."""
    code = (
        "import pathlib, sys; from cosched.rundir.lock import DaemonLock\n"
        "locks = [DaemonLock(pathlib.Path(path)) for path in sys.argv[1:]]\n"
        "assert all(lock.acquire() for lock in locks)\n"
        "print('held', flush=True); sys.stdin.read()\n"
        "for lock in locks: lock.release()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, locks)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"held\n"
    return process


@pytest.fixture
def holder():
    """Starts ``hold`` processes and ends them after the test."""
    processes = []

    def start(*locks):
        processes.append(hold(*locks))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


class Waits:
    """Counts the waits, and ends the processes in ``end`` at the next wait."""

    def __init__(self):
        self.times = 0
        self.end = []

    def __call__(self, fd, timeout_s):
        self.times += 1
        for process in self.end:
            process.stdin.close()
            process.stdin = None
        self.end.clear()
        return wait_readable(fd, timeout_s)


@pytest.fixture
def waits():
    return Waits()


def no_classes(_tag, _name):
    """A machine without class schedulers."""
    raise CoschedError("none")


# -- the guardian ---------------------------------------------------------------------


@pytest.fixture
def guard(paths):
    """Runs a guardian until it ends."""
    before = signal.getsignal(signal.SIGTERM)

    def run(classes):
        guardian = Guardian(paths, classes)
        try:
            guardian.run()
        finally:
            guardian._loop.close()

    yield run
    signal.signal(signal.SIGTERM, before)


def test_guardian_frees_every_job_despite_errors(paths, left, guard, caplog):
    a, b, c = left.keys
    freed = []

    def on_thaw(key):
        freed.append(left.free())
        if key == c:
            left.end()

    refused = [("restore", 3), ("thaw", a), ("destroy", b), ("close",)]
    classes = Classes(*refused, on_thaw=on_thaw)
    guard(classes)
    assert freed == [[a, b, c]] * 3  # before the classes, which may fail
    assert classes.calls[:4] == [("restore", 3), *(("thaw", key) for key in left.keys)]
    assert {("destroy", key) for key in left.keys} < set(classes.calls)
    assert [r.getMessage() for r in caplog.records if r.levelname == "ERROR"] == [
        f"{call} failed" for call in refused
    ]
    assert left_regions(paths) == []
    assert list(paths.bells.iterdir()) == []


@pytest.fixture
def make_timer(paths):
    """Makes a timer daemon in this process, whose standard input is at its end."""
    before = signal.getsignal(signal.SIGTERM)
    region = NodeRegion.create(paths.node_region)
    os.mkfifo(paths.bell("@timer"))
    read_end, write_end = os.pipe()
    os.close(write_end)
    yield lambda read=os.read: TimerDaemon(region, paths.bell("@timer"), read_end, read)
    os.close(read_end)
    signal.signal(signal.SIGTERM, before)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    region.close()
    region.unlink()


def test_signal_to_a_timer_daemon_also_ends_its_guardian(paths, left, make_timer, guard):
    """Between the two the process blocks the signal."""
    assert make_timer().run() is True
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    guard(Classes())
    assert left_regions(paths)  # they stay for the daemon that takes over


def test_timer_daemon_that_starts_after_its_daemon_died_becomes_the_guardian(
    make_timer, monkeypatch
):
    """No process reads that it is ready."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    monkeypatch.setattr(timer, "STDOUT", write_end)
    assert make_timer().run() is True
    os.close(write_end)


def test_timer_daemon_after_sigterm_becomes_no_guardian(make_timer):
    """The signal arrives while the daemon reads the end of its standard input."""

    def read(fd, count):
        found = os.read(fd, count)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        return found

    assert make_timer(read).run() is False


def test_guardian_removes_nothing_of_a_starting_daemon(paths, guard):
    paths.control_socket.touch()
    lock = DaemonLock(paths.scheduler_lock)
    assert lock.acquire()
    classes = Classes()
    guard(classes)
    assert ("close",) not in classes.calls
    assert paths.control_socket.exists()
    assert lock_holder(paths.scheduler_lock) == os.getpid()
    lock.release()
    guard(classes)
    assert ("close",) in classes.calls
    assert not paths.control_socket.exists()
    assert not paths.scheduler_lock.exists()


def test_guardian_ends_without_the_node_directory(paths, guard):
    paths.bells.rmdir()
    paths.directory.rmdir()
    NodeRegion.create(paths.node_region).close()
    classes = Classes()
    guard(classes)
    assert ("close",) in classes.calls
    assert not path_of(paths.node_region).exists()


def test_reserve_guards_a_node_without_its_directory(paths, monkeypatch):
    paths.bells.rmdir()
    paths.directory.rmdir()
    NodeRegion.create(paths.node_region).close()
    guarded = []
    monkeypatch.setattr(timerd, "guard", lambda *arguments: guarded.append(arguments))
    monkeypatch.setattr(timerd, "raise_daemon_priority", lambda: None)
    options = timerd.parse(["--run-dir", str(paths.run_dir), "--class-scheduler", "none"])
    timerd.restore_alone(options, paths, 1)
    assert guarded == [(options, paths, 1)]


# -- locks ----------------------------------------------------------------------------


def test_released_lock_leaves_a_newer_lock_file(tmp_path):
    path = tmp_path / "lock"
    first, second = DaemonLock(path), DaemonLock(path)
    assert first.acquire()
    path.unlink()  # as cosched down of an older version did
    assert second.acquire()
    first.release()
    assert lock_holder(path) == os.getpid()
    second.release()
    assert not path.exists()


def test_lock_file_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "other")
    with pytest.raises(CoschedError, match="is a link; remove it"):
        DaemonLock(tmp_path / "lock").acquire()
    assert not (tmp_path / "other").exists()


def answer_once(paths, answer):
    """A daemon's control socket that answers one request, in a thread."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(paths.control_socket))
    listener.listen()

    def serve():
        with listener, listener.accept()[0] as connection:
            connection.recv(4096)
            connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_starting_daemon_waits_only_for_an_ending_one(paths, holder, waits):
    waits.end.append(holder(paths.scheduler_lock))
    lock = lock_node(paths, Patience(paths, wait=waits))
    assert waits.times
    assert lock_holder(paths.scheduler_lock) == os.getpid()
    lock.release()
    holder(paths.scheduler_lock)
    daemon = answer_once(paths, b'{"pid": 7}\n')
    with pytest.raises(CoschedError, match=r"up already \(pid 7\)"):
        lock_node(paths)
    daemon.join()


# -- cosched down ---------------------------------------------------------------------


def test_down_removes_nothing_while_a_daemon_has_the_lock(paths, left, holder, waits):
    daemon = holder(paths.scheduler_lock)
    paths.control_socket.touch()
    with pytest.raises(CoschedError, match=r"neither answered nor ended in 0\.05 s") as no:
        stop_node(paths, Patience(paths, 0.05), no_classes)
    assert f"(pid {daemon.pid})" in str(no.value)
    assert lock_holder(paths.scheduler_lock) == daemon.pid
    assert len(left_regions(paths)) == 3
    assert paths.control_socket.exists()
    assert left.free() == []
    waits.end.append(daemon)
    assert stop_node(paths, Patience(paths, 60, waits), no_classes)
    assert left_regions(paths) == []
    assert left.free() == left.keys
    assert not paths.control_socket.exists()
    assert not paths.scheduler_lock.exists()
    assert stop_node(paths, attach=no_classes) is False


def test_jobs_of_killed_daemons_are_freed(paths, left):
    assert free_jobs(paths, no_classes)
    assert left.free() == left.keys
    assert len(left_regions(paths)) == 3


def test_jobs_keep_their_classes_for_the_next_daemon(paths, left, holder):
    found = {name: Classes() for name in CLASS_SCHEDULERS}
    assert free_jobs(paths, lambda _tag, name: found[name])
    for classes in found.values():
        assert [call[0] for call in classes.calls] == ["restore", *["thaw"] * 3, "vacate"]
        classes.calls.clear()
    # A guardian restores the shares by itself.
    holder(paths.timer_lock)
    assert free_jobs(paths, lambda _tag, name: found[name])
    assert [classes.calls for classes in found.values()] == [[("vacate",)]] * len(found)


def test_group_of_the_unit_is_vacated_without_jobs(paths):
    found = {name: Classes() for name in CLASS_SCHEDULERS}
    assert not free_jobs(paths, lambda _tag, name: found[name])
    assert [classes.calls for classes in found.values()] == [[("vacate",)]] * len(found)


def test_failing_class_scheduler_does_not_skip_the_others(paths, left):
    found = {name: Classes(("restore", 3)) for name in CLASS_SCHEDULERS}
    found[CLASS_SCHEDULERS[1]].refused = [("thaw", left.keys[0]), ("close",)]
    with pytest.raises(CoschedError, match="failed"):
        stop_node(paths, attach=lambda _tag, name: found[name])
    for classes in found.values():
        assert classes.calls[0] == ("restore", 3)
        assert {key for what, key in classes.calls[1:-1] if what == "thaw"} == {*left.keys}
        assert classes.calls[-1] == ("close",)
    assert len(left_regions(paths)) == 3  # so that down can be tried again


def test_remains_with_a_held_lock_stay(paths, holder):
    NodeRegion.create(paths.node_region).close()
    holder(paths.timer_lock)
    for path in (
        paths.metrics_lock,
        paths.register_socket,
        paths.bell("@timer"),
        paths.log,
    ):
        path.touch()
    remove_remains(paths)
    assert sorted(path.name for path in paths.directory.iterdir()) == [
        "bells",
        "scheduler.log",
        "timer.lock",
    ]
    assert list(paths.bells.iterdir()) == []
    assert not path_of(paths.node_region).exists()


# -- a daemon that is just ending -----------------------------------------------------


@pytest.mark.parametrize("end", ["before", "after", "half a line"])
def test_daemon_that_ends_before_its_answer_is_no_daemon(paths, end):
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor() as threads:
        listener.bind(str(paths.control_socket))
        listener.listen()

        def serve():
            connection, _ = listener.accept()
            with connection:
                if end != "before":
                    connection.recv(1, 0 if end == "half a line" else socket.MSG_PEEK)
                if end == "half a line":
                    connection.recv(4096)
                    connection.sendall(b'{"ok": tr')

        with ControlClient(paths) as control:
            served = threads.submit(serve)
            if end == "before":
                served.result()
            with pytest.raises(NoDaemon, match="ended before it answered"):
                control.request("status")
        served.result()


def test_daemon_without_answer_in_time_has_not_ended(paths):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(paths.control_socket))
        listener.listen()
        client = ControlClient(paths, timeout_s=0.01)
        with client as control, pytest.raises(CoschedError) as caught:
            control.request("status")
    assert not isinstance(caught.value, NoDaemon)
    assert f"did not answer in time; try again, and if it hangs look at {paths.log}" in (
        str(caught.value)
    )


def test_failed_step_of_the_end_skips_no_other_step(paths):
    daemon = SchedulerDaemon.__new__(SchedulerDaemon)
    closed = []

    def part(name):
        return SimpleNamespace(close=lambda: closed.append(name))

    def fail():
        raise CoschedError("class x: still in use")

    daemon.paths, daemon.jobs = paths, []
    daemon.driver = SimpleNamespace(feed=lambda _event: None)
    daemon.recorder, daemon.history = part("recorder"), part("history")
    daemon.timer = SimpleNamespace(stop=lambda: closed.append("timer"))
    daemon._metrics, daemon._kicker = [], part("kicker")
    daemon.classes = SimpleNamespace(close=fail)
    daemon.region = NodeRegion.create(paths.node_region)
    daemon._loop = part("loop")
    paths.bell("@timer").touch()
    with pytest.raises(CoschedError, match="still in use"):
        daemon._shut_down()
    assert closed == ["recorder", "history", "timer", "kicker", "loop"]
    assert not path_of(paths.node_region).exists()
    assert not paths.bell("@timer").exists()


def test_error_after_ready_goes_only_into_the_log(tmp_path, monkeypatch, caplog):
    read_end, write_end = os.pipe()

    def serve(_options, starter):
        starter.report_ready("node n")
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(write_end)
        other = os.open(tmp_path / "other", os.O_WRONLY | os.O_CREAT)
        if other != write_end:
            os.dup2(other, write_end)
            os.close(other)
        raise CoschedError("class x: still in use")

    monkeypatch.setattr(scheduler, "serve", serve)
    monkeypatch.setattr(sys, "argv", ["coschedd", "--ready-fd", str(write_end)])
    with pytest.raises(SystemExit) as ended:
        scheduler.main()
    assert ended.value.code == 1
    os.close(write_end)
    with os.fdopen(read_end) as said:
        assert said.read() == "READY node n\n"
    assert (tmp_path / "other").read_bytes() == b""
    assert [record.getMessage() for record in caplog.records] == ["class x: still in use"]
