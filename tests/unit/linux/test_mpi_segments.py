"""Removes shared memory of killed MPI tasks, and no other file."""

import mmap
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from cosched.linux.files.mpi_segments import (
    SHARED_MEMORY,
    mapped_files,
    remove_unused,
)

MAPPER = """
import mmap, os, sys
for path in sys.argv[1:]:
    with open(path, "r+b") as file:
        kept = mmap.mmap(file.fileno(), 0)
        globals()[path] = kept
print("mapped", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def make():
    """Returns a function that makes a file in shared memory; all are removed."""
    made = []

    def make_one(prefix="sm_segment.", mode=0o600):
        path = SHARED_MEMORY / f"{prefix}{uuid.uuid4().hex}"
        path.write_bytes(b"x" * 4096)
        path.chmod(mode)
        made.append(path)
        return path

    yield make_one
    for path in made:
        path.unlink(missing_ok=True)


class Task:
    """A process that maps files."""

    def __init__(self, *paths):
        self.process = subprocess.Popen(
            [sys.executable, "-c", MAPPER, *map(str, paths)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout.readline() == b"mapped\n"

    def files(self):
        return mapped_files([self.process.pid])

    def kill(self):
        self.process.kill()
        self.process.communicate()


def test_files_of_a_killed_task_are_removed_and_others_stay(make):
    segment, shm, foreign = make(), make("mpich_shm_"), make()
    data, open_to_all = make("my-data-"), make(mode=0o644)
    task = Task(segment, shm, data, open_to_all)
    files = task.files()
    assert files.keys() == {segment, shm, open_to_all}
    assert remove_unused(files) == []  # the task lives
    task.kill()
    assert set(remove_unused(files)) == {segment, shm}
    assert not segment.exists()
    assert foreign.exists()
    assert data.exists()
    assert open_to_all.exists()


def test_file_that_another_process_maps_stays(make):
    segment = make()
    task = Task(segment)
    files = task.files()
    with segment.open("r+b") as file, mmap.mmap(file.fileno(), 0):
        task.kill()
        assert remove_unused(files) == []
    assert remove_unused(files) == [segment]


def test_other_file_of_the_same_name_stays(make):
    segment = make()
    task = Task(segment)
    files = task.files()
    task.kill()
    replacement = make()
    replacement.rename(segment)
    assert remove_unused(files) == []
    segment.unlink()
    Path(segment).symlink_to("/dev/null")
    assert remove_unused(files) == []


def test_removed_files_and_processes_that_are_gone_are_no_error(make):
    segment = make()
    task = Task(segment)
    files = task.files()
    task.kill()
    segment.unlink()
    assert remove_unused(files) == []
    assert task.files() == {}


def test_process_without_such_files_has_none():
    task = Task()
    assert task.files() == {}
    task.kill()
