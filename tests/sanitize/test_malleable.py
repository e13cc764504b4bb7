"""Runs the C library for malleable programs under AddressSanitizer and UBSan, in changes of
the size and in misuse: no memory is misused or lost."""

from __future__ import annotations

import functools
import hashlib
import re
import subprocess

import pytest

from benchmarks.mpi import PROGRAMS
from cosched.core.cluster.resizing.agreement import ReportDone, ReportRefused
from cosched.launch.compile import build_once
from cosched.launch.malleable import includes, sources
from tests.malleable.conftest import agents, folders, rigid
from tests.malleable.test_c import SAME
from tests.malleable.test_c import SOURCE as ARRAYS
from tests.malleable.test_programs import CHANGED, change_at_random
from tests.sanitize.sanitizers import FLAGS, options, runtime

__all__ = ["agents", "rigid"]

pytestmark = pytest.mark.mpi_job

ARCHIVE = "libmalleable.a"
WORDS = (
    *("-std=gnu11", "-Wall", "-Wextra", "-Werror", *FLAGS),
    *(f"-I{folder}" for folder in includes()),
)


@pytest.fixture(params=folders(), ids=lambda folder: folder.parent.name.lstrip("."))
def mpi(request):
    return request.param


@pytest.fixture(scope="session")
def library(session_folder):
    """Returns a function that compiles the library with the sanitizers for an mpicc, once
    for all workers."""
    runtime()

    @functools.cache
    def compiled(mpicc):
        name = hashlib.sha256(str(mpicc).encode()).hexdigest()[:12]
        return build_once(
            session_folder / f"sanitized-{name}" / ARCHIVE,
            lambda scratch: archive(mpicc, scratch),
            session_folder,
        )

    return compiled


def archive(mpicc, folder):
    subprocess.run([mpicc, *WORDS, "-c", *sources()], cwd=folder, check=True)
    words = ["ar", "rcs", ARCHIVE, *sorted(path.name for path in folder.glob("*.o"))]
    subprocess.run(words, cwd=folder, check=True)
    return folder / ARCHIVE


@pytest.fixture
def build(mpi, library, tmp_path, monkeypatch):
    """Returns a function that compiles a program with the library and the sanitizers."""
    # What the played agents preload comes before the sanitizer.
    for name, value in options(leaks=True, verify_asan_link_order=0).items():
        monkeypatch.setenv(name, value)
    # The memory that Open MPI wants for its own facts is the sanitizer's.
    monkeypatch.setenv("PMIX_MCA_gds", "hash")
    mpicc = mpi / "mpicc"

    def compile_with(source):
        program = tmp_path / source.stem
        inputs = (source, library(mpicc), "-o", program, "-lm", "-ldl")
        subprocess.run([mpicc, *WORDS, *inputs], check=True)
        return program

    return compile_with


def test_changes_misuse_no_memory(build, mpi, agents):
    played = agents(4, seed=1)
    played.start(mpi, [0, 1], build(ARRAYS), played.folder / "stop")
    assert isinstance(played.resize([1], [2, 3]), ReportDone)
    assert isinstance(played.resize([0, 2, 3]), ReportRefused)
    (played.folder / "page-1").rename(played.folder / "away")
    assert isinstance(played.resize([], [1]), ReportRefused)
    (played.folder / "away").rename(played.folder / "page-1")
    assert isinstance(played.resize([0, 3], [1, 1]), ReportDone)
    (played.folder / "stop").touch()
    assert played.finish() == SAME


@pytest.mark.parametrize("name", CHANGED)
def test_programs_misuse_no_memory(build, mpi, agents, name):
    played = agents(4, seed=1)
    stop = played.folder / "stop"
    program = build(PROGRAMS / f"{name}.c")
    played.start(mpi, [0, 1], program, "--size", "24", "--until", stop)
    change_at_random(played, 5, 3)
    stop.touch()
    status, output = played.finish()
    assert (status, bool(re.search("answer", output))) == (0, True), output


def test_wrong_calls_misuse_no_memory(build, rigid):
    program = build(ARRAYS)
    for how in ("after-finalize", "late-scatter", "disagree-in-row", "no-data"):
        done = rigid(2, program, "misuse", how)
        assert done.returncode == 3, (how, done.stderr)
