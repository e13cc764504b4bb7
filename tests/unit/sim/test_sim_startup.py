"""Starts of jobs in virtual time, and the command."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.cli.sim.startup import render
from cosched.core.cluster.startup.two_phase import Stage as GateStage
from cosched.core.errors import CoschedError
from cosched.sim.startup.costs import Costs, read_costs
from cosched.sim.startup.counted import Counted, Tables, tables_for
from cosched.sim.startup.driver import Start
from cosched.sim.startup.model import DESIGNS, LIVE_ORDER, Stage, StartupRun
from cosched.sim.startup.startup_runs import carry_out
from tests.tools.commands import run_command

#: Messages and bytes of the link alone: nothing takes CPU time.
LINK_ALONE = Costs(
    link_mb_s=100,  # 10 ns a byte: no time is rounded
    message_us=0,
    overhead_bytes=0,
    codec_ns=0,
    assign_us=0,
    assign_task_us=0,
    start_us=0,
)
#: All small trees, and larger ones that are complete, one node more, and in between.
SIZES = [*range(1, 14), 15, 16, 31, 32, 40]
RUNS = st.builds(
    StartupRun,
    design=st.sampled_from(sorted(DESIGNS)),
    nodes=st.integers(1, 24),
    tasks=st.integers(1, 8),
    arity=st.integers(1, 5),
    chunk_bytes=st.sampled_from([1, 100, 1000, 1 << 16]),
    object_bytes=st.sampled_from([0, 1, 300]),
    node_bytes=st.sampled_from([0, 50]),
    order=st.sampled_from(["paper", "live"]),
    costs=st.sampled_from([Costs(), replace(Costs(), window_bytes=500)]),
)


class Seen(Tables):
    """Remembers the machines of a run."""

    def __init__(self):
        self.machines = []

    def machine(self, kind, tree, place):
        self.machines.append(super().machine(kind, tree, place))
        return self.machines[-1]


# -- what each node gets ----------------------------------------------------------------


@given(RUNS)
@settings(deadline=None)
def test_each_node_gets_the_object_and_all_tables(run):
    seen = Seen()
    start = Start(run, seen)
    times = start.carry_out(lambda _share: None)
    for node in times:
        assert list(node.done_ns) == list(run.stages)
        assert list(node.done_ns.values()) == sorted(node.done_ns.values())
        assert 0 < node.arrived_ns <= node.done_ns[Stage.OBJECT]
        if Stage.TABLES in node.done_ns:
            assert node.partial_ns <= node.complete_ns <= node.done_ns[Stage.TABLES]
    everything = set(range(run.nodes))
    assert [machine._here for machine in seen.machines] in ([], [everything] * run.nodes)
    assert {node.gate.stage for node in start._nodes} == {GateStage.GONE}
    went = min(node.done_ns[Stage.GO] for node in times)
    assert max(node.done_ns[Stage.START] for node in times) <= went


@given(RUNS)
@settings(deadline=None)
def test_parts_add_up(run):
    outcome = carry_out(run)
    parts = outcome.parts_s()
    assert sum(parts.values()) == pytest.approx(outcome.total_s)
    assert min(parts.values()) >= 0
    assert set(parts) - set(run.stages) == {
        stage for stage, part in parts.items() if stage not in run.stages and part == 0
    }
    assert len(outcome.arrivals_s()) == len(run.tree.levels(0))


def test_live_order_exchanges_tables_after_the_start():
    run = StartupRun("pipelined", 15, 4, order="live")
    assert run.stages == LIVE_ORDER
    live, papers = carry_out(run), carry_out(replace(run, order="paper"))
    assert live.last_s(Stage.GO) < live.last_s(Stage.TABLES) == live.total_s
    assert papers.last_s(Stage.TABLES) < papers.last_s(Stage.START)


# -- times ------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [1, 2, 31, 100])
@pytest.mark.parametrize("design", sorted(DESIGNS))
def test_counted_tables_take_the_time_of_kept_ones(design, nodes):
    run = StartupRun(design, nodes, 32, chunk_bytes=4 << 10)
    kept, counted = carry_out(run, how=Tables()), carry_out(run, how=Counted())
    assert counted.times == kept.times
    assert (counted.messages, counted.bytes) == (kept.messages, kept.bytes)


def test_tables_of_few_nodes_are_kept():
    assert type(tables_for(496)) is Tables
    assert isinstance(tables_for(497), Counted)


@given(RUNS)
@settings(deadline=None)
def test_any_run_takes_the_same_time_counted(run):
    assert carry_out(run, how=Counted()).times == carry_out(run, how=Tables()).times


@pytest.mark.parametrize("arity", [1, 2, 3, 8])
@pytest.mark.parametrize("chunk", [100, 1000, 1 << 20])
def test_pipelined_is_never_slower_than_store_and_forward(arity, chunk):
    """Without costs a message; otherwise small chunks cost more than they gain."""
    for nodes in SIZES:
        run = StartupRun("new", nodes, 8, arity, chunk, object_bytes=5000, costs=LINK_ALONE)
        waits, flows = carry_out(run), carry_out(replace(run, design="pipelined"))
        for stage in (Stage.OBJECT, Stage.TABLES):
            assert flows.last_s(stage) <= waits.last_s(stage), nodes


@pytest.mark.parametrize("design", sorted(DESIGNS))
@pytest.mark.parametrize("arity", [2, 5])
def test_more_nodes_take_no_less_time(design, arity):
    before = 0.0
    for nodes in range(1, 32):
        total_s = carry_out(StartupRun(design, nodes, 4, arity)).total_s
        # The order in which messages reach a node differs, and with it some microseconds.
        assert total_s >= before * 0.999, nodes
        before = total_s


@pytest.mark.parametrize("design", sorted(DESIGNS))
@pytest.mark.parametrize(
    "each", [field.name for field in fields(Costs) if field.name != "window_bytes"]
)
def test_higher_costs_take_no_less_time(design, each):
    run = StartupRun(design, 20, 4)
    usual = carry_out(run).total_s
    factor = 0.5 if each == "link_mb_s" else 2
    costs = replace(Costs(), **{each: getattr(Costs(), each) * factor})
    assert carry_out(replace(run, costs=costs)).total_s >= usual


def test_one_node_takes_the_sum_of_its_steps():
    costs = Costs(link_mb_s=1, latency_us=7, message_us=3, byte_ns=2, codec_ns=5)
    run = StartupRun("pipelined", 1, 2, object_bytes=1000 - 17, costs=costs)
    outcome = carry_out(run)
    message_us = 3 + 2 + (1000 + 64) + 7 + 3 + 2  # handled, sent, handled
    assert outcome.arrivals_s() == [pytest.approx(message_us * 1e-6)]
    read_us = 5 + message_us + 5
    report_us = 2 * (3 + 0.064 + 96 + 7 + 3)
    tables_us = 50 * 5e-3
    total_us = read_us + (100 + 20) + tables_us + 5000 + report_us
    assert outcome.total_s == pytest.approx(total_us * 1e-6, rel=1e-3)


def test_siblings_carry_half_of_the_tables_down():
    """Section 4.1, for a binary tree."""

    def sent(design):
        run = StartupRun(design, 255, 4, object_bytes=0)
        return carry_out(run).bytes - carry_out(replace(run, table_bytes=0)).bytes

    siblings, through_root = sent("pipelined"), sent("through-root")
    tree = StartupRun("new", 255, 4).tree
    up = sum(tree.below(place) for place in range(1, 255)) * 100
    assert through_root == up + 254 * 255 * 100
    assert siblings == up + (254 * 255 * 100 - up)


def test_old_object_is_trimmed_on_its_way():
    run = StartupRun("old", 7, 10, object_bytes=500)
    shared = 7 * 10 * 25 + 7 * 17  # the table; a count and a proof for each node
    assert run.object_of(0) == 500 + shared + 7 * 80
    assert run.object_of(1) == 500 + shared + 3 * 80
    assert run.object_of(6) == 500 + shared + 80
    assert StartupRun("pipelined", 7, 10, node_bytes=9).object_of(6) == 4096 + 7 * 17 + 63
    assert StartupRun("new", 7, 10, node_bytes=9).object_of(6) == 4096 + 7 * 17 + 9


def test_thousands_of_nodes():
    outcome = carry_out(StartupRun("pipelined", 4096, 2, arity=8))
    assert len(outcome.times) == 4096
    assert outcome.total_s < 0.1


@pytest.mark.parametrize(
    "wrong",
    [{"nodes": 0}, {"tasks": 0}, {"arity": 0}, {"chunk_bytes": 0}, {"object_bytes": -1}],
)
def test_impossible_run_is_refused(wrong):
    with pytest.raises(CoschedError):
        StartupRun(**{"design": "new", "nodes": 3, "tasks": 2, **wrong})


CALIBRATION = 'format = "cosched-startup-1"\n[costs]\n'

# -- calibrations -----------------------------------------------------------------------


def test_calibration_is_read(tmp_path):
    path = tmp_path / "costs.toml"
    path.write_text(f"{CALIBRATION}link_mb_s = 12.5\nmessage_us = 180\ncodec_ns = 0.75\n")
    assert read_costs(path) == Costs(link_mb_s=12.5, message_us=180, codec_ns=0.75)
    path.write_text(f"{CALIBRATION}start_us = 7\n")
    assert read_costs(path) == Costs(start_us=7)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[costs]", "not a calibration of starts"),
        ("costs = 3", "not a calibration of starts"),
        ('format = "cosched-startup-1"\nmore = 1', "the table [costs] alone"),
        ('format = "cosched-startup-1"\n[costs]\nlink_mb = 1', "did you mean 'link_mb_s'?"),
        ('format = "cosched-startup-1"\n[costs]\nstart_us = "7"', "must be a number"),
        ('format = "cosched-startup-1"\n[costs]\nlink_mb_s = 0', "0 is not a cost"),
        ('format = "cosched-startup-1"\n[costs]\nlink_mb_s = 1e-320', "is not a cost"),
        ('format = "cosched-startup-1"\n[costs]\nstart_us = 1e300', "is not a cost"),
        ('format = "cosched-startup-1"\n[costs]\nstart_us = -1', "-1 is not a cost"),
        ('format = "cosched-startup-1"\n[costs]\nstart_us = nan', "nan is not a cost"),
        ("[", "costs.toml:1: "),
    ],
)
def test_faulty_calibration_is_refused_in_one_line(text, says, tmp_path):
    path = tmp_path / "costs.toml"
    path.write_text(text)
    with pytest.raises(CoschedError) as caught:
        read_costs(path)
    assert says in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


# -- the command ------------------------------------------------------------------------


ONE = ("--parallel", "1")


def cosched(*arguments, cwd):
    """Runs the command in one process: those of a pool take longer to start."""
    return run_command("sim", "startup", *arguments, *ONE, cwd=cwd)


def test_table_fits():
    outcomes = [carry_out(StartupRun(design, 65, 4)) for design in DESIGNS]
    text = render(outcomes)
    assert max(map(len, text.splitlines())) <= 80
    assert [line.split()[0] for line in text.splitlines()] == ["design", *DESIGNS]


def test_simplest_run(tmp_path):
    result = run_command("sim", "startup", cwd=tmp_path)
    assert result.returncode == 0
    # On a slow machine a line of progress comes before the end of the first run.
    lines = [each for each in result.stderr.splitlines() if "% done" not in each]
    assert len(lines) == 3
    assert [line.split()[:3] for line in result.stdout.splitlines()[1:]] == [
        ["old", "248", "32"],
        ["new", "248", "32"],
        ["pipelined", "248", "32"],
    ]


def test_all_options(tmp_path):
    (tmp_path / "costs.toml").write_text(f"{CALIBRATION}latency_us = 5\n")
    words = ["--nodes", "3,9", "--tasks", "2", "--designs", "pipelined,through-root"]
    words += ["--arity", "3", "--chunk", "1K", "--object", "2K", "--table", "7"]
    words += ["--order", "live", "--costs", "costs.toml", "--link", "10", "--out", "a.json"]
    result = cosched(*words, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    document = json.loads((tmp_path / "a.json").read_text())
    assert document["command"] == " ".join(["cosched", "sim", "startup", *words, *ONE])
    assert [(run["nodes"], run["design"]) for run in document["runs"]] == [
        (3, "pipelined"),
        (3, "through-root"),
        (9, "pipelined"),
        (9, "through-root"),
    ]
    for run in document["runs"]:
        assert run["costs"]["latency_us"] == 5
        assert run["costs"]["link_mb_s"] == 10
        assert run["total_s"] == pytest.approx(sum(run["parts_s"].values()))


def test_json_instead_of_the_table(tmp_path):
    result = cosched("--nodes", "2", "--tasks", "1", "--json", cwd=tmp_path)
    assert [run["design"] for run in json.loads(result.stdout)["runs"]] == [
        "old",
        "new",
        "pipelined",
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--nodes", "0"), "'0' is not a whole number from 1 to 65536"),
        (("--nodes", "4,many"), "'many' is not a whole number"),
        (("--tasks", "2000"), "from 1 to 1024"),
        (("--designs", "newest"), "'newest' is none of old, new"),
        (("--chunk", "0"), "chunk must be 1 or more"),
        (("--chunk", "big"), "--chunk"),
        (("--object", "1X"), "--object"),
        (("--link", "0"), "--link"),
        (("--costs", "absent.toml"), "absent.toml: cannot be read: No such file"),
        (("--out", "absent/x"), "its folder cannot be written"),
        (("--json", "--out", "x"), "cannot be combined"),
    ],
)
def test_bad_input_gets_one_line_and_a_status(words, says, tmp_path):
    result = cosched(*words, cwd=tmp_path)
    assert result.returncode != 0
    assert result.stdout == ""
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_help_fits_and_shows_the_costs(tmp_path):
    result = cosched("--help", cwd=tmp_path)
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "Examples:" in result.stdout
    for each in fields(Costs):
        assert f"{each.name} = {each.default:g}" in result.stdout
