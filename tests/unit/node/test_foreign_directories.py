"""Root's commands in a directory that another user prepared: links, planted process ids
and a real node that its owner left behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cosched.cli.declared import Command, command
from cosched.cli.options import run_dir_option
from cosched.core.errors import CoschedError
from cosched.linux.files.owners import (
    acting_as_owner,
    owners_of,
    refuse_foreign,
    without_links,
)
from cosched.node.lifetime import handover
from cosched.node.lifetime.stop import stop_node
from cosched.rundir.directories import make_node_directory
from cosched.rundir.paths import NodePaths

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root acts as others")

OWNER, OTHER = 54321, 54322


def no_classes(_tag, _name):
    raise CoschedError("no control groups here")


@pytest.fixture
def open_dir():
    """A directory of root below which all users can reach their files."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="cosched-foreign-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def run_dir(open_dir):
    made = open_dir / "run"
    made.mkdir()
    os.chown(made, OWNER, OWNER)
    return made


@pytest.fixture
def precious(open_dir):
    """A directory of root's with files of the names that a node has."""
    folder = open_dir / "root"
    (folder / "bells").mkdir(parents=True)
    for name in ("control.sock", "register.sock", "timer.lock", "bells/bell"):
        (folder / name).write_text("precious")
    return folder


@contextlib.contextmanager
def as_user(uid):
    os.setresgid(uid, uid, 0)
    os.setresuid(uid, uid, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)


def act(path, what=lambda: None):
    with acting_as_owner(path):
        what()


@pytest.fixture
def sleeper():
    """A process of root's."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def locked_by():
    """Makes a process of a user hold a lock with a number in it."""
    kept = []

    def lock(path, text, uid=OWNER):
        ready, done = os.pipe()
        pid = os.fork()
        if pid == 0:
            # It shares the sockets of the test's worker, and must not report for it.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX)
            os.write(fd, f"{text(os.getpid()):<10}\n".encode())
            os.write(done, b"x")
            signal.pause()
        kept.append(pid)
        assert os.read(ready, 1) == b"x"
        os.close(ready)
        os.close(done)
        return pid

    yield lock
    for pid in kept:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def test_a_planted_pid_gets_no_signal(run_dir, sleeper, locked_by):
    paths = NodePaths(run_dir, "n1")
    with as_user(OWNER):
        make_node_directory(paths, OWNER, private=True)
        paths.control_socket.touch()
    locked_by(paths.timer_lock, lambda _: sleeper.pid)
    with pytest.raises(CoschedError, match=r"timer\.lock: names a process of another user"):
        stop_node(paths, attach=no_classes)
    assert sleeper.poll() is None
    assert os.getresuid() == (0, 0, 0)


def test_files_behind_a_link_stay(run_dir, precious):
    paths = NodePaths(run_dir, "n1")
    before = sorted(precious.rglob("*"))
    with as_user(OWNER):
        paths.directory.mkdir()
        paths.control_socket.touch()
        paths.bells.symlink_to(precious / "bells")
    with pytest.raises(CoschedError, match=r"bells: is a link"):
        stop_node(paths, attach=no_classes)
    assert sorted(precious.rglob("*")) == before


def test_a_node_directory_that_is_a_link_leads_to_nothing_of_root(run_dir, precious):
    before = sorted(precious.rglob("*"))
    with as_user(OWNER):
        (run_dir / "n1").symlink_to(precious)
    with pytest.raises(CoschedError, match="another user"):
        stop_node(NodePaths(run_dir, "n1"), attach=no_classes)
    assert sorted(precious.rglob("*")) == before


def test_a_lock_that_is_a_link_or_of_another_user_is_refused(run_dir, precious):
    paths = NodePaths(run_dir, "n1")
    with as_user(OWNER):
        paths.directory.mkdir()
        paths.scheduler_lock.symlink_to(precious / "timer.lock")
    with pytest.raises(CoschedError, match=r"scheduler\.lock: is a link"):
        stop_node(paths, attach=no_classes)
    assert (precious / "timer.lock").read_text() == "precious"
    paths.scheduler_lock.unlink()
    paths.timer_lock.write_text("1")
    with pytest.raises(CoschedError, match="belong to another user"):
        stop_node(paths, attach=no_classes)


def test_root_cleans_up_what_a_user_left(run_dir, locked_by, monkeypatch):
    paths = NodePaths(run_dir, "n1")
    with as_user(OWNER):
        make_node_directory(paths, OWNER, private=True)
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(paths.control_socket))
        os.mkfifo(paths.bell("54321.job"))
    orphan = locked_by(paths.timer_lock, lambda pid: pid)
    monkeypatch.setattr(handover, "await_end", lambda *_: os.waitpid(orphan, 0))
    assert stop_node(paths, attach=no_classes)
    assert list(paths.bells.iterdir()) == []
    assert {path.name for path in paths.directory.iterdir()} == {"bells"}


def test_root_acts_as_the_owner_and_is_root_again(run_dir):
    secret = run_dir.parent / "secret"
    secret.write_text("x")
    secret.chmod(0o600)
    groups = os.getgroups()
    acting = []

    def read():
        acting.append(os.getresuid()[:2])
        secret.read_text()

    with pytest.raises(CoschedError, match="secret: Permission denied"):
        act(run_dir / "n1", read)
    assert acting == [(OWNER, OWNER)]
    assert (os.getresuid(), os.getresgid(), os.getgroups()) == ((0,) * 3, (0,) * 3, groups)


def test_a_directory_that_several_users_can_change_is_refused(run_dir):
    below = run_dir / "n1"
    below.mkdir()
    os.chown(below, OTHER, OTHER)
    with pytest.raises(CoschedError, match="uid 54321 and uid 54322 can both"):
        act(below)
    below.chmod(0o777)
    os.chown(below, 0, 0)
    run_dir.chmod(0o777)
    os.chown(run_dir, 0, 0)
    with pytest.raises(CoschedError, match="run: all users can replace"):
        act(below)


def test_a_sticky_folder_counts_by_the_owner_of_the_next_one(open_dir):
    open_dir.chmod(0o1777)
    (open_dir / "n1").mkdir()
    assert owners_of(open_dir / "n1").users == frozenset()
    assert owners_of(open_dir / "n1").open_at is None
    with as_user(OTHER):
        (open_dir / "n2").mkdir()
    assert owners_of(open_dir / "n2" / "missing").users == {OTHER}


def test_commands_that_start_daemons_refuse_the_directory_of_another_user(run_dir):
    @command("up")
    class Up(Command):
        run_dir: Path = run_dir_option()

        def run(self):
            click.echo(self.run_dir)

    up = Up.click_command

    refused = CliRunner().invoke(up, ["--run-dir", str(run_dir / "n1")])
    assert "uid 54321 can change it" in str(refused.exception)
    own = CliRunner().invoke(up, ["--run-dir", str(run_dir.parent)])
    assert own.stdout == f"{run_dir.parent}\n"
    refuse_foreign(run_dir.parent)


def test_a_link_of_another_user_is_not_followed(run_dir, precious):
    with as_user(OWNER):
        (run_dir / "link").symlink_to(precious)
    (run_dir.parent / "own").symlink_to(precious)
    with pytest.raises(CoschedError, match="link: is a link of another user"):
        without_links(run_dir / "link" / "n1")
    assert without_links(run_dir.parent / "own" / "n1") == precious / "n1"


def test_an_ordinary_user_does_not_act_in_the_directory_of_another(run_dir):
    with as_user(OTHER), pytest.raises(CoschedError, match="belongs to uid 54321"):
        act(run_dir)
