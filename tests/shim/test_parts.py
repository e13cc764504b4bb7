"""Tests parts of the interposer, compiled into C programs that call them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from cosched.launch.shim import TASK_SOURCES
from cosched.shm._build import INCLUDE
from tests.places import ROOT
from tests.shim.jobs import PATIENCE_S, run_job

# What differs between libraries here, differs between the newest of both families.
pytestmark = [pytest.mark.mpi_job, pytest.mark.newest_mpi]

INTERPOSER = ROOT / "mpi_shim" / "interposer"
PROGRAMS = ROOT / "tests" / "c"
TASKS_SIDE = [INCLUDE.parent / f"{name}.c" for name in TASK_SOURCES]
FLAGS = (
    *("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"),
    # As for the shim itself: gcc takes MPI_STATUSES_IGNORE for an array.
    "-Wno-error=stringop-overflow",
)


def compile_object(mpi, source, folder, *flags):
    made = folder / f"{source.stem}.o"
    words = [mpi.mpicc, *FLAGS, *flags, f"-I{INTERPOSER}", f"-I{INCLUDE}"]
    path = f"{mpi.mpicc.parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        [*words, "-c", source, "-o", made], check=True, env={**os.environ, "PATH": path}
    )
    return made


@pytest.mark.parametrize("sanitizer", ["", "-fsanitize=thread"], ids=["plain", "tsan"])
def test_threads_at_first_use_share_one_record(mpi, tmp_path, sanitizer):
    flags = [sanitizer, "-g"] if sanitizer else []  # its reports name lines
    sources = (PROGRAMS / "first_use.c", INTERPOSER / "status" / "comms.c")
    objects = [compile_object(mpi, source, tmp_path, *flags) for source in sources]
    # With a fake MPI library: the sanitizer cannot check the real one.
    program = tmp_path / "first_use"
    subprocess.run(["gcc", *flags, *objects, "-pthread", "-o", program], check=True)
    done = subprocess.run(
        [program, "4", "1000"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stdout == "wrong 0\n", done.stderr
    assert done.returncode == 0, done.stderr


def test_message_above_int_bytes_is_laid_out(mpi, tmp_path):
    objects = [compile_object(mpi, PROGRAMS / "large.c", tmp_path)]
    words = ["nm", "--undefined-only", *objects]
    needed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    if "cosched_" in needed:
        exported = ("entry", "life")
        sources = [each for each in INTERPOSER.rglob("*.c") if each.stem not in exported]
        sources += TASKS_SIDE
        objects += [compile_object(mpi, source, tmp_path) for source in sources]
    program = tmp_path / "large"
    path = f"{mpi.mpicc.parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        [mpi.mpicc, *objects, "-o", program, "-pthread", "-ldl"],
        check=True,
        env={**os.environ, "PATH": path},
    )
    done = run_job(mpi.launch("-n", "1", str(program)), {})
    assert done.stdout == "laid out\n", done.stderr
    assert done.returncode == 0, done.stderr


def test_shim_compiles_for_an_mpich_without_its_later_extension(mpi, tmp_path):
    """MPICH 4.2, of Debian 13, declares no MPIX_Request_is_complete."""
    shown = subprocess.run([mpi.mpicc, "-show"], capture_output=True, text=True, check=True)
    folders = [Path(word[2:]) for word in shown.stdout.split() if word.startswith("-I")]
    headers = [file for folder in folders for file in folder.glob("mpi*.h")]
    number = re.compile(r"#define MPICH_NUMVERSION (\d+)")
    found = [number.search(file.read_text()) for file in headers]
    if not any(each and int(each[1]) >= 40300000 for each in found):
        pytest.skip("no MPICH that has the extension")
    for file in headers:
        text = number.sub("#define MPICH_NUMVERSION 40203300", file.read_text())
        declared = r"^int P?MPIX_Request_is_complete\(.*\n"
        (tmp_path / file.name).write_text(re.sub(declared, "", text, flags=re.MULTILINE))
    for name in ("calls/mpix.c", "base/pmpi.c"):
        built = compile_object(mpi, INTERPOSER / name, tmp_path, f"-I{tmp_path}")
        assert built.stat().st_size > 0


@pytest.mark.parametrize("name", ["recv", "sendrecv"])
def test_only_prefix_takes_stack_room(mpi, tmp_path, name):
    """A thread's stack may be small, and without a prefix nothing is copied."""
    flags = ("-O2", "-fstack-usage")
    compile_object(mpi, INTERPOSER / "calls" / f"{name}.c", tmp_path, *flags)
    usage = (tmp_path / f"{name}.su").read_text().splitlines()
    words = [line.split("\t") for line in usage]
    frames = {where.split(":")[-1]: int(length) for where, length, _ in words}
    assert frames
    large = [function for function, length in frames.items() if length >= 1024]
    assert large
    assert all("_with_byte" in function for function in large), large
