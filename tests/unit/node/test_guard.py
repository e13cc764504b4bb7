"""A process survives a truncated region. Its own handler of SIGBUS gets all the rest."""

from __future__ import annotations

import signal
import subprocess

import pytest

from cosched.shm._build import HERE, INCLUDE
from tests.places import ROOT

SOURCES = (ROOT / "tests" / "c" / "guard_chain.c", HERE / "guard.c")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    binary = tmp_path_factory.mktemp("guard") / "guard_chain"
    flags = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}")
    subprocess.run(["gcc", *flags, *SOURCES, "-o", binary], check=True)
    return binary


@pytest.mark.parametrize(
    ("case", "word", "status"),
    [
        # The fault is in guarded memory: the program's handler does not run.
        ("plain", "torn", 0),
        ("guarded", "torn", 0),
        # Its handler was set after the guard, and calls the one before.
        ("later", "torn", 0),
        # The fault is elsewhere.
        ("none", "", -signal.SIGBUS),
        ("handler", "handled", 0),
        ("info", "handled", 0),
        ("stack", "handled", 0),
        # A process sent the signal.
        ("sent", "", -signal.SIGBUS),
        ("ignored", "ignored", 0),
        ("once", "1", -signal.SIGBUS),
    ],
)
def test_sigbus_reaches_the_guard_or_what_was_there_before(program, case, word, status):
    done = subprocess.run(
        [program, case], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.strip(), done.returncode) == (word, status), done.stderr
