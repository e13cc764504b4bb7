"""Which tasks leave their classes because they were killed."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from types import SimpleNamespace

import pytest

from cosched.core.errors import CoschedError
from cosched.core.node.messages import Mode
from cosched.linux import proc
from cosched.node.tasks.killed_tasks import KilledTasks


class Classes:
    """Notes the tasks that were removed."""

    def __init__(self, refuses=()):
        self.removed = []
        self._refuses = refuses

    def remove(self, job, pid):
        if pid in self._refuses:
            raise CoschedError(f"class {job}: gone")
        self.removed.append((job, pid))


def node(**jobs):
    """Jobs by name: whether each is scheduled, its mode, and its tasks."""
    states = {
        key: SimpleNamespace(scheduled=scheduled, mode=mode)
        for key, (scheduled, mode, _) in jobs.items()
    }
    table = [SimpleNamespace(key=k, tasks=dict.fromkeys(j[2])) for k, j in jobs.items()]
    return SimpleNamespace(jobs=states), table


@pytest.mark.parametrize(
    ("scheduled", "mode", "removed"),
    [
        (False, Mode.COSCHEDULED, [("a", 2)]),
        (True, Mode.COSCHEDULED, []),
        (False, Mode.SUSPENDED, []),
        (False, Mode.RELEASED, []),
    ],
)
def test_killed_tasks_of_jobs_that_wait_leave(scheduled, mode, removed):
    classes = Classes()
    jobs = node(a=(scheduled, mode, (1, 2)))
    KilledTasks(*jobs, classes, {1: False, 2: True}.__getitem__).release()
    assert classes.removed == removed


def test_a_class_that_refuses_is_reported_and_the_others_go_on(caplog):
    classes = Classes(refuses={1})
    jobs = node(a=(False, Mode.COSCHEDULED, (1, 2)))
    with caplog.at_level(logging.ERROR):
        KilledTasks(*jobs, classes, lambda _pid: True).release()
    assert classes.removed == [("a", 2)]
    assert caplog.messages == ["job a: class a: gone"]


@pytest.mark.parametrize(
    ("pending", "killed"), [(0, False), (1 << 8, True), (1 << 14, False), (257, True)]
)
def test_pending_sigkill_is_read(tmp_path, pending, killed):
    fields = ["S", *["0"] * 51]
    fields[28] = str(pending)
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/stat").write_text(f"7 (a) b) {' '.join(fields)}\n")
    assert proc.is_killed(7, tmp_path) is killed
    assert not proc.is_killed(8, tmp_path)


def test_a_stopped_process_with_a_caught_signal_is_not_killed():
    words = ["sh", "-c", "trap : TERM; kill -STOP $$; exit 3"]
    with subprocess.Popen(words) as process:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        process.send_signal(signal.SIGTERM)
        assert not proc.is_killed(process.pid)
        process.send_signal(signal.SIGCONT)
        assert process.wait() == 3
    assert not proc.is_killed(process.pid)
