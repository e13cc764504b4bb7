"""Trace, why, replay and history of live daemons."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cosched.node.sockets.client import ControlClient, request
from cosched.observe.timeline.replay import replay
from cosched.observe.timeline.trace import read_trace
from cosched.rundir.paths import job_key
from tests.live.conftest import LiveNode, eventually
from tests.tools.commands import run_command

pytestmark = pytest.mark.live

COSCHED = Path(sys.executable).parent / "cosched"
STRANGER = 65534


def cosched(run_dir, *words):
    return run_command(*words, "--run-dir", run_dir)


def answers(run_dir, *words):
    run = cosched(run_dir, *words, "--json")
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def ask_as(uid, paths, requests):
    """The daemon's answers to a process of another user."""
    program = (
        "import json, os, socket, sys\n"
        "path, uid, *lines = sys.argv[1:]\n"
        "link = socket.socket(socket.AF_UNIX)\n"
        "os.setuid(int(uid))\n"
        "link.connect(path)\n"
        "reader = link.makefile()\n"
        "for line in lines:\n"
        "    link.sendall(line.encode() + b'\\n')\n"
        "    print(reader.readline(), end='')\n"
    )
    lines = [json.dumps(request) for request in requests]
    run = subprocess.run(
        [sys.executable, "-c", program, paths.control_socket, str(uid), *lines],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_why_explains_pulled_switch_and_refusal(node, run_dir):
    node.up(gmet="60s", slice="120s")
    first, second = node.task("a", rank=2), node.task("b", rank=3)
    request(node.paths, "turn", job=job_key(os.geteuid(), "b"))
    eventually(lambda: second.scheduled, "the turn that it was given")
    first.ask("arrive 1")
    eventually(lambda: node.job("a")["refused"].get("gmet"), "the refusal")
    request(node.paths, "set", settings={"gmet": "1ms"})
    request(node.paths, "turn", job=job_key(os.geteuid(), "a"))
    eventually(lambda: first.scheduled, "the turn that it was given")

    def pulled():
        second.ask("arrive 1")
        return second.scheduled

    eventually(pulled, "the switch")
    (story,) = answers(run_dir, "why", "b")["nodes"]
    texts = [note["text"] for note in story["notes"]]
    assert texts[-1] == (
        "scheduled: rank 3 trapped a message of a peer that runs; a gave way"
    )
    assert story["now"].startswith("runs for ")
    shown = cosched(run_dir, "why", "a").stdout
    said = " ".join(shown.split())
    assert re.search(r"refused, rank 2 trapped a message: b had \d+(\.\d+)? s of its", said)
    assert "displaced by b: rank 3 trapped a message there; now b" in said
    assert max(map(len, shown.splitlines())) <= 80
    assert re.search(r"so far: scheduled (once|2 times), for ", said)
    counted = " ".join(cosched(run_dir, "why", "b", "--last", "1").stdout.split())
    assert re.search(r"scheduled (once,|\d+ times, 1 of them) by a message,", counted)
    assert re.search(r"; \d+ requests? refused", counted)
    assert re.search(r"earlier changes: --last [1-9]\d*, or --json\)", counted)
    nowhere = cosched(run_dir, "why", "a", "--node", "nosuch")
    assert (nowhere.returncode, nowhere.stderr.count("\n")) == (1, 1)
    assert "node nosuch: not found here" in nowhere.stderr
    assert story["live"]["scheduled"] is True


def test_why_without_daemon_reads_trace(node, run_dir):
    node.up()
    first = node.task("a")
    first.ask("leave")
    eventually(lambda: node.job("a") is None, "the end of a")
    node.down()
    (story,) = answers(run_dir, "why", "a")["nodes"]
    assert story["now"] == "no daemon is up; this is from its trace"
    assert story["notes"][-1]["text"] == "ended: its last task left"
    unknown = cosched(run_dir, "why", "nosuch")
    assert unknown.returncode == 1
    assert unknown.stderr.count("\n") == 1
    assert "nosuch: not found on node1" in unknown.stderr


def test_why_old_events_come_from_trace(node, run_dir):
    node.up()
    node.task("a").ask("leave")
    eventually(lambda: node.job("a") is None, "the end of a")
    node.down()
    node.up()
    node.task("b")  # the new daemon remembers only this
    (story,) = answers(run_dir, "why", "a")["nodes"]
    assert story["now"] == "ended"
    assert story["notes"][-1]["text"] == "ended: its last task left"
    (recent,) = answers(run_dir, "why", "b")["nodes"]
    assert [note["why"] for note in recent["notes"]] == ["first", "first"]
    none = cosched(run_dir, "why", "a", "--since", "soon")
    assert (none.returncode, none.stdout) == (1, "")
    assert "--since: 'soon' is not a duration" in none.stderr


def test_job_is_visible_to_owner_and_root_only(node, run_dir):
    run_dir.chmod(0o755)
    node.up()
    node.task("a").ask("leave")
    eventually(lambda: node.job("a") is None, "the end of a")
    mine, others, history = ask_as(
        STRANGER,
        node.paths,
        [
            {"op": "why", "job": f"{STRANGER}.a"},
            {"op": "why", "job": f"{os.geteuid()}.a"},
            {"op": "history"},
        ],
    )
    assert mine["notes"] == []
    assert "only its owner and root" in others["error"]
    assert history["records"] == []
    assert [r["name"] for r in request(node.paths, "history")["records"]] == ["a"]
    for name in ("trace.jsonl", "history.jsonl"):
        assert (node.paths.directory / name).stat().st_mode & 0o777 == 0o600


def test_control_invalid_requests_are_refused(node):
    node.up()
    with ControlClient(node.paths) as client:
        for operation in ("why", "history"):
            for since in ("yesterday", None, 1.5):
                client._socket.sendall(
                    json.dumps({"op": operation, "since_wall_ns": since}).encode() + b"\n"
                )
                assert "since_wall_ns" in json.loads(client._reader.readline())["error"]
        assert client.request("status")["node"] == "node1"


def test_history_ended_job_is_recorded(node, run_dir):
    node.up(slice="60s", gmet="1ms")
    first, second = node.task("a", rank=0), node.task("a", rank=1)
    third = node.task("b")
    third.ask("arrive 1")
    eventually(lambda: third.scheduled, "the switch")
    first.ask("spin 0.2")
    first.ask("leave")
    second.kill()
    eventually(lambda: node.job("a") is None, "the end of a")
    (job,) = answers(run_dir, "history", "--job", "a")["jobs"]
    assert job["tasks"] == 2
    assert job["unfinished"] == 1  # the other one left as MPI_Finalize does
    assert not job["partial"]
    assert job["switches"] == 1
    assert 0 < job["scheduled_s"] < job["response_s"]
    assert job["response_s"] == pytest.approx(
        job["scheduled_s"] + job["unscheduled_s"], abs=1e-6
    )
    assert job["unscheduled_s"] >= 0.2
    assert job["cpu_s"] is None or job["cpu_s"] >= 0.001
    log = node.paths.log.read_text()
    assert f"job {job['job']} ended: response" in log
    # The other job outlives the daemon: seen in part, and so it says.
    node.down()
    jobs = {job["name"]: job for job in answers(run_dir, "history")["jobs"]}
    assert jobs["b"]["partial"]
    assert jobs["b"]["granted"] == 1
    node.up()
    assert len(request(node.paths, "history")["records"]) == 2


def test_history_of_the_unit_outlives_a_boot(node, tmp_path, monkeypatch):
    """systemd passes StateDirectory= in this variable; a boot empties /run."""
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    node.up()
    assert node.task("a").ask("leave") == "bye"
    eventually(lambda: node.job("a") is None, "the end of a")
    node.down()
    shutil.rmtree(node.paths.directory)
    node.up()
    assert [r["name"] for r in request(node.paths, "history")["records"]] == ["a"]
    assert stat.S_IMODE((tmp_path / "node1/history.jsonl").stat().st_mode) == 0o600
    assert not (node.paths.directory / "history.jsonl").exists()


def test_trace_of_killed_daemon_replays(node, run_dir):
    node.up(slice="20ms")
    tasks = [node.task(name) for name in "ab"]
    for task in [*tasks, *tasks]:
        eventually(lambda t=task: t.scheduled, "its turn")
    size = (node.paths.directory / "trace.jsonl").stat().st_size
    eventually(
        lambda: (node.paths.directory / "trace.jsonl").stat().st_size > size, "a write"
    )
    os.kill(node.scheduler_pid, 9)
    eventually(lambda: node.scheduler_pid is None, "its end")
    node.up(slice="20ms")  # takes the jobs over, in a segment of its own
    for task in tasks:
        eventually(lambda t=task: t.scheduled, "its turn")
    node.down()
    trace = read_trace([node.paths.directory])
    assert len(trace.segments) == 2
    assert replay(trace).difference is None
    assert cosched_replay(node.paths.directory).returncode == 0


def cosched_replay(directory):
    return subprocess.run([COSCHED, "replay", directory], timeout=240, check=False)


def test_trace_switched_off_is_not_written(run_dir):
    live = LiveNode(run_dir)
    try:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "cosched_daemons.scheduler"),
                *("--run-dir", run_dir, "--node", "node1", "--trace", "off"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout.readline().startswith("READY")
        live.task("a")
        assert answers(run_dir, "why", "a")["nodes"]  # from the daemon's memory
        live.down()
        process.wait(30)
        process.stdout.close()
    finally:
        live.close()
    assert not list(live.paths.directory.glob("trace*"))
