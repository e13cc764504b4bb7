"""The compile cache: one build at a time, no half results, one-line errors."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cosched.core.errors import CoschedError
from cosched.launch.compile import (
    LOCK_NAME,
    Compiler,
    build_once,
    fingerprint,
    first_error,
    locked,
)
from cosched.linux.files.cache import cache_folder
from tests.fakes import eventually


def build(scratch: Path) -> Path:
    made = scratch / "made"
    made.write_text("whole")
    return made


def test_build_that_was_killed_leaves_nothing(tmp_path):
    target = tmp_path / "cache" / "library"
    half = target.parent / "build-killed"
    half.mkdir(parents=True)
    (half / "library").write_text("half")
    assert build_once(target, build).read_text() == "whole"
    assert sorted(os.listdir(target.parent)) == ["library", LOCK_NAME]


def test_failed_build_leaves_no_target(tmp_path):
    def fail(scratch: Path) -> Path:
        (scratch / "library").write_text("half")
        raise CoschedError("does not compile")

    with pytest.raises(CoschedError, match="does not compile"):
        build_once(tmp_path / "library", fail)
    assert os.listdir(tmp_path) == [LOCK_NAME]


@pytest.mark.parametrize(
    "script",
    [
        "nocc -c",
        "echo 'was unable to find the specified compiler nocc in your PATH' >&2; exit 1",
    ],
    ids=["mpich", "openmpi"],
)
def test_wrapper_without_a_compiler_gives_the_remedy(tmp_path, script):
    wrapper = tmp_path / "mpicc"
    wrapper.write_text(f"#!/bin/sh\n{script}\n")
    wrapper.chmod(0o755)
    with pytest.raises(CoschedError) as caught:
        Compiler((str(wrapper),), "the shim", os.environ).run("a.c")
    assert str(caught.value).endswith("; install a C compiler: apt install gcc")
    wrapper.write_text("#!/bin/sh\necho 'a.c: error: x' >&2; exit 1\n")
    with pytest.raises(CoschedError) as caught:
        Compiler((str(wrapper),), "the shim", os.environ).run("a.c")
    assert str(caught.value) == f"{wrapper} cannot build the shim: a.c: error: x"


def test_builds_at_once_build_once(tmp_path):
    script = (
        "import os, sys; from pathlib import Path\n"
        "from cosched.launch.compile import build_once\n"
        "def build(scratch):\n"
        "    made = scratch / 'made'; made.touch(); print('built'); return made\n"
        "build_once(Path(sys.argv[1]), build)"
    )
    words = [sys.executable, "-c", script, str(tmp_path / "target")]
    builders = [
        subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    printed = [builder.communicate()[0] for builder in builders]
    assert sorted(printed) == ["", "", "built\n"]
    assert all(builder.returncode == 0 for builder in builders)


def test_build_waits_for_a_build_under_way(tmp_path):
    target = tmp_path / "target"
    found: list[str] = []
    waiter = threading.Thread(
        target=lambda: found.append(build_once(target, build).read_text())
    )
    with locked(tmp_path):
        waiter.start()
        inode = (tmp_path / LOCK_NAME).stat().st_ino
        assert eventually(lambda: is_waited_for(inode))
        target.write_text("made by another process")
    waiter.join()
    assert found == ["made by another process"]


def is_waited_for(inode: int) -> bool:
    """Whether a process waits for a lock on this file that another holds."""
    lines = Path("/proc/locks").read_text().splitlines()
    return any("->" in line and f":{inode} " in line for line in lines)


def test_unwritable_cache_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CoschedError) as caught:
        build_once(tmp_path / "file" / "cache" / "target", build)
    assert str(caught.value) == (
        f"cannot write '{tmp_path}/file/cache': Not a directory; "
        "set XDG_CACHE_HOME to a directory of yours"
    )


def test_cache_folder_follows_the_environment():
    assert str(cache_folder({"XDG_CACHE_HOME": "/x"}, "kind")) == "/x/cosched/kind"
    home = {"HOME": "/h", "XDG_CACHE_HOME": "relative"}
    assert str(cache_folder(home, "kind")) == "/h/.cache/cosched/kind"


def test_fingerprint_separates_its_parts():
    names = {fingerprint(parts) for parts in (["ab", "c"], ["a", "bc"], [b"abc"], [])}
    assert len(names) == 4


def test_missing_compiler_is_one_line(tmp_path):
    compiler = Compiler((str(tmp_path / "cc"),), "a library", {}, "set CC")
    with pytest.raises(CoschedError) as caught:
        compiler.run("-c")
    assert str(caught.value) == (
        f"no C compiler for a library: {tmp_path}/cc: No such file or directory; set CC"
    )


def test_failed_compiler_reports_its_first_error(tmp_path):
    script = "echo 'x.c: In f:' >&2; echo ' x.c:1: error: wrong' >&2; exit 1"
    compiler = Compiler(("sh", "-c", script), "x", os.environ)
    with pytest.raises(CoschedError, match=r"^sh cannot build x: x\.c:1: error: wrong$"):
        compiler.run()


def test_compiler_runs_without_the_users_preload():
    compiler = Compiler(("sh", "-c", "echo $LD_PRELOAD"), "x", {"LD_PRELOAD": "/x.so"})
    assert compiler.run() == "\n"


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("", "it failed without a message"),
        ("one\ntwo", "one"),
        ("one\n sh: cc: not found\n", "sh: cc: not found"),
    ],
)
def test_first_error_chooses_the_line(output, line):
    assert first_error(output) == line
