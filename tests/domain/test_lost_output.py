"""Output that cannot be written: the job goes on, and its end has the reason."""

from __future__ import annotations

import os
import subprocess
import threading
import time

import pytest


def test_output_to_a_full_device_is_the_reason_of_the_end(pair):
    job = pair.wait(pair.shell("head -c 100000 /dev/zero; sleep 0.2", output="/dev/full"))
    assert (job["state"], job["status"], job["reason"]) == (
        "failed",
        1,
        "output /dev/full is incomplete: No space left on device on n1",
    )


def test_the_failure_of_a_task_comes_before_missing_output(pair):
    job = pair.wait(pair.shell("echo out; exit 3", output="/dev/full", nodes=2))
    assert (job["state"], job["status"]) == ("failed", 3)
    assert "ended with status 3" in job["reason"]


def test_output_of_another_node_counts_too(pair):
    # The root's own task writes nothing.
    script = '[ "$(cat)" ] || { [ "$PMI_RANK" = 0 ] || echo out; }'
    job = pair.wait(pair.shell(script, nodes=2, ppn=1, output="/dev/full", pmi="pmi1"))
    assert job["reason"] == "output /dev/full is incomplete: No space left on device on n1"


@pytest.fixture
def small_disk(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("mounts a small file system")
    words = ["-t", "tmpfs", "-o", "size=1m,mode=0777", "none", str(tmp_path)]
    subprocess.run(["mount", *words], check=True)
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def test_output_to_a_full_disk_keeps_what_was_written(pair, small_disk):
    file = small_disk / "out"
    job = pair.wait(pair.shell("head -c 5000000 /dev/zero", output=str(file)))
    assert (job["state"], job["status"]) == ("failed", 1)
    assert job["reason"] == f"output {file} is incomplete: No space left on device on n1"
    assert file.stat().st_size == 1 << 20


def test_a_pipe_without_a_reader_fails_at_once(pair):
    os.mkfifo(pair.work / "pipe")
    began = time.monotonic()
    job = pair.wait(pair.submit("/bin/echo", "out", output="pipe"))
    assert time.monotonic() - began < 8  # no start waited for its end
    assert (job["state"], job["starts"]) == ("failed", 1)
    assert job["reason"] == (
        f"n1: output {pair.work}/pipe: is a pipe without a reader; start its reader before "
        "the job"
    )


def test_a_pipe_with_a_reader_gets_the_output(pair):
    path = pair.work / "read-pipe"
    os.mkfifo(path)
    read = []
    reader = threading.Thread(target=lambda: read.append(path.read_text()))
    reader.start()
    held = os.open(path, os.O_RDWR)  # or the reader would not have opened it yet
    try:
        job = pair.wait(pair.submit("/bin/echo", "out", output="read-pipe"))
    finally:
        os.close(held)
    reader.join()
    assert (job["state"], read) == ("done", ["out\n"])
