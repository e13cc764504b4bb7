"""A private domain on a disk that is full for a while: no result is lost, no later job
fails, and a signal ends a command that waits."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest

from cosched.rundir.lock import is_held
from tests.domain.rig import WITHIN_S
from tests.domain.test_killed_members import NODE, Private, ended, until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")


class SmallDisk:
    """A file system of 4 MB at the run directory."""

    def __init__(self, folder):
        self.folder = folder
        self.fill_file = folder / "fill"
        folder.mkdir()
        words = ["-t", "tmpfs", "-o", "size=4m,mode=0755", "none", str(folder)]
        subprocess.run(["mount", *words], check=True)

    def fill(self, left=0):
        """Takes all space but ``left`` bytes."""
        found = os.statvfs(self.folder)
        size = found.f_bavail * found.f_frsize - left
        with self.fill_file.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
        assert os.statvfs(self.folder).f_bavail * found.f_frsize <= left

    def free(self):
        self.fill_file.unlink()

    def close(self):
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)


@pytest.fixture
def private(tmp_path):
    private = Private(tmp_path)
    private.disk = SmallDisk(tmp_path / "run")
    yield private
    private.disk.fill_file.unlink(missing_ok=True)
    private.run("cluster", "down", "--end-jobs")
    private.disk.close()


def submit(private, script, *words):
    """Starts ``cosched submit --wait``; returns its process once the job runs."""
    script = f"touch runs; while [ ! -e go ]; do sleep 0.05; done; {script}"
    words = ("submit", "--wait", *words, "--input", "none", "sh", "-c", script)
    process = private.start(*words, XDG_CACHE_HOME=str(private.folder / "cache"))
    until((private.folder / "runs").exists)
    return process


def test_the_end_of_a_job_on_a_full_disk_is_not_lost(private):
    job = submit(private, "echo end; exit 3")
    controller = private.pid("controller")
    private.disk.fill()
    (private.folder / "go").touch()
    # Longer than the time after which a node is lost.
    until(lambda: controller_stands_still(controller))
    time.sleep(3)
    private.disk.free()
    status, out, err = ended(job)
    assert (status, out) == (3, "end\n"), err
    assert err == f"cosched submit: job 1: failed: rank 0 ended with status 3 on {NODE}\n"
    assert private.pid("controller") == controller
    words = ("submit", "--wait", "--input", "none", "echo", "hi")
    assert private.run(*words)[:2] == (0, "hi\n")


def test_a_controller_on_a_full_disk_ends_by_a_signal_and_its_job_is_kept(private):
    job = submit(private, "exit 3")
    controller = private.pid("controller")
    private.disk.fill()
    (private.folder / "go").touch()
    until(lambda: controller_stands_still(controller))
    os.kill(controller, signal.SIGTERM)
    until(lambda: not is_held(private.lock("controller")))
    # The command reports that, and starts it again.
    assert select.select([job.stderr], [], [], WITHIN_S)[0]
    private.disk.free()
    status, _, err = ended(job)
    assert status == 3, err
    first, *_ = err.splitlines()
    assert "the controller of the private domain has ended (see " in first
    assert "killed" not in err


def test_a_signal_ends_a_command_whose_domain_stands_still(private):
    job = submit(private, "exit 3")
    controller = private.pid("controller")
    private.disk.fill()
    (private.folder / "go").touch()
    until(lambda: controller_stands_still(controller))
    job.send_signal(signal.SIGTERM)
    status, _, err = ended(job)
    assert status == 128 + signal.SIGTERM
    assert err.splitlines()[-1] == (
        "cosched submit: job 1: the domain does not answer, so the job goes on; "
        "later use: cosched cancel 1"
    )


@pytest.mark.parametrize("left", [0, 4096, 8192, 16384, 32768, 65536])
def test_a_domain_that_could_not_start_starts_when_there_is_space(private, left):
    private.disk.fill(left)
    words = ("submit", "--wait", "--input", "none", "echo", "hi")
    status, _, err = private.run(*words)
    line, *more = err.splitlines() or [""]
    assert more == []
    assert status == 0 or "No space left" in line or "free space on its disk" in line
    private.disk.free()
    assert private.run(*words)[:2] == (0, "hi\n")


def controller_stands_still(pid):
    """Returns whether the controller waits in its store and not for messages."""
    place = Path(f"/proc/{pid}")
    return "nanosleep" in (place / "wchan").read_text()
