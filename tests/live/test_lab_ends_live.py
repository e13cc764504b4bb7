"""A real lab ends: by command, after sudden deaths, or half made. Nothing is left of it."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from cosched.core.errors import CoschedError
from cosched.lab import life
from cosched.lab.keeper import NodeShape, start_keeper
from cosched.lab.lab import Lab
from cosched.lab.state import read_state, state_path, write_state
from cosched.linux.namespaces import ProcessId, processes_inside
from tests.live.test_lab_live import (
    PATIENCE_S,
    assert_nothing_left,
    inside,
    mark,
    start_inside,
)
from tests.live.test_lab_live import run_dir as run_dir  # noqa: PLC0414

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="a lab needs root"),
    pytest.mark.skipif(
        not shutil.which("nsenter") or not shutil.which("taskset"),
        reason="a lab needs util-linux",
    ),
]


# --- down ---------------------------------------------------------------------------

PATIENT = "import signal; print('ready', flush=True); signal.pause()"
STUBBORN = f"import signal; signal.signal(15, signal.SIG_IGN); {PATIENT}"


def test_lab_down_ends_every_process_inside(run_dir, lab_size, monkeypatch):
    monkeypatch.setattr(life, "TERM_GRACE_S", 0.1)
    lab = lab_size.up(run_dir, daemons=False)
    patient = [start_inside(lab, name, PATIENT) for name in lab_size.names[:-1]]
    stubborn = start_inside(lab, lab_size.last, STUBBORN)
    only_network = subprocess.Popen(
        ["nsenter", f"--net=/proc/{lab.nodes[0].keeper.pid}/ns/net", "sleep", "1000"]
    )
    bystander = subprocess.Popen(["sleep", "1000"])
    assert life.down(run_dir)
    assert {one.wait(PATIENCE_S) for one in patient} == {-signal.SIGTERM}
    assert stubborn.wait(PATIENCE_S) == -signal.SIGKILL
    assert only_network.wait(PATIENCE_S) in {-signal.SIGTERM, -signal.SIGKILL}
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()
    for process in (*patient, stubborn):
        process.communicate()
    assert_nothing_left(run_dir)
    assert not life.down(run_dir)


def test_lab_down_keeps_other_files_in_run_directory(run_dir):
    run_dir.mkdir()
    (run_dir / "other").write_text("")
    life.up(run_dir, nodes=1, cores_per_node=1, daemons=False)
    life.down(run_dir)
    assert [path.name for path in run_dir.iterdir()] == ["other"]
    (run_dir / "other").unlink()
    run_dir.rmdir()


def test_lab_down_works_after_run_directory_is_removed(run_dir):
    life.up(run_dir, nodes=1, cores_per_node=1, daemons=False)
    shutil.rmtree(run_dir)
    assert len(processes_inside(mark(run_dir), ())) == 2
    assert life.down(run_dir)
    assert_nothing_left(run_dir)


def test_lab_keepers_ignore_hangup_and_interrupt(run_dir):
    lab = life.up(run_dir, nodes=1, cores_per_node=1, daemons=False)
    for number in (signal.SIGHUP, signal.SIGINT):
        os.kill(lab.nodes[0].keeper.pid, number)
    assert inside(lab, "lab1", "uname", "-n") == "lab1\n"
    assert Lab.load(run_dir) == lab


# --- daemons ------------------------------------------------------------------------


def test_lab_daemons_start_and_stop_with_lab(run_dir, lab_size):
    lab = lab_size.up(run_dir)
    for node in lab.nodes:
        assert (run_dir / node.name / "control.sock").is_socket()
    assert life.down(run_dir)
    assert_nothing_left(run_dir)


def test_lab_down_ends_restarted_daemons(run_dir, lab_size):
    lab = lab_size.up(run_dir)
    keepers = {node.keeper.pid for node in lab.nodes}
    for process in processes_inside(f"{mark(run_dir)}lab1", ()):
        if process.pid not in keepers:
            # A daemon may end by itself once the daemon beside it is dead.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
    assert life.down(run_dir)
    assert_nothing_left(run_dir)


def test_lab_up_failed_daemon_takes_lab_down(run_dir, lab_size):
    run_dir.mkdir()
    last = lab_size.last
    (run_dir / last).write_text("in the way of the node's directory")
    with pytest.raises(CoschedError, match=rf"^{last}: 'cosched up' failed: .+$"):
        lab_size.up(run_dir)
    assert processes_inside(mark(run_dir), ()) == []
    shutil.rmtree(run_dir, ignore_errors=True)


# --- sudden deaths ------------------------------------------------------------------


def wait_gone(*pids):
    """Ends when the kernel has ended them: no polling of a clock."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            assert select.select([descriptor], [], [], PATIENCE_S)[0], f"{pid} lives"
            os.close(descriptor)


