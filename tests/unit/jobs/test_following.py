"""Copies of a job's output, also where another machine writes the file."""

from __future__ import annotations

import os
import types

import pytest

from cosched.jobs import following
from cosched.jobs.following import Tail


class NetworkFiles:
    """Opens and reads files as a client of NFS: it sees a new file once the folder was
    opened after that, and of a file what was there when it was opened."""

    def __init__(self, folder):
        self._folder = folder
        self._names = set()
        self._sizes = {}

    def open(self, path, flags):
        if path.parent == self._folder and path.name not in self._names:
            raise FileNotFoundError(path)
        descriptor = os.open(path, flags)
        if path == self._folder:
            self._names = set(os.listdir(path))
        self._sizes[descriptor] = os.fstat(descriptor).st_size
        return descriptor

    def pread(self, descriptor, count, at):
        return os.pread(descriptor, min(count, max(0, self._sizes[descriptor] - at)), at)


@pytest.fixture
def network(tmp_path, monkeypatch):
    files = NetworkFiles(tmp_path)
    seen = {**vars(os), "open": files.open, "pread": files.pread}
    monkeypatch.setattr(following, "os", types.SimpleNamespace(**seen))
    return tmp_path


@pytest.fixture
def copied():
    """A pipe: where to copy, and what came there."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    yield write, lambda: os.read(read, 1 << 16)
    os.close(read)
    os.close(write)


def test_a_pipe_is_left_to_its_reader(tmp_path, copied):
    to, take = copied
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY)
    os.write(writer, b"out")
    tail = Tail(path, to)
    tail.copy()
    os.close(writer)
    tail.copy_rest()
    assert os.read(reader, 9) == b"out"
    os.close(reader)
    with pytest.raises(BlockingIOError):
        take()
    tail.copy_rest()  # nothing writes there, and it does not wait
    assert not tail.found


def test_rest_of_a_file_that_another_machine_writes_is_copied(network, copied):
    to, take = copied
    path = network / "out"
    path.write_text("begin ")
    os.close(following.os.open(network, os.O_RDONLY))
    tail = Tail(path, to)
    tail.copy()
    assert take() == b"begin "
    path.write_text("begin end")
    tail.copy_rest()
    assert take() == b"end"
    tail.close()


def test_file_that_another_machine_makes_is_copied(network, copied):
    to, take = copied
    tail = Tail(network / "out", to)
    tail.copy()
    (network / "out").write_text("all")
    tail.copy_rest()
    assert take() == b"all"
    tail.close()


def test_rest_of_a_removed_file_is_copied(tmp_path, copied):
    to, take = copied
    path = tmp_path / "out"
    path.write_text("begin ")
    tail = Tail(path, to)
    tail.copy()
    with path.open("a") as file:
        path.unlink()
        file.write("end")
    tail.copy_rest()
    assert take() == b"begin end"
    tail.close()
