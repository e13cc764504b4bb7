"""Files that are written as a whole: a full disk and a kill leave the former file. The
sources are read for writers that do not do so."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cosched.core.errors import CoschedError
from cosched.linux.files import whole
from cosched.linux.files.whole import PRIVATE, is_replaceable, write_whole, writing_whole
from tests.places import ROOT
from tests.tools.sources import nodes_of, python_files

#: Why a function opens a file to write into it, by file and function.
NOT_WHOLE = {
    # appended to, by records and logs
    ("cosched/node/records/log_file.py", "_open_closed"): "log",
    ("cosched/node/records/bounded_file.py", "_open"): "log of records",
    ("cosched/node/records/bounded_file.py", "_write_previous"): "renamed at its end",
    ("cosched/launch/run_record.py", "_opened"): "records, under a lock",
    ("cosched/shm/page.py", "create"): "shared memory",
    ("cosched/shm/page.py", "open"): "shared memory",
    ("cosched/bench/results/store.py", "add"): "records, under a lock",
    ("cosched/bench/results/store.py", "alone"): "records, under a lock",
    ("cosched/cluster/agent/steps.py", "__init__"): "log of steps",
    ("cosched/cluster/up/members.py", "start_member"): "log of a child",
    ("cosched/cluster/slurm/step.py", "_start_step"): "log of a child",
    ("daemons/stepagent.py", "_log_to"): "log",
    ("cosched/bench/run/processes.py", "_start"): "output of a child",
    ("cosched/cluster/agent/steward/streams.py", "_open"): "output of a job",
    ("cosched/cli/files.py", "writing"): "stdout, a device or a pipe",
    ("cosched/cluster/agent/steward/task_process.py", "script_words"): "a new file",
    # locks, which hold nothing or a pid of fixed width
    ("cosched/rundir/lock.py", "_open"): "lock",
    ("cosched/cluster/up/private.py", "_starting"): "lock",
    ("cosched/launch/compile.py", "locked"): "lock",
    # no files of a disk
    ("cosched/linux/cgroups/cgroupfs.py", "write"): "cgroups",
    ("cosched/linux/cgroups/knobs.py", "open"): "cgroups",
    ("cosched/linux/cgroups/killgroup.py", "_open"): "cgroups",
    ("cosched/linux/processes/background.py", "_be_scored_as_others"): "the kernel's",
    ("cosched/linux/priority.py", "_lower_autogroup_nice"): "/proc",
    ("cosched/node/bell.py", "open_bell"): "pipe",
    ("cosched/launch/selfcheck.py", "run_selftest"): "pipe",
    ("cosched/start/streams.py", "_open_if_closed"): "/dev/null",
    ("cosched/node/timer/spare.py", "_stand_by"): "/dev/null",
    ("cosched/cluster/agent/nursery.py", "main"): "/dev/null",
    ("cosched/lab/keeper.py", "_hold_only"): "/dev/null",
    # others
    ("cosched/cluster/database.py", "open_database"): "SQLite",
    ("cosched/cluster/database.py", "copy_database"): "SQLite",
    ("cosched/sim/parallel.py", "__init__"): "mapped into memory by several processes",
    ("cosched/sim/parallel.py", "_side_by_side"): "mapped into memory by several processes",
    ("cosched/bench/run/record.py", "copied"): "a copy that one process reads",
    ("cosched/cli/sim/options.py", "_copied"): "a copy that is read when it is complete",
    ("cosched/linux/files/whole.py", "writing_whole"): "the helper",
}
WRITERS = {"write_text", "write_bytes", "copyfile", "copy", "copy2", "NamedTemporaryFile"}
OPENERS = {"open", "open_file"}


def test_a_file_is_replaced_with_its_mode(tmp_path):
    path = tmp_path / "file"
    path.write_text("before")
    write_whole(path, "after", PRIVATE)
    assert path.read_text() == "after"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_of_the_name_is_replaced_and_not_followed(tmp_path):
    kept, path = tmp_path / "kept", tmp_path / "file"
    kept.write_text("precious")
    path.symlink_to(kept)
    write_whole(path, b"new")
    assert (kept.read_text(), path.read_text(), path.is_symlink()) == (
        "precious",
        "new",
        False,
    )


def test_an_error_in_the_middle_leaves_the_former_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("before")

    def write():
        with writing_whole(path) as file:
            file.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_name_that_cannot_reach_the_disk_is_an_error_of_one_line(tmp_path, monkeypatch):
    def full(_descriptor):
        raise OSError(28, "No space left on device")

    path = tmp_path / "file"
    path.write_text("before")
    monkeypatch.setattr(whole.os, "fsync", full)
    with pytest.raises(CoschedError, match=r"file: cannot be written: No space left"):
        write_whole(path, "after")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_a_full_disk_leaves_the_former_file(tmp_path):
    script = f"""
mount -t tmpfs -o size=16k none {tmp_path}
echo before > {tmp_path}/file
dd if=/dev/zero of={tmp_path}/fill bs=1k count=100 2>/dev/null || true
exec {sys.executable} -c '
from pathlib import Path
from cosched.core.errors import CoschedError
from cosched.linux.files.whole import write_whole
path = Path("{tmp_path}/file")
try:
    write_whole(path, "x" * 100_000)
except CoschedError as error:
    print(error)
print(path.read_text(), sorted(each.name for each in path.parent.iterdir()))
'"""
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == (
        f"{tmp_path}/file: cannot be written: No space left on device\n"
        "before\n ['file', 'fill']\n"
    )


def test_devices_and_pipes_are_written_into(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert not is_replaceable(Path("/dev/null"))
    assert not is_replaceable(tmp_path / "pipe")
    assert is_replaceable(tmp_path / "missing")


def opens_to_write(call: ast.Call) -> bool:
    """Returns whether a call opens or replaces a file to write into it."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    name = call.func.id if isinstance(call.func, ast.Name) else name
    if name in WRITERS:
        module = call.func.value if isinstance(call.func, ast.Attribute) else None
        return name not in ("copy", "copy2") or ast.unparse(module or call) == "shutil"
    if name not in OPENERS:
        return False
    if isinstance(call.func, ast.Attribute) and ast.unparse(call.func) == "os.open":
        # flags in a variable count as flags that write
        text = " ".join(map(ast.unparse, call.args[1:2]))
        return any(flag in text for flag in ("O_WRONLY", "O_RDWR", "O_CREAT", "flags"))
    modes = [*call.args, *(word.value for word in call.keywords if word.arg == "mode")]
    texts = [mode.value for mode in modes if isinstance(mode, ast.Constant)]
    return any(
        isinstance(text, str) and 0 < len(text) <= 4 and set(text) & set("wax+")
        for text in texts
        if set(str(text)) <= set("rwaxbt+")
    )


def writers() -> set[tuple[str, str]]:
    found = set()
    for path in python_files("cosched", "daemons"):
        for function in nodes_of(path):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                found |= {
                    (str(path.relative_to(ROOT)), function.name)
                    for call in ast.walk(function)
                    if isinstance(call, ast.Call) and opens_to_write(call)
                }
    return found


def test_every_other_file_is_written_as_a_whole():
    found = writers()
    assert not found - NOT_WHOLE.keys(), "use cosched.linux.files.whole"
    assert not NOT_WHOLE.keys() - found, "no longer opens a file"
