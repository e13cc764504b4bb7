"""cosched bench on a lab: every arm, an override that is put back, nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cosched.lab import life
from cosched.node.sockets.client import request
from cosched.rundir.paths import NodePaths
from tests.places import ROOT

WORKLOADS = Path(__file__).parent
BIN = Path(sys.executable).parent
COSCHED = [sys.executable, "-c", "from cosched.cli.main import main; main()"]

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
private_lab = pytest.mark.own_cpus("the bench measures in a lab that it makes for itself")


@pytest.fixture
def temporary(run_dir):
    """Where the bench puts its temporary files: short, as sockets' paths must be."""
    (run_dir / "tmp").mkdir()
    return run_dir / "tmp"


@pytest.fixture
def start_bench(temporary, run_dir):
    """Starts ``cosched bench`` with a place of its own for temporary files."""

    def start(workload, *arguments):
        return subprocess.Popen(
            [
                *(*COSCHED, "bench", WORKLOADS / workload),
                *("--run-dir", run_dir / "r", *arguments),
            ],
            env={
                **os.environ,
                "TMPDIR": str(temporary),
                "COSCHED_RUNS": str(run_dir / "runs.jsonl"),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.fixture
def one_alone(lab_size, tmp_path):
    """Returns a workload of one pipeline with a rank on each node."""
    path = tmp_path / "one-alone.toml"
    path.write_text(
        f'[[job]]\nname = "wavefront"\nsource = "{ROOT}/benchmarks/programs/wavefront.c"\n'
        f'args = "--preset short -i 15"\nranks = {lab_size.nodes}\n'
    )
    return path


def processes_of(folder):
    """Command lines in which ``folder`` appears."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if os.fsencode(folder) in words:
            found.append(words)
    return found


@private_lab
@pytest.mark.parametrize(
    "workload",
    # The next test runs the second one in seven more arms.
    ["mix", pytest.param("four", marks=pytest.mark.long)],
)
def test_bench_private_lab_runs_every_usual_arm(start_bench, temporary, tmp_path, workload):
    result = tmp_path / "result.json"
    bench = start_bench(f"{workload}.toml", "--repeat", "1", "--out", result)
    text, progress = bench.communicate(timeout=900)
    assert bench.returncode == 0, text + progress
    found = json.loads(result.read_text())
    assert list(found["arms"]) == ["batch", "kernel", "cosched"]
    for arm in found["arms"].values():
        assert len(arm["jobs"]) == 4
        assert arm["makespan_s"] >= max(job["response_s"] for job in arm["jobs"]) > 0
        assert min(job["cpu_s"] for job in arm["jobs"]) > 0
        assert arm["repeats"][0]["outside_load"]["jobs_s"] > 0
    assert set(found["ratios"]) == {"cosched/kernel", "cosched/batch", "kernel/batch"}
    assert found["lab"] is True
    assert [node["name"] for node in found["nodes"]] == ["lab1", "lab2"]
    assert max(map(len, text.splitlines())) <= 80
    assert "\nCoscheduled, a job answered" in text or "\nNo conclusion: " in text
    assert os.listdir(temporary) == []
    assert processes_of(temporary) == []


@private_lab
@pytest.mark.parametrize(
    "arms",
    [
        ["yield", "gang", "paper", "proportional"],
        pytest.param(["block", "messages", "strict"], marks=pytest.mark.long),
    ],
    ids=" ".join,
)
def test_bench_extra_arms_run_when_asked_for(start_bench, temporary, tmp_path, arms):
    result = tmp_path / "result.json"
    bench = start_bench(
        *("four.toml", "--no-warm-up", "--repeat", "1"),
        *("--arms", ",".join(arms), "--slice", "0.2s", "--out", result),
        *("--dom", "4", "--run-limit", "200s", "--resume", tmp_path / "runs.jsonl"),
    )
    text, progress = bench.communicate(timeout=900)
    assert bench.returncode == 0, text + progress
    found = json.loads(result.read_text())
    assert list(found["arms"]) == arms
    did = {name: arm["repeats"][0]["activity"] for name, arm in found["arms"].items()}
    for name in {"yield", "block"} & set(arms):
        assert set(did[name].values()) == {0}, did
    # The driver alone gives turns there. Elsewhere the daemons switch; on a busy machine
    # the first to do so may be a message as well as a timer.
    if "gang" in arms:
        assert did["gang"]["timer_switches"] == did["gang"]["message_switches"] == 0, did
    for name in {"messages", "paper", "strict", "proportional"} & set(arms):
        assert did[name]["timer_switches"] + did[name]["message_switches"] > 0, did
    assert os.listdir(temporary) == []


def test_bench_existing_lab_keeps_its_daemons(start_bench, one_alone, lab_size, run_dir):
    lab_size.up(run_dir / "r")
    try:
        words = (*lab_size.bench_words, "--arms", "strict", "--no-warm-up")
        bench = start_bench(one_alone, *words)
        assert bench.communicate(timeout=300)[1].splitlines()[-1] == (
            "cosched: arm strict: the nodes' daemons are not in that mode: restart them "
            "with 'cosched up --mode strict', or let the bench make a private lab"
        )
        assert bench.returncode == 1
    finally:
        life.down(run_dir / "r")


@pytest.mark.parametrize("seen", [0, 1])
def test_bench_runs_know_the_seen_lengths_and_no_others(
    start_bench, one_alone, lab_size, tmp_path, run_dir, seen
):
    result = tmp_path / "result.json"
    lab_size.up(run_dir / "r")
    try:
        bench = start_bench(
            *(one_alone, *lab_size.bench_words, "--no-warm-up"),
            *("--seen", str(seen), "--repeat", "2"),
            *("--arms", "cosched,batch,srpt", "--out", result),
        )
        text, progress = bench.communicate(timeout=300)
        assert bench.returncode == 0, text + progress
        answer = request(NodePaths(run_dir / "r", "lab1"), "history", since_wall_ns=0)
    finally:
        life.down(run_dir / "r")
    records = answer["records"]
    assert len(records) == seen + 2
    assert [record["expected_s"] for record in records[:seen]] == [0.0] * seen
    known_s = {record["expected_s"] for record in records[seen:]}
    assert len(known_s) == 1
    assert (known_s == {0.0}) is (seen == 0)
    found = json.loads(result.read_text())
    assert (found["seen"], found["remembering"]) == (seen, [])
    assert found["arms"]["srpt"]["calculated"] is True
    assert len(found["arms"]["srpt"]["repeats"]) == 2
    assert found["arms"]["batch"]["worst_slowdown"] >= 1.0
    assert not (run_dir / "runs.jsonl").exists()


def test_bench_bounds_a_job_by_its_cpu_time_on_each_node(
    start_bench, one_alone, lab_size, tmp_path, run_dir
):
    result = tmp_path / "result.json"
    lab_size.up(run_dir / "r")
    try:
        bench = start_bench(
            *(one_alone, *lab_size.bench_words, "--no-warm-up"),
            *("--arms", "batch,bound", "--repeat", "1", "--out", result),
        )
        text, progress = bench.communicate(timeout=300)
        assert bench.returncode == 0, text + progress
    finally:
        life.down(run_dir / "r")
    found = json.loads(result.read_text())
    (run,) = found["arms"]["bound"]["repeats"]
    (job,) = run["jobs"]
    assert set(job["node_s"]) == set(lab_size.names)
    assert all(0 < node_s <= job["response_s"] for node_s in job["node_s"].values())
    assert run["makespan_s"] == run["mean_response_s"] == job["response_s"]
    assert "bound/batch" in found["ratios"]


@private_lab
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_bench_interrupted_leaves_nothing_behind(start_bench, temporary, number):
    bench = start_bench("four.toml", "--no-warm-up", "--repeat", "9")
    first_run = bench.stderr.readline()
    assert first_run.startswith("run 1/27  batch, repeat 1  ")
    bench.send_signal(number)
    text, progress = bench.communicate(timeout=240)
    assert bench.returncode == 128 + number
    assert text == ""
    assert progress.splitlines()[-1] == "cosched: interrupted"
    assert os.listdir(temporary) == []
    assert processes_of(temporary) == []


def test_bench_existing_lab_keeps_its_settings(
    start_bench, one_alone, lab_size, tmp_path, run_dir
):
    lab_size.up(run_dir / "r")
    try:
        before = request(NodePaths(run_dir / "r", "lab1"), "status")["settings"]
        result = tmp_path / "result.json"
        bench = start_bench(
            *(one_alone, *lab_size.bench_words),
            *("--arms", "kernel,cosched", "--repeat", "1", "--out", result),
            *("--slice", "250ms", "--gmet", "40ms", "--align", "off"),
        )
        text, progress = bench.communicate(timeout=300)
        assert bench.returncode == 0, text + progress
        during = json.loads(result.read_text())["nodes"]
        wanted = {"slice": "250ms", "gmet": "40ms", "align": False}
        assert [node["name"] for node in during] == list(lab_size.names)
        for node in during:
            assert node["settings"].items() >= wanted.items()
        for node in lab_size.names:
            status = request(NodePaths(run_dir / "r", node), "status")
            assert status["settings"] == before
            assert status["jobs"] == []
    finally:
        life.down(run_dir / "r")
