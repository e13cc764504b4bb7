"""Changes of live nodes that a process holds end with it, also if it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from cosched.core.errors import CoschedError
from cosched.node.sockets.client import ControlClient, HeldChanges, request
from tests.live.conftest import LiveNode, eventually
from tests.live.test_configured_live import NOBODY, as_user
from tests.places import ROOT
from tests.tools.commands import run_command

pytestmark = pytest.mark.live

COSCHED = [sys.executable, "-c", "from cosched.cli.main import main; main()"]
#: A job that runs while a file is there.
WORKLOAD = """
[[job]]
name = "w"
command = ["sh", "-c", "while [ -e {file} ]; do sleep 0.1; done"]
ranks = 1
"""


def slice_of(node):
    return node.status()["settings"]["slice"]


@contextmanager
def running(*words, **options):
    process = subprocess.Popen(
        words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def test_change_ends_with_its_holder_and_not_before(node):
    node.up()
    words = ("config", "set", "--run-dir", str(node.paths.run_dir))
    with running(*COSCHED, *words, "--hold", "slice=3s") as holder:
        assert holder.stdout.readline() == "node node1: slice=3s gmet=1ms align=off\n"
        settings = node.status()["settings"]
        assert settings["lent"] == {"slice": holder.pid}
        assert f"slice is on loan to process {holder.pid}" in settings["warnings"]
        done = run_command(*words, "slice=7s")
        assert done.returncode == 0, done.stderr
        assert f"slice is on loan to process {holder.pid}; 7s counts later" in done.stderr
        assert slice_of(node) == "3s"
        holder.kill()
        eventually(lambda: slice_of(node) == "7s", "the operator's slice")
    assert node.status()["settings"]["lent"] == {}
    with running(*COSCHED, *words, "--hold", "slice=3s") as holder:
        holder.stdout.readline()
        holder.stdin.close()
        assert holder.wait() == 0
        assert slice_of(node) == "7s"


def test_change_without_input_is_refused(node):
    node.up()
    words = ("config", "set", "--run-dir", str(node.paths.run_dir))
    done = run_command(*words, "--hold", "slice=3s")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "--hold: standard input has ended already" in done.stderr
    assert slice_of(node) == "10s"


def test_user_may_not_borrow_the_operators_settings(node):
    node.up()
    node.paths.run_dir.chmod(0o755)
    program = (
        "import sys, pathlib\n"
        "from cosched.node.sockets.client import request\n"
        "from cosched.rundir.paths import NodePaths\n"
        "paths = NodePaths(pathlib.Path(sys.argv[1]), 'node1')\n"
        "request(paths, 'borrow', settings={'slice': '1s'})\n"
    )
    done = subprocess.run(
        [*as_user(NOBODY), sys.executable, "-c", program, str(node.paths.run_dir)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "'borrow' is for root and the daemon's own user" in done.stderr
    assert slice_of(node) == "10s"


def test_killed_bench_leaves_the_settings_of_before(run_dir, tmp_path):
    """The bench takes this machine as its only node; its warm-up does not end before the
    test does."""
    host = os.uname().nodename
    node = LiveNode(run_dir, host)
    node.up()
    workload = tmp_path / "w.toml"
    needed = tmp_path / "needed"
    needed.touch()
    workload.write_text(WORKLOAD.format(file=needed))
    words = ("bench", str(workload), "--hosts", host, "--run-dir", str(run_dir))
    try:
        # A killed bench leaves its temporary files.
        own = {"env": {**os.environ, "TMPDIR": str(tmp_path)}, "start_new_session": True}
        with running(*COSCHED, *words, "--slice", "3s", **own) as bench:
            eventually(lambda: slice_of(node) == "3s", "the bench's slice")
            os.killpg(bench.pid, signal.SIGKILL)
            eventually(lambda: slice_of(node) == "10s", "the slice of before")
    finally:
        needed.unlink()
        node.close()


def test_forgotten_jobs_are_remembered_after_the_holder(node):
    node.up()
    assert node.task("a").ask("leave") == "bye"
    eventually(lambda: node.job("a") is None, "the job to be forgotten")
    with HeldChanges() as held:
        later_ns = node.status()["wall_ns"] + 10**9
        assert held.hold(node.paths, "forget", since_wall_ns=later_ns) == {"ended": 0}
    assert request(node.paths, "relearn") == {"ended": 1}


def test_invalid_change_is_refused_and_holds_nothing(node):
    node.up()
    with ControlClient(node.paths) as client:
        with pytest.raises(CoschedError, match="slice: 'soon'"):
            client.request("borrow", settings={"slice": "soon"})
        assert client.request("give_back") == {"ok": True}
    assert node.status()["settings"]["lent"] == {}
