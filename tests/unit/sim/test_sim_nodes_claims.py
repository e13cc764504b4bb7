"""Checks the claims of docs/results/nodes.md on fewer nodes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.experiments.nodes import __main__ as experiment
from benchmarks.experiments.nodes import nodes_lab
from benchmarks.experiments.section import marks
from cosched.bench.run.bench import Outcome
from cosched.bench.simulate.models import Calibration, Model
from cosched.core.node.settings import Settings
from cosched.core.units import NS_PER_MS, NS_PER_S
from cosched.sim.nodes.model import Cluster, Pattern, Program
from cosched.sim.nodes.node_runs import NodesRun, carry_out


def efficiency(arm, nodes, pattern=Pattern.BULK, dom=4, work_s=3.0, clock_ns=None, **more):
    programs = tuple(
        Program(f"job{number}", pattern, NS_PER_MS, round(work_s * NS_PER_S))
        for number in range(dom)
    )
    cluster = Cluster(nodes, clock_ns=100_000 if clock_ns is None else clock_ns)
    return carry_out(NodesRun(arm, programs, cluster, Settings(**more), 1)).efficiency


@pytest.mark.parametrize("pattern", [Pattern.BULK, Pattern.WAVEFRONT, Pattern.ALLTOALL])
def test_aligned_nodes_are_nearly_as_good_as_one_driver(pattern):
    assert efficiency("cosched", 64, pattern) > 0.95 * efficiency("gang", 64, pattern)


def test_kernel_alone_is_worse_with_more_nodes():
    few, many = (efficiency("spin", nodes, work_s=0.2) for nodes in (2, 16))
    assert many < few < 0.8


def test_without_alignment_messages_bring_many_nodes_together():
    assert efficiency("cosched", 4, align=False) > 0.95
    assert efficiency("cosched", 64, work_s=2.0, align=False) > 0.95


@pytest.mark.parametrize("align", [True, False])
def test_two_jobs_do_not_pull_each_other_in_for_ever(align):
    """Half the nodes begin with one job, half with the other."""
    assert efficiency("cosched", 16, Pattern.ALLTOALL, dom=2, align=align) > 0.8


def test_clocks_may_differ():
    """Messages correct what aligned slices are apart."""
    assert efficiency("cosched", 16, clock_ns=500 * NS_PER_MS) > 0.95


def test_experiment_writes_its_results(tmp_path, capsys):
    words = "--sweeps nodes clock --patterns bulk --most-nodes 4 --nodes 2 --work 0.2"
    experiment.main([*words.split(), "--repeat", "1", "--out", str(tmp_path)])
    text = (tmp_path / "nodes.txt").read_text()
    assert text == capsys.readouterr().out
    assert text.splitlines()[0].split() == ["nodes", "bulk", *experiment.COLOURS]
    document = json.loads((tmp_path / "nodes.json").read_text())
    ways = {(row["sweep"], row["x"], row["way"]) for row in document["means"]}
    assert ("nodes", "4", "free") in ways
    assert ("clock", "500ms", "aligned") in ways
    assert (tmp_path / "nodes.png").stat().st_size > 10_000


WORKLOAD = """
title = "two"
[[job]]
name = "wave"
command = "true"
ranks = 2
model = { pattern = "wavefront" }
[[job]]
name = "other"
command = "true"
ranks = 2
"""


@pytest.fixture
def made_up_lab(monkeypatch, tmp_path):
    """Replaces calibration and bench by two jobs of 2 s on two nodes."""
    calls = []

    def calibrated(_path, testbed, _repeats, _environ, _log):
        calls.append("calibrate")
        model = Model(Pattern.BULK, alone_s=2.0, messages=1000)
        wave = replace(model, messages=8000, launch_s=0.2)
        programs = {"wave": wave, "other": model}
        return Calibration(programs, mpi=testbed.mpi or "mpich", probe_us=300.0)

    def benched(options, _environ, _log):
        calls.append("bench")
        assert options.resume.name == "two.runs.jsonl"
        seconds = {"batch": 3.0, "kernel": 20.0, "gang": 3.75, "cosched": 3.7}
        arms = {
            # The machine is slower than when it was calibrated.
            arm.value: {
                "repeats": [
                    {
                        "counted": True,
                        "mean_response_s": seconds[arm.value] * 1.5,
                        "makespan_s": 6.0,
                        "probe_us": 450.0,
                    }
                ]
            }
            for arm in options.arms
        }
        document = {
            "workload": {"title": "two"},
            "settings": {"slice": "500ms", "gmet": "100ms", "align": True},
            "hosts": ["lab1", "lab2"],
            "arms": arms,
        }
        return Outcome("", document, failed=False)

    monkeypatch.setattr(nodes_lab, "calibrate", calibrated)
    monkeypatch.setattr(nodes_lab, "run_bench", benched)
    monkeypatch.setattr(nodes_lab, "family", lambda asked: asked or "mpich")
    path = tmp_path / "two.toml"
    path.write_text(WORKLOAD)
    words = ["--out", str(tmp_path / "out"), "--workloads", str(path), "--seeds", "1"]
    return words, calls


def test_a_lab_run_beside_its_simulation(made_up_lab, tmp_path, capsys):
    words, calls = made_up_lab
    page = tmp_path / "results.md"
    begin, end = marks("nodes_lab")
    page.write_text(f"before\n{begin}old\n{end}after\n")
    nodes_lab.main([*words, "--docs", str(page)])
    text = capsys.readouterr().out
    assert "| | | batch | kernel | gang | cosched |" in text
    (row,) = (line for line in text.splitlines() if line.startswith("| two | mpich |"))
    batch, kernel, gang, cosched = (cell.strip() for cell in row.split("|")[3:7])
    assert batch == "3.0, 3.0: +0%"
    assert "**-" in kernel
    assert "**" not in gang + cosched
    assert "3 of 4 are within 15%." in text
    assert page.read_text() == f"before\n{begin}\n{text.strip()}\n\n{end}after\n"
    assert calls == ["calibrate", "bench"]
    nodes_lab.main(words)  # all is there
    assert calls == ["calibrate", "bench"]
    capsys.readouterr()
    nodes_lab.main([*words, "--mpi", "openmpi"])
    both = capsys.readouterr().out
    assert "| two | mpich |" in both
    assert "| two | openmpi |" in both


def test_other_results_are_not_shown(made_up_lab, capsys):
    words, calls = made_up_lab
    nodes_lab.main([*words, "--arms", "kernel"])
    nodes_lab.main([*words, "--arms", "kernel,batch"])
    assert calls == ["calibrate", "bench", "bench"]
    path = Path(words[words.index("--workloads") + 1])
    path.write_text(path.read_text() + "\n# changed\n")
    with pytest.raises(SystemExit, match=r"two\.toml has changed since .* give another"):
        nodes_lab.main(words)


def test_experiment_reports_failures(made_up_lab, monkeypatch):
    words, _ = made_up_lab
    failed = Outcome("job 'wave' failed", {}, failed=True)
    monkeypatch.setattr(nodes_lab, "run_bench", lambda *_: failed)
    with pytest.raises(SystemExit, match=r"two\.toml: a run failed:\njob 'wave' failed"):
        nodes_lab.main(words)
