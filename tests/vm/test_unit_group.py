"""The daemons of a unit with cgroup v2, started as systemd before 254 does: in the unit's
own group, also while jobs run in groups below it.

Runs inside: ``scripts/vm -- pytest tests/vm/test_unit_group.py``. No systemd is there: the
test puts each process into its group.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.vm

ROOT = Path("/sys/fs/cgroup")
UNIT = ROOT / "cosched.service"
TASK = Path(__file__).parent.parent / "tools/task.py"
DEADLINE_S = 120
JOBS = ("a", "b", "c")
#: Becomes a command in a group.
IN_GROUP = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


class Unit:
    """The unit's group, and what runs there."""

    def __init__(self, folder: Path) -> None:
        self.environ = {**os.environ, "COSCHED_RUN_DIR": str(folder / "run")}
        self.socket = folder / "run" / os.uname().nodename / "register.sock"
        self.daemon: subprocess.Popen[bytes] | None = None
        self.tasks: list[subprocess.Popen[str]] = []

    def start(self) -> None:
        """Starts the daemon in the unit's own group, and waits until it is ready."""
        self.daemon = subprocess.Popen(
            ["sh", "-c", IN_GROUP, UNIT, "coschedd", "--slice", "60s"],
            env=self.environ,
            stdout=subprocess.PIPE,
        )
        assert self.daemon.stdout is not None
        assert self.daemon.stdout.readline().startswith(b"READY")

    def stop_post(self) -> None:
        """Runs the command of ExecStopPost, in the group that systemd gives it."""
        control = UNIT / ".control"
        control.mkdir(exist_ok=True)
        command = ["sh", "-c", IN_GROUP, control, "cosched", "down", "--keep-jobs"]
        subprocess.run(command, env=self.environ, check=True, timeout=DEADLINE_S)
        _eventually(lambda: not (control / "cgroup.procs").read_text())
        control.rmdir()

    def end(self, number: int) -> None:
        assert self.daemon is not None
        self.daemon.send_signal(number)
        self.daemon.communicate(timeout=DEADLINE_S)

    def begin_tasks(self) -> None:
        for job in JOBS:
            task = subprocess.Popen(
                [sys.executable, TASK, self.socket, job],
                env=self.environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self.tasks.append(task)
            assert task.stdout is not None
            assert task.stdout.readline().split()[0] == "0"

    def pids(self) -> dict[str, list[int]]:
        done = subprocess.run(
            ["cosched", "status", "--json"],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=True,
        )
        (node,) = json.loads(done.stdout)["nodes"]
        assert node["class_scheduler"]["name"] == "cgroup2"
        return {job["name"]: [t["pid"] for t in job["tasks"]] for job in node["jobs"]}

    def close(self) -> None:
        for task in self.tasks:
            task.kill()
            task.communicate(timeout=DEADLINE_S)
        down = ["cosched", "down"]
        subprocess.run(down, env=self.environ, check=False, timeout=DEADLINE_S)


def _eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture
def unit(tmp_path: Path) -> Iterator[Unit]:
    (ROOT / "cgroup.subtree_control").write_text("+cpu")
    UNIT.mkdir()
    os.setxattr(UNIT, "trusted.delegate", b"1")
    made = Unit(tmp_path)
    yield made
    made.close()
    _eventually(lambda: "populated 0" in (UNIT / "cgroup.events").read_text())
    for group in sorted(UNIT.rglob("*/"), reverse=True):
        group.rmdir()
    UNIT.rmdir()


def _weights() -> list[str]:
    return [path.read_text() for path in UNIT.glob("cosched-*/*/cpu.weight")]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGUSR1])
def test_next_daemon_starts_in_the_unit_and_has_the_jobs(unit: Unit, number: int) -> None:
    unit.start()
    unit.begin_tasks()
    pids = unit.pids()
    assert sorted(pids) == list(JOBS)
    for _ in range(2):
        assert len(set(_weights())) == 2, "one job is scheduled"
        unit.end(number)
        with pytest.raises(OSError, match="busy") as refused:
            (UNIT / "cgroup.procs").write_text(str(os.getpid()))
        assert refused.value.errno == errno.EBUSY
        unit.stop_post()
        assert _weights() == []
        for task in unit.tasks:
            assert f"/{UNIT.name}/cosched-" in Path(f"/proc/{task.pid}/cgroup").read_text()
        unit.start()
        assert unit.pids() == pids
        assert len(_weights()) == len(JOBS)
        assert (UNIT / "cgroup.procs").read_text() == ""
