"""Runs the tests of the C modules of daemons and tasks with modules that were built with
AddressSanitizer and UBSan."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cosched.launch.compile import locked
from tests.places import ROOT
from tests.sanitize.sanitizers import FLAGS, options, runtime

PARTS = ("cosched", "mpi_shim", "daemons", "tests")
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
#: tests of cosched/shm/*.c, cosched/linux/native/held_process.c and kick.c.
TESTS = (
    *(
        "tests/unit/node/test_shm.py",
        "tests/wrapper/test_task.py",
        "tests/wrapper/test_waits.py",
    ),
    "tests/unit/cluster/resizing/test_page.py",
    *("tests/unit/node/test_join.py", "tests/unit/linux/test_held_process.py"),
)
LIVE_TESTS = ("tests/live/test_kick_live.py",)
PATIENCE_S = 300


@pytest.fixture(scope="session")
def tree(session_folder):
    """Returns a copy of the sources with C modules that are built with the sanitizers, once
    for all workers."""
    tree = session_folder / "tree"
    tree.mkdir(exist_ok=True)
    with locked(tree):
        built = tree / "built"
        if not built.exists():
            build_in(tree)
            built.touch()
    return tree


def build_in(tree):
    leave = shutil.ignore_patterns("__pycache__", "*.so")
    for part in PARTS:
        shutil.copytree(ROOT / part, tree / part, ignore=leave, dirs_exist_ok=True)
    for name in FILES:
        shutil.copy(ROOT / name, tree / name)
    flags = " ".join(FLAGS)
    built = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=tree,
        env={**os.environ, "CFLAGS": flags, "LDFLAGS": flags},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr


def run_tests(tree, *tests):
    # Python itself keeps memory to its end. guard.c handles SIGBUS.
    environ = options(leaks=False, handle_sigbus=0)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=tree,
        env={**os.environ, **environ, "LD_PRELOAD": runtime()},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_python_loads_the_sanitized_modules(tree):
    script = """
from cosched.linux.native import _held_process, _kick
from cosched.shm import _native
files = [module.__file__ for module in (_held_process, _kick, _native)]
print(*files, open("/proc/self/maps").read())
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tree,
        env={**os.environ, **options(leaks=False), "LD_PRELOAD": runtime()},
        capture_output=True,
        text=True,
        check=True,
    )
    modules = done.stdout.split()[:3]
    assert all(Path(module).is_relative_to(tree) for module in modules)
    assert "libubsan" in done.stdout


def test_regions_misuse_no_memory(tree):
    # The tests of the ring under contention are programs of their own.
    run_tests(tree, *TESTS, "-k", "not contention and not killed")


@pytest.mark.live
def test_kicks_misuse_no_memory(tree):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    run_tests(tree, *LIVE_TESTS)


@pytest.mark.live
def test_kicker_loses_no_memory(tmp_path):
    program, kick = tmp_path / "kicker", ROOT / "cosched/linux/native"
    source = ROOT / "tests/c/kicker.c"
    flags = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", *FLAGS, f"-I{kick}", "-pthread")
    subprocess.run(["gcc", *flags, source, kick / "kick.c", "-o", program], check=True)
    cpu = min(os.sched_getaffinity(0))
    done = subprocess.run(
        [program, str(cpu), "50"],
        env={**os.environ, **options(leaks=True)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    if done.returncode == 3:
        pytest.skip("threads of real-time priority may not be started here")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "stopped\n"
