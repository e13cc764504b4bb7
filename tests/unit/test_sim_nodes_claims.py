"""What docs/results.md says of many nodes, on fewer of them."""

from __future__ import annotations

import json

import pytest

from benchmarks.experiments import nodes as experiment
from benchmarks.experiments import nodes_lab
from cosched.core.settings import Settings
from cosched.core.units import NS_PER_MS, NS_PER_S
from cosched.sim.nodes_model import Cluster, Pattern, Program
from cosched.sim.nodes_runs import NodesRun, carry_out


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


def test_the_kernel_alone_is_far_from_it_the_more_so_the_more_nodes():
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


def test_the_experiment_writes_what_it_found(tmp_path, capsys):
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


def bench_document():
    """Two jobs of 2 s, as a bench on two nodes would tell of them."""

    def jobs(*ends_s):
        return [
            {"name": name, "submitted_s": 0.0, "response_s": end_s}
            for name, end_s in zip(("wavefront.1", "other"), ends_s, strict=True)
        ]

    def arm(*ends_s):
        run = {"counted": True, "jobs": jobs(*ends_s)}
        return {"mean_response_s": sum(ends_s) / 2, "repeats": [run]}

    return {
        "settings": {"slice_s": 0.5, "gmet_s": 0.1, "align": True},
        "nodes": [{}, {}],
        "arms": {"batch": arm(2.0, 4.0), "kernel": arm(5.0, 5.0), "cosched": arm(3.5, 4.0)},
    }


def test_a_lab_run_beside_its_simulation(tmp_path, capsys):
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(bench_document()))
    nodes_lab.main([str(path), "--program", "other=bulk:1000", "--repeat", "1"])
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["mean", "response", "live", "simulated"]
    cells = {row.split()[0]: row.split()[1:] for row in rows}
    assert cells["batch"][0] == "3.00"
    assert float(cells["batch"][2]) == pytest.approx(3.0, rel=0.05)
    assert 3.0 < float(cells["cosched"][2]) < 4.3
    assert float(cells["kernel"][2]) > 4.0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, "job 'other': say how it communicates, such as --program other=bulk:1000"),
        ({"arms": {}}, "has no 'batch'"),
    ],
)
def test_what_the_comparison_lacks_is_said(tmp_path, change, says):
    path = tmp_path / "bench.json"
    path.write_text(json.dumps({**bench_document(), **change}))
    with pytest.raises(SystemExit, match=says):
        nodes_lab.main([str(path)])
