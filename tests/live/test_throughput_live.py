"""The benchmark of a domain's throughput runs each job of a busy domain once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.places import ROOT

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="a lab needs root"),
    pytest.mark.skipif(not shutil.which("nsenter"), reason="a lab needs util-linux"),
]


def test_each_job_of_a_busy_domain_runs_once(tmp_path, crowded_lab_size):
    words = ["--jobs", "60", "--seconds", "0.1", "--per-node", "4"]
    words += ["--nodes", str(crowded_lab_size.nodes), "--json", tmp_path / "found.json"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.micro.throughput", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["jobs"] == 60
    assert 0 < found["jobs_per_s"] <= found["submissions_per_s"]
    assert found["controller_cpu_s"] > 0
    assert found["agent_mib"] > 1
    assert len(done.stdout.splitlines()) == len(found)
