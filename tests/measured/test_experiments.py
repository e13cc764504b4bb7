"""The experiments of Yoo and Jette and cosched tune on a lab, in their shortest forms."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.experiments.startup.live_comparison import read_live
from cosched.lab import life, slurm, slurm_conf
from tests.places import ROOT

BIN = Path(sys.executable).parent
YOO = "benchmarks.experiments.yoo"
WORKLOAD = Path(__file__).with_name("four.toml")

pytestmark = [
    pytest.mark.live,
    pytest.mark.mpi_job,
    pytest.mark.skipif(
        len(os.sched_getaffinity(0)) < 2, reason="two nodes need two CPUs of this machine"
    ),
    pytest.mark.skipif(not shutil.which("nsenter"), reason="a lab needs util-linux"),
    pytest.mark.skipif(
        not (BIN / "mpicc").exists(), reason=f"no mpicc: {BIN / 'mpicc'} is missing"
    ),
]


measures = pytest.mark.own_cpus("the test measures times")


@pytest.fixture
def start(run_dir):
    """Starts a module of ours with short places for its temporary files and sockets."""
    (run_dir / "tmp").mkdir()

    def start(module, *words):
        return subprocess.Popen(
            [sys.executable, "-m", module, *words, "--run-dir", run_dir / "r"],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(run_dir / "tmp")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def finish(process, status=0):
    text, progress = process.communicate(timeout=900)
    assert process.returncode == status, text + progress
    return text, progress


@measures
def test_yoo_interrupted_figure_resumes(start, tmp_path):
    words = [YOO, "fig4", "--quick", "--out", tmp_path]
    first = start(*words)
    while not (line := first.stderr.readline()).startswith("run 1/2"):
        assert line, first.communicate()
    first.send_signal(signal.SIGINT)
    assert "yoo: interrupted; the same command goes on" in finish(first, 130)[1]
    text, progress = finish(start(*words))
    assert "runs done already: 1\n" in progress
    assert "run 2/2  cosched (auto, 4)" in progress
    assert "run 1/2" not in progress
    assert text == (tmp_path / "fig4-quick.txt").read_text()
    found = json.loads((tmp_path / "fig4-quick.json").read_text())
    assert [point["arm"] for point in found["points"]] == ["batch", "cosched"]
    assert found["points"][0]["mean_wait_s"]["median"] > 0
    assert (tmp_path / "fig4-quick.png").exists()


@measures
def test_yoo_auto_runs_each_program_alone_before(start, tmp_path):
    text, progress = finish(start(*f"{YOO} auto --quick --out {tmp_path}".split()))
    assert progress.index("program 1/2 alone") < progress.index("run 1/4")
    assert "lengths were known from 2 runs of each program alone" in text
    head = json.loads((tmp_path / "auto-quick.runs.jsonl").read_text().splitlines()[0])
    assert head["made_with"]["seen"] == 2


@measures
@pytest.mark.long
@pytest.mark.parametrize("figure", ["fig2", "fig3", "fig5", "fig6", "fleet"])
def test_yoo_figure_is_measured(start, tmp_path, figure):
    words = ["benchmarks.experiments.yoo", figure, "--quick", "--out", tmp_path]
    finish(start(*words))
    found = json.loads((tmp_path / f"{figure}-quick.json").read_text())
    assert all(point["counted"] == 1 for point in found["points"])
    coscheduled = [
        p for p in found["points"] if p["arm"] in ("cosched", "messages", "paper")
    ]
    assert all(point["runs"][0]["activity"]["tasks"] > 0 for point in coscheduled)
    assert (tmp_path / f"{figure}-quick.svg").exists()


@measures
def test_tune_on_lab_recommends_settings(start, tmp_path):
    text, progress = finish(
        start(
            *("cosched.cli.main", "tune", WORKLOAD, "--slices", "0.2s", "--gmets", "20ms"),
            *("--repeat", "1", "--run-limit", "60s", "--out", tmp_path / "found.json"),
        )
    )
    assert max(map(len, text.splitlines())) <= 80
    assert "run 3 of at most 3  slice 200ms, gmet 20ms, repeat 1  response " in progress
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["verdict"] in ("setting", "default", "kernel")
    assert [point["name"] for point in found["points"]] == [
        *("kernel", "slice auto, gmet auto", "slice 200ms, gmet 20ms"),
    ]
    assert all(point["mean_response_s"][0] > 0 for point in found["points"])


@measures
@pytest.mark.long
@pytest.mark.skipif(
    not all(map(shutil.which, slurm.DAEMONS)), reason="scripts/slurm-lab installs Slurm"
)
def test_bench_slurm_gang_arm_runs_jobs(start, run_dir, tmp_path):
    """Two jobs of more than a slice, so that Slurm really takes turns."""
    workload = tmp_path / "two.toml"
    workload.write_text(
        '[[job]]\nname = "lu"\nmodule = "benchmarks.npb"\nargs = "lu --class A"\n'
        f'cwd = "{ROOT}"\nranks = 2\ncount = 2\n'
    )
    life.up(run_dir / "r", 2, 1)
    try:
        conf = slurm.up(run_dir / "r", os.environ)
        words = ["cosched.cli.main", "bench", workload, "--arms", "kernel,slurm-gang"]
        words += ["--repeat", "1", "--no-warm-up", "--out", tmp_path / "found.json"]
        finish(start(*words))
        found = json.loads((tmp_path / "found.json").read_text())["arms"]
        assert found["slurm-gang"]["repeats"][0]["failure"] is None
        assert found["slurm-gang"]["makespan_s"] > 2 * slurm_conf.SLICE_S
        assert found["slurm-gang"]["repeats"][0]["outside_load"] is None
        assert slurm.down(run_dir / "r", os.environ) is True
        assert not conf.parent.exists()
    finally:
        life.down(run_dir / "r")


@pytest.mark.skipif(
    not all(map(shutil.which, slurm.DAEMONS)), reason="scripts/slurm-lab installs Slurm"
)
def test_bench_by_slurm_starts_jobs_of_both_arms(start, lab_size, run_dir, tmp_path):
    """Four jobs at once, each started by sbatch and srun, with and without cosched."""
    source = ROOT / "benchmarks/programs/wavefront.c"
    workload = tmp_path / "four.toml"
    workload.write_text(
        f'[[job]]\nname = "w"\nsource = "{source}"\nargs = "--preset short -i 15"\n'
        f"ranks = {lab_size.nodes}\ncount = 4\n"
    )
    words = ["cosched.cli.main", "bench", workload, "--by-slurm", "--repeat", "1"]
    words += ["--arms", "kernel,cosched", "--no-warm-up", *lab_size.bench_words]
    words += ["--out", tmp_path / "found.json"]
    lab_size.up(run_dir / "r")
    try:
        refused = start(*words)
        _, complaint = refused.communicate(timeout=60)
        assert refused.returncode == 1
        assert complaint.startswith("cosched: --by-slurm: no Slurm lets jobs of the lab")
        slurm.up(run_dir / "r", os.environ, replace(slurm_conf.SHARED, jobs=4))
        text, _ = finish(start(*words))
        assert "started by Slurm" in text
        found = json.loads((tmp_path / "found.json").read_text())
        for arm in ("kernel", "cosched"):
            (run,) = found["arms"][arm]["repeats"]
            assert run["failure"] is None
            assert run["outside_load"] is None
            assert len(run["jobs"]) == 4
        assert (
            found["arms"]["cosched"]["repeats"][0]["activity"]["tasks"]
            == 4 * lab_size.nodes
        )
    finally:
        life.down(run_dir / "r")


@measures
def test_starts_over_slow_links_stand_beside_the_emulator(tmp_path):
    words = ["--nodes", "2", "--repeat", "1", "--rate", "2000000", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.experiments.startup.startup_live", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 8  # its head, and the points
    assert len(read_live(tmp_path)) == 3


@measures
def test_workload_runs_through_the_queue_of_a_domain(tmp_path):
    words = ["--workload", WORKLOAD, "--repeats", "1", "--json", tmp_path / "runs.json"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.micro.together", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    runs = json.loads((tmp_path / "runs.json").read_text())["runs"]
    assert [run["way"] for run in runs] == ["queue", "kernel", "cosched"]
    assert all(len(run["responses_s"]) == 4 for run in runs)
