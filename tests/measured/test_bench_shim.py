"""The micro-benchmark of the shim prints the table that the README quotes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT

pytestmark = [
    pytest.mark.live,
    pytest.mark.own_cpus("the test measures times"),
    pytest.mark.mpi_job,
    pytest.mark.skipif(
        not (Path(sys.executable).parent / "mpicc").exists(), reason="no mpicc at hand"
    ),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two ranks need two CPUs"),
]


def test_bench_shim_prints_a_row_per_carrier_and_size(tmp_path):
    rows = tmp_path / "rows.json"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.micro.shim", "--place", "shm"),
            *("--transport", "ucx", "--rounds", "1", "--batches", "3", "--json", rows),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(rows.read_text())
    assert [(row["carrier"], row["bytes"]) for row in found] == [
        (carrier, size)
        for carrier in ("none", "shadow", "prefix")
        for size in (8, 1024, 65536, 1048576)
    ]
    assert all(row["half_rtt_us"] > 0 and row["ratio"] > 0 for row in found)
    assert all(row["transport"] == "ucx shm" for row in found)
    assert len(done.stdout.splitlines()) == 9  # its head, and the carriers' rows
    assert max(map(len, done.stdout.splitlines())) <= 80