def kill_keepers(run_dir, *names):
    state = read_state(run_dir.resolve())
    assert state is not None
    pids = [keeper.pid for name, keeper in state.keepers if not names or name in names]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    wait_gone(*pids)


def test_lab_without_keepers_counts_as_down(run_dir, lab_size):
    lab_size.up(run_dir, daemons=False)
    kill_keepers(run_dir)
    assert Lab.load(run_dir) is None
    assert_nothing_left(run_dir)


def test_lab_down_ends_processes_without_keepers(run_dir, lab_size):
    lab = lab_size.up(run_dir, daemons=False)
    tenant = start_inside(lab, "lab1", PATIENT)
    kill_keepers(run_dir)
    assert Lab.load(run_dir) is None
    assert state_path(run_dir).exists()
    assert life.down(run_dir)
    assert tenant.wait(PATIENCE_S) == -signal.SIGTERM
    tenant.communicate()
    assert_nothing_left(run_dir)


@pytest.mark.parametrize("lost", ["lab1", "fabric"])
@pytest.mark.parametrize("then", ["down", "up"])
def test_lab_with_lost_keeper_is_cleaned_up(run_dir, lab_size, lost, then):
    lab = lab_size.up(run_dir)
    kill_keepers(run_dir, lost)
    with pytest.raises(CoschedError, match=f"lost {lost}: run 'cosched lab down'"):
        Lab.load(run_dir)
    if lost == "lab1":
        done = subprocess.run(
            [lab.agent, "lab1", "true"], capture_output=True, text=True, check=False
        )
        assert "lab1 has lost its keeper" in done.stderr
    if then == "up":
        again = life.up(run_dir, nodes=1, cores_per_node=1, daemons=False)
        assert len(processes_inside(mark(run_dir), ())) == 2
        assert Lab.load(run_dir) == again
    assert life.down(run_dir)
    assert_nothing_left(run_dir)


def test_lab_unconfirmed_keeper_ends(run_dir):
    run_dir.mkdir()
    pending = start_keeper(NodeShape("lab1", f"{mark(run_dir)}lab1", (), None))
    assert pending.process in processes_inside(mark(run_dir), ())
    pending.close()
    wait_gone(pending.process.pid)
    run_dir.rmdir()


# Where 'lab up' is killed, as life.py sees it.
KILL_AT = {
    "before the state is written": "life.write_state",
    "before the network is made": "life.fabric.join_nodes",
    "before the daemons are started": "life._in_nodes",
}


@pytest.mark.parametrize("where", KILL_AT)
@pytest.mark.parametrize("then", ["down", "up"])
def test_lab_up_killed_at_any_step_is_cleaned_up(run_dir, lab_size, where, then):
    code = (
        "import os\n"
        "from cosched.cli.main import main\n"
        "from cosched.lab import life\n"
        f"{KILL_AT[where]} = lambda *_: os.kill(os.getpid(), 9)\n"
        "main()"
    )
    words = ("lab", "up", "--run-dir", run_dir, *lab_size.words)
    done = subprocess.run([sys.executable, "-c", code, *words], check=False)
    assert done.returncode == -signal.SIGKILL
    if where == "before the state is written":
        assert Lab.load(run_dir) is None
    else:
        with pytest.raises(CoschedError, match="half made"):
            Lab.load(run_dir)
    if then == "up":
        life.up(run_dir, nodes=1, cores_per_node=1, daemons=False)
    assert life.down(run_dir)
    assert_nothing_left(run_dir)


def test_lab_up_interrupted_leaves_nothing(run_dir, lab_size, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(life.fabric, "join_nodes", interrupt)
    with pytest.raises(KeyboardInterrupt):
        lab_size.up(run_dir, daemons=False)
    assert_nothing_left(run_dir)


def test_lab_down_spares_reused_pid(run_dir):
    """A state file from long ago may name a pid that now belongs to another process."""
    life.up(run_dir, nodes=1, cores_per_node=1, daemons=False)
    state = read_state(run_dir.resolve())
    assert state is not None
    kill_keepers(run_dir)
    bystander = subprocess.Popen(["sleep", "1000"])
    namesake = ProcessId(bystander.pid, 1)
    node = replace(state.nodes[0], keeper=namesake)
    write_state(run_dir.resolve(), replace(state, fabric=namesake, nodes=(node,)))
    assert life.down(run_dir)
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()
