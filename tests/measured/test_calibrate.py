"""cosched sim calibrate on a lab, and what simulations make of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cosched.bench.simulate.models import load_calibration
from cosched.sim.nodes.model import Pattern

WORKLOAD = Path(__file__).with_name("mix.toml")
BIN = Path(sys.executable).parent
COSCHED = [sys.executable, "-c", "from cosched.cli.main import main; main()"]

pytestmark = [
    pytest.mark.live,
    pytest.mark.own_cpus("the test measures times"),
    pytest.mark.mpi_job,
    pytest.mark.skipif(
        len(os.sched_getaffinity(0)) < 2, reason="two nodes need two CPUs of this machine"
    ),
    pytest.mark.skipif(not shutil.which("nsenter"), reason="a lab needs util-linux"),
    pytest.mark.skipif(
        not (BIN / "mpicc").exists(), reason=f"no mpicc: {BIN / 'mpicc'} is missing"
    ),
]


def test_calibration_from_lab_can_be_simulated(run_dir, tmp_path):
    (run_dir / "tmp").mkdir()
    known, workload = tmp_path / "known.toml", WORKLOAD

    def cosched(*words):
        done = subprocess.run(
            [*COSCHED, *map(str, words)],
            env={**os.environ, "TMPDIR": str(run_dir / "tmp")},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    cosched("sim", "calibrate", workload, "--out", known, "--run-dir", run_dir / "r")
    found = load_calibration(known)
    assert (found.nodes, found.lab) == (2, True)
    wave, compute = found.programs["wavefront"], found.programs["compute"]
    assert (wave.pattern, compute.pattern) == (Pattern.WAVEFRONT, Pattern.NONE)
    assert wave.messages > 15 * 64  # in each iteration one a row of the grid
    assert wave.bytes > 100
    for model in (wave, compute):
        assert 0.0 < model.launch_s < model.alone_s
    text = cosched("sim", "nodes", workload, "--calibration", known)
    arms = [line.split()[0] for line in text.splitlines()[1:]]
    alone = "yield" if found.yields else "kernel"
    assert arms == ["batch", alone, "gang", "cosched", "messages"]
    text = cosched(
        *("tune", workload, "--simulate", "--calibration", known),
        *("--slices", "0.5s,2s", "--gmets", "100ms", "--repeat", "1"),
    )
    assert "2 simulated nodes" in text
