"""Watchers of a live node: the connection of cosched top, and the cost of watching."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from cosched.core.errors import CoschedError
from cosched.node.sockets.client import request
from cosched.observe.top.sampler import Sampler
from tests.live.conftest import eventually
from tests.places import ROOT

pytestmark = pytest.mark.live


def test_status_without_memory_has_all_other_fields(node):
    node.up()
    node.task("a")
    whole = node.status()
    light = request(node.paths, "status", memory=False)
    assert set(whole) - set(light) == {"memory"}
    assert set(whole["jobs"][0]) - set(light["jobs"][0]) == {"memory"}
    assert whole["jobs"][0]["memory"]["measured_bytes"] > 0


def test_watcher_continues_with_the_next_daemon(node, run_dir):
    node.up()
    with Sampler(run_dir) as sampler:
        (first,) = sampler.look().statuses
        (again,) = sampler.look().statuses
        assert first["pid"] == again["pid"] == node.scheduler_pid
        assert "scheduled" in again
        node.down()
        with pytest.raises(CoschedError, match="no daemons are up"):
            sampler.look()
        node.up()
        (other,) = sampler.look().statuses
        assert other["pid"] == node.scheduler_pid != first["pid"]
    eventually(lambda: node.job("a") is None, "the daemon still serves others")


def test_bench_of_watchers_names_each_process(tmp_path):
    file = tmp_path / "shares.json"
    run = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.micro.watchers", "--jobs", "2"),
            *("--seconds", "2.5", "--settle", "0.5", "--json", file),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    rows = json.loads(file.read_text())
    assert [row["process"] for row in rows] == [
        "daemon",
        "daemon",
        "top",
        "daemon",
        "metrics",
    ]
    assert all(0 <= row["share"] < 1 for row in rows)
    assert rows[2]["share"] > 0
    assert max(map(len, run.stdout.splitlines())) <= 80
