"""Pairs from logs, runs of coupled logs, and the command."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from cosched.core.cluster.coupling.settings import CouplingSettings, Scheme
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.sim.coupling.coupled_runs import Coupling, simulate
from cosched.sim.coupling.logs import aligned
from cosched.sim.coupling.pairs import by_share, by_vicinity
from cosched.sim.logs.swf import Log
from tests.tools.commands import run_command as cosched
from tests.unit.cluster.queue.queue_workloads import workload_of


def log(*submits):
    return workload_of([(submit, 1, 1, 1) for submit in submits], 4)


def seconds(jobs):
    """Times of jobs in seconds: submission, run, and the limit after the nodes."""
    rows = [
        (at * NS_PER_S, run * NS_PER_S, size, limit * NS_PER_S)
        for at, run, size, limit in jobs
    ]
    return workload_of(rows, 4)


def test_vicinity():
    # The last job of the first log before it; of two that claim one, the last.
    logs = [log(0, 10, 12, 50), log(9, 13, 14, 40, 55)]
    assert by_vicinity(logs, 10) == [{0: 0, 1: 0}, {0: 2, 1: 2}, {0: 3, 1: 4}]
    assert by_vicinity([*logs, log(15)], 4) == [{0: 2, 1: 2, 2: 0}]


def test_share():
    logs = [log(*range(10)), log(*range(7))]
    assert by_share(logs, 0.33) == [{0: 0, 1: 0}, {0: 3, 1: 3}, {0: 6, 1: 6}]
    logs = [log(*range(1000)), log(*range(1000))]
    for share in (0.025, 0.1, 0.33, 0.4, 0.5, 0.7, 0.99, 1.0):
        places = [mates[0] for mates in by_share(logs, share)]
        assert len(places) == pytest.approx(1000 * share, abs=1)
        steps = {later - earlier for earlier, later in pairwise(places)}
        assert max(steps) - min(steps) <= 1
        assert min(steps) >= 1
    for share in (0.0, 1.5):
        with pytest.raises(CoschedError, match="a share of"):
            by_share(logs, share)


def test_logs_are_aligned():
    second = 10**9
    logs = [
        Log(log(0, 5 * second, 9 * second), start_s=100),
        Log(log(0, 3 * second, 20 * second), start_s=103),
    ]
    first, other = aligned(logs)
    assert list(first.submit_ns) == [2 * second, 6 * second]
    assert list(other.submit_ns) == [0, 3 * second]
    logs[0].start_s = None
    assert list(aligned(logs)[1].submit_ns) == [0, 3 * second]


@pytest.mark.parametrize("search_s", [0, 5])
def test_mate_keeps_its_nodes_while_the_other_domain_looks_for_free_ones(search_s):
    # b's only free node is kept: a job of four nodes comes first, and its mate's is longer.
    jobs = [(0, 100, 3, 100), (1, 10, 4, 100), (2, 50, 1, 1000)]
    logs = [seconds([(3, 50, 2, 50)]), seconds(jobs)]
    settings = [CouplingSettings(scheme=Scheme.YIELD, rest_ns=40 * NS_PER_S)] * 2
    how = Coupling(policy="easy", search_ns={"b": search_s * NS_PER_S})
    result = simulate(logs, "ab", [{0: 0, 1: 2}], settings, how)
    counts = result.counts["a"]
    assert (result.together, result.stuck) == (1, 0)
    assert counts["yields"] > 0
    assert counts["held_node_ns"] == 2 * counts["yields"] * search_s * NS_PER_S


@pytest.mark.parametrize(("unit", "held"), [(None, 1), (2, 2), (4, 4)])
def test_held_blocks_count_with_all_their_nodes(unit, held):
    # a's job of one node holds a block of the machine until its mate has nodes.
    logs = [seconds([(0, 10, 1, 10)]), seconds([(0, 100, 4, 100), (0, 10, 1, 10)])]
    settings = [CouplingSettings(scheme=Scheme.HOLD)] * 2
    how = Coupling(policy="fcfs", units={} if unit is None else {"a": unit})
    result = simulate(logs, "ab", [{0: 0, 1: 1}], settings, how)
    assert result.together == 1
    assert result.domains["a"]["lost_node_h"] == pytest.approx(held * 100 / 3600)


def couple(*words, cwd):
    """Runs the command in one process: those of a pool take longer than such short logs."""
    return cosched("sim", "couple", *words, "--parallel", "1", cwd=cwd)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("couple")
    for name, machine, seed in (("a", 64, 1), ("b", 16, 2), ("c", 8, 3)):
        words = [f"{name}.swf", "--jobs", 150, "--machine", machine, "--seed", seed]
        made = cosched("sim", "generate", *words, cwd=path)
        assert made.returncode == 0, made.stderr
    return path


def test_every_combination(folder):
    words = ["sim", "couple", "a.swf", "b.swf", "--pairs", "20%", "--out", "out.json"]
    result = cosched(*words, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    groups = json.loads((folder / "out.json").read_text())["runs"][1]["groups"]
    assert groups > 5
    for schemes in ("hold-hold", "hold-yield", "yield-hold", "yield-yield"):
        assert f"{schemes}: {groups} of {groups} groups together\n" in result.stdout
    document = json.loads((folder / "out.json").read_text())
    assert document["command"] == " ".join(["cosched", *words])
    alone, *runs = document["runs"]
    assert alone["groups"] == 0
    for run in runs:
        local = dict(zip("ab", run["schemes"].split("-"), strict=True))
        for machine, scheme in local.items():
            figures = run["domains"][machine]
            assert figures["grouped"] == groups
            assert (figures["lost_node_h"] > 0) == (scheme == "hold")


def test_three_machines(folder):
    words = ["a.swf", "b.swf", "c.swf", "--pairs", "10%"]
    result = couple(*words, "--schemes", "hold-yield-hold", cwd=folder)
    together, groups = re.findall(r"hold-yield-hold: (\d+) of (\d+) groups", result.stdout)[
        0
    ]
    assert together == groups
    assert int(groups) > 3


@pytest.mark.parametrize(
    ("timing", "says"),
    [
        ("within=1min", "within 1min of each other"),
        ("after=10min", "10min after the first, or after its end"),
    ],
)
@pytest.mark.parametrize("logs", [["a.swf", "b.swf"], ["a.swf", "b.swf", "c.swf"]])
def test_constraints_on_two_machines_and_on_three(timing, says, logs, folder):
    words = [*logs, "--pairs", "10%", "--timing", timing]
    # Walltimes that hold, so that promises can be kept.
    words += ["--estimates", "exact", "--schemes", "-".join(["yield"] * len(logs))]
    result = couple(*words, "--out", "out.json", cwd=folder)
    assert result.returncode == 0, result.stderr
    run = json.loads((folder / "out.json").read_text())["runs"][1]
    assert run["kept"] == run["groups"] > 3
    assert run["together"] < run["groups"] or timing.startswith("within")
    assert run["stuck"] == 0
    assert f"{run['kept']} of {run['groups']} groups {says}\n" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines()) <= 80


@pytest.mark.parametrize("choice", ["start", "hold=10min"])
def test_domain_that_is_down(choice, folder):
    words = ["a.swf", "b.swf", "--pairs", "20%"]
    words += ["--schemes", "yield-yield", "--down", "b"]
    words += ["--when-down", choice, "--out", "out.json"]
    result = couple(*words, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "b: down\n" in result.stdout
    alone, run = json.loads((folder / "out.json").read_text())["runs"]
    assert list(run["domains"]) == ["a"]
    assert run["groups"] > 5
    assert f"yield-yield: {run['groups']} groups, without b\n" in result.stdout
    assert run["stuck"] == 0
    figures, usual = run["domains"]["a"], alone["domains"]["a"]
    assert (figures["lost_node_h"] > 0) == choice.startswith("hold")
    if choice == "start":
        assert figures["mean_wait_s"] == usual["mean_wait_s"]
    assert run["counts"]["a"]["resent"] <= 1  # nothing asks again whether it is back


def test_logs_of_other_times_are_named_with_their_dates(folder):
    for name, begin in (("a", 843_000_000), ("b", 954_000_000)):
        text = (folder / f"{name}.swf").read_text()
        (folder / f"{name}-dated.swf").write_text(f"; UnixStartTime: {begin}\n{text}")
    result = couple("a-dated.swf", "b-dated.swf", cwd=folder)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "a-dated.swf: 1996-09-1" in result.stderr
    assert re.search(r"b-dated.swf: 2000-03-2\d to 2000-0\d-\d\d\); take", result.stderr)
    assert "remove UnixStartTime" in result.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--down", "d"], "--down: 'd' is none of the logs a, b."),
        (["--down", "a", "--down", "b"], "--down: no domain is left."),
        (["--when-down", "hold"], "--when-down: 'hold' is neither start nor hold=TIME."),
        (["--when-down", "start=1min"], "--when-down: 'start=1min' is neither"),
        (["--when-down", "yield"], "--when-down: 'yield' is neither"),
        (["--when-down", "hold=soon"], "--when-down"),
        (["--release", "0s"], "--release: '0s' is too short; write 1ms or more"),
    ],
)
def test_wrong_choices_are_one_line(options, says, folder):
    result = couple("a.swf", "b.swf", *options, cwd=folder)
    assert result.returncode != 0
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


def test_blocks_delay_jobs(folder):
    waits = []
    for more in ([], ["--blocks", "a=8"]):
        words = ["a.swf", "b.swf", "--schemes", "hold-hold", *more]
        result = couple(*words, "--out", "out.json", cwd=folder)
        assert result.returncode == 0, result.stderr
        run = json.loads((folder / "out.json").read_text())["runs"][1]
        assert run["together"] == run["groups"]
        waits.append(run["domains"]["a"]["mean_wait_s"])
    assert waits[0] != waits[1]


def test_bad_lines_are_counted(folder):
    lines = (folder / "b.swf").read_text()
    (folder / "bad.swf").write_text(lines + "1 2 3\n")
    words = ["a.swf", "bad.swf", "--schemes", "hold-hold"]
    result = couple(*words, "--strict", cwd=folder)
    assert result.returncode == 1
    assert "bad.swf:" in result.stderr
    result = couple(*words, "--out", "out.json", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("lines left out: 1 too few fields\n") == 1
    run = json.loads((folder / "out.json").read_text())["runs"][1]
    assert run["skipped_lines"] == {"bad": {"too few fields": 1}}


def test_columns_on_disk(folder):
    words = ["sim", "couple", "a.swf", "b.swf", "--pairs", "20%", "--schemes", "hold-yield"]
    words += ["--save", "out", "--out", "out.json", "--parallel", "1"]
    result = cosched(*words, cwd=folder)
    assert result.returncode == 0, result.stderr
    document = json.loads((folder / "out.json").read_text())
    run = document["runs"][1]
    assert len(run["files"]) == 4
    starts = []
    for name in "ab":
        stem = f"{name}.hold-yield"
        columns = np.load(folder / "out" / f"{stem}.npz")
        assert str(columns["command"]) == document["command"]
        figures = run["domains"][name]
        assert len(columns["job"]) == figures["jobs"]
        wait = (columns["start_s"] - columns["submit_s"]).mean()
        assert wait == pytest.approx(figures["mean_wait_s"])
        grouped = columns["group"] != ""
        assert grouped.sum() == figures["grouped"]
        starts.append(dict(zip(columns["group"], columns["start_s"], strict=True)))
        lines = (folder / "out" / f"{stem}.csv").read_text().splitlines()
        assert lines[0] == "# " + document["command"]
        assert lines[1] == "job,user,size,group,submit_s,ready_s,start_s,run_s,walltime_s"
        assert len(lines) == 2 + figures["jobs"]
    for group, start in starts[0].items():
        assert not group or start == starts[1][group]


def test_help_fits(tmp_path):
    result = cosched("sim", "couple", "--help", cwd=tmp_path)
    assert result.returncode == 0
    assert max(len(line) for line in result.stdout.splitlines()) <= 80


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["a.swf"], "Only one log"),
        (["a.swf", "b.swf", "--schemes", "hold"], "'hold' is not hold or yield 2 times"),
        (["a.swf", "b.swf", "--pairs", "x%"], "'x%' is not a share"),
        (["a.swf", "b.swf", "--pairs", "0%"], "'0%' is not more than 0%"),
        (["a.swf", "b.swf", "--pairs", "soon"], "'soon' is not a duration"),
        (["a.swf", "b.swf", "--blocks", "c=4"], "'c=4' is not LOG=NODES with one of"),
        (["a.swf", "b.swf", "--blocks", "a=x"], "'a=x' is not LOG=NODES with one of"),
        (["a.swf", "b.swf", "--blocks", "a=5"], "64 nodes is not made of blocks of 5"),
        (["a.swf", "b.swf", "--timing", "later"], "'later' is none of together"),
        (["a.swf", "b.swf", "--timing", "together=1s"], "is none of together"),
        (["a.swf", "a.swf"], "two logs are called a"),
        (["a.swf", "absent.swf"], "absent.swf: cannot be read"),
        (["a.swf", "b.swf", "--policy", "conservative"], "conservative"),
    ],
)
def test_bad_input_gets_one_line_and_a_status(words, says, folder):
    result = couple(*words, cwd=folder)
    assert result.returncode != 0
    assert result.stdout == ""
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
