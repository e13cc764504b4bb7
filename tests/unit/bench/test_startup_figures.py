"""The experiment on partitioned scheduling: plans, documents, claims, page, live points."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from benchmarks.experiments.claims import MISSING, TUNED
from benchmarks.experiments.startup import __main__ as experiment
from benchmarks.experiments.startup import central_cost, page
from benchmarks.experiments.startup.claims import aims, claims
from benchmarks.experiments.startup.documents import (
    MIDDLE,
    Point,
    document,
    extent,
    growth,
    measured,
    ratio,
    read,
    text,
)
from benchmarks.experiments.startup.emulate import (
    QUANTITIES,
    collect,
    emulate,
    summaries,
)
from benchmarks.experiments.startup.live_comparison import beside, read_live
from benchmarks.experiments.startup.measure import in_new_process
from benchmarks.experiments.startup.plans import (
    COSTS,
    MEASURED,
    SMALLER,
    TITLES,
    cases_of,
    points_of,
)
from benchmarks.experiments.startup.workers import makespan_s
from benchmarks.experiments.verdicts import HOLDS, NO, UNDECIDED, Measured
from cosched.core.errors import CoschedError
from cosched.sim.startup.costs import Costs
from cosched.sim.startup.model import StartupRun
from cosched.sim.startup.startup_runs import carry_out

pytest.importorskip("matplotlib")
EMULATED = [figure for figure in TITLES if figure not in MEASURED]


# -- plans ------------------------------------------------------------------------------


@pytest.mark.parametrize("figure", EMULATED)
def test_emulated_figures_have_the_papers_axes(figure):
    points = points_of(figure)
    assert len({(p.series, p.x, p.costs) for p in points}) == len(points)
    for point in points:
        assert point.run.costs == point.run.costs
        assert point.quantity in QUANTITIES
    small = {p.costs for p in points if p.start.nodes <= 496}
    assert small in (set(COSTS), {"network alone"}, set())
    assert {p.costs for p in points if p.start.nodes > 496} <= {MIDDLE}


def test_measured_figures_have_the_papers_axes():
    for figure in set(MEASURED) - {"fig6"}:
        cases = cases_of(figure)
        assert {design for design, _, _ in cases} == {"old", "new"}
        assert max(tasks for _, _, tasks in cases) <= 128
        assert max(nodes for _, nodes, _ in cases) <= 16384
    assert {nodes for _, nodes, _ in cases_of("fig7")} == {496}
    assert {tasks for _, _, tasks in cases_of("fig8a")} == {32}
    assert {nodes for _, nodes, _ in cases_of("fig8b")} == {248}


def test_costs_cover_the_papers_bandwidth():
    assert {costs.link_mb_s for costs in COSTS.values()} == {100, 150, 200}
    assert COSTS[MIDDLE] == Costs()
    assert len(COSTS) == 9


# -- the central part -------------------------------------------------------------------


def test_new_design_is_constant_in_tasks_and_old_is_not():
    objects = {
        (design, tasks): len(
            central_cost.sendable(
                central_cost.MANAGERS[design](20).place(central_cost.submission(20, tasks))
            )
        )
        for design in ("old", "new")
        for tasks in (1, 100)
    }
    assert objects["new", 100] == objects["new", 1]
    assert objects["old", 100] > 20 * objects["old", 1] - 20 * 4096
    found = central_cost.memory("new", 20, 100)
    assert found["memory_bytes"] < central_cost.memory("old", 20, 100)["memory_bytes"]
    assert found["object_bytes"] == objects["new", 100]
    found = central_cost.cpu("new", 20, 3)
    assert found["probes"] == pytest.approx(found["cpu_s"] / found["probe_s"], rel=0.5)


@pytest.mark.parametrize("way", ["threads", "cores"])
def test_workers_choose_the_nodes_of_a_job(way):
    found = central_cost.workers(way, 600, 3)
    assert 0 < found["cpu_s"] < 5


def test_workers_take_blocks_in_turn():
    assert makespan_s([3, 1, 1, 1], 2) == 3
    assert makespan_s([1, 1, 1, 3], 2) == 4
    assert makespan_s([1, 2], 1) == 3


def test_case_runs_in_a_new_process():
    found = in_new_process("old", 3, 2, "cpu")
    assert found["cpu_s"] < 1
    with pytest.raises(CoschedError, match=r"newest 3 2 cpu failed: KeyError"):
        in_new_process("newest", 3, 2, "cpu")


# -- documents --------------------------------------------------------------------------


def made(figure, value, **more):
    """A document whose values are ``value(series, x, costs or run)``."""
    points = []
    if figure in MEASURED:
        for design, nodes, tasks in cases_of(figure):
            x = nodes if figure == "fig8a" else tasks
            runs = {str(run): value(design, x, run) for run in (1, 2)}
            points.append(Point(design, x, runs))
    else:
        for each in points_of(figure):
            if figure == "fig11a":
                for depth in range(8):
                    points.append(Point(each.series, depth, {}))
            else:
                points.append(Point(each.series, each.x, {}))
        points = list({(p.series, p.x): p for p in points}.values())
        for point in points:
            point.values = {name: value(point.series, point.x, name) for name in COSTS}
    emulated = figure not in MEASURED
    if figure in MEASURED:
        more["runs"] = [
            {"design": point.series, "cpu_s": run, "memory_bytes": run * 1e6}
            for point in points
            for run in point.values.values()
        ]
    found = document(TITLES[figure], points, "command", emulated=emulated, **more)
    return json.loads(json.dumps(found))


def test_ratios_of_emulated_points_are_taken_case_by_case():
    found = made(
        "fig9b", lambda series, _x, costs: (5 if series == "old" else 1) * len(costs)
    )
    assert ratio(found, "old", "new", 32) == Measured(5, 5, 5)
    assert growth(found, "old", 32, 16) == Measured(1, 1, 1)
    assert ratio(found, "old", "newest", 32) is None
    least, most = min(map(len, COSTS)), max(map(len, COSTS))
    assert measured(found, "new", 32) == Measured(len(MIDDLE), least, most)
    assert extent({}) is None


def test_ratios_of_runs_have_the_extremes():
    found = made("fig8b", lambda series, _x, run: run * (4 if series == "old" else 1))
    assert ratio(found, "old", "new", 32) == Measured(4, 2, 8)


def test_text_has_a_line_for_each_x():
    lines = text(made("fig9b", lambda _series, x, _costs: x / 1e3)).splitlines()
    assert lines[0] == TITLES["fig9b"].text
    assert [line.split() for line in lines[4:]] == [
        [str(x)] * 4 for x in (1, 2, 4, 8, 16, 32, 64, 128)
    ]


def test_another_file_is_refused(tmp_path):
    (tmp_path / "a.json").write_text('{"format": "other"}')
    with pytest.raises(CoschedError, match="is no figure of this experiment"):
        read(tmp_path / "a.json")


# -- claims -----------------------------------------------------------------------------


def summary_of(figure, faster, steadier, fewer):
    """fig10a's rows; the arguments are the ratios that the claims are about."""
    rows = []
    for point in points_of(figure):
        row = {"tables": 1.0, "variation": steadier, "bytes": fewer}
        if point.series == "new":
            row = {"tables": faster, "variation": 1.0, "bytes": fewer}
        if point.series == "through-root":
            row["bytes"] = 1.0
        rows.append({"series": point.series, "x": SMALLER, "costs": point.costs, **row})
    return rows


def as_the_paper_says():
    """Documents in a world where every claim of the paper is true."""

    def memory(series, x, _case):
        return x * (5.5 if series == "old" else 1)

    def memory_16k(series, x, _case):
        return memory(series, x, _case) * 16384 / 496 if series == "old" else 1.0

    def scheduling(series, x, _case):
        return x if series == "old" else 0.02

    def dispatch(series, x, _case):
        return {"old": 6.5 * x**2 / 248, "new": x, "pipelined": x / 2}[series]

    def by_tasks(series, x, _case):
        return 7 * x if series == "old" else x

    def by_chunk(series, x, _case):
        return x * int(series.split()[0])

    def by_depth(series, x, _case):
        return 2 - 0.5**x if series == "new" else 0.1

    def constant(series, x, _case):
        return 10.0 if series == "new" else 1.0

    return {
        "fig7": made("fig7", memory),
        "fig7-16k": made("fig7-16k", memory_16k),
        "fig8a": made("fig8a", lambda s, x, c: x if s == "old" else x / 9),
        "fig8b": made("fig8b", scheduling),
        "fig8-16k": made("fig8-16k", scheduling),
        "fig9a": made("fig9a", dispatch),
        "fig9b": made("fig9b", by_tasks),
        "fig10a": made(
            "fig10a", constant, summary=summary_of("fig10a", 5.0, 0.6, 0.5)
        ),
        "fig10b": made("fig10b", by_chunk),
        "fig11a": made("fig11a", by_depth),
        "fig11b": made("fig11b", lambda s, x, c: (7 if s == "new" else 1) * x),
        "fig11c": made("fig11c", constant),
    }  # fmt: skip


def test_claims_hold_on_the_papers_figures():
    documents = as_the_paper_says()
    for claim in claims(documents, documents):
        if claim.paper and claim.source != "6":
            assert claim.verdict == HOLDS or claim.verdict.startswith("within"), claim
    assert [aim.verdict for aim in aims(as_the_paper_says())] == [HOLDS, HOLDS]


def test_aims_count_the_seconds_of_the_clock():
    slow = {"fig8-16k": made("fig8-16k", lambda *_: 0.051)}
    assert aims(slow)[0].verdict == NO


def test_claims_fail_on_equal_figures():
    equal = {
        figure: made(
            figure,
            lambda _series, _x, _case: 7.0,
            summary=summary_of("fig10a", 1.0, 1.0, 1.0),
        )
        for figure in TITLES
    }
    found = {claim.what: claim.verdict for claim in claims(equal, equal) if claim.paper}
    true_of_equals = {what for what in found if "constant" in what}
    assert all(found.pop(what).startswith("within") for what in true_of_equals)
    assert set(found.values()) <= {NO, TUNED, UNDECIDED}
    assert [aim.verdict for aim in aims(equal)] == [NO, HOLDS]  # 7 s, 7 MB


def test_claims_without_figures_report_that():
    for claim in claims({}):
        assert MISSING in claim.ours
        assert claim.verdict in ("", TUNED)
    assert {aim.ours for aim in aims({})} == {MISSING}


# -- emulation --------------------------------------------------------------------------


def test_emulated_point_has_its_figures():
    def first(figure, **changes):
        point = points_of(figure)[0]
        return emulate(replace(point, start=replace(point.start, nodes=15, **changes)))

    total = first("fig9a")
    assert list(total.values) == [("old", 2)]
    parts = ["job object", "assignment", "tables", "master start", "go"]
    assert sum(total.summary[part] for part in parts) == pytest.approx(
        total.summary["total"]
    )
    by_node = first("fig10a")
    assert len([key for key in by_node.values if key[0] == "new: all"]) == 14
    assert len([key for key in by_node.values if key[0] == "new: below"]) == 6
    assert by_node.summary["variation"] > 0
    by_depth = first("fig11a")
    assert list(by_depth.values) == [("new", depth) for depth in range(4)]
    assert collect([total])[0].values == {MIDDLE: total.summary["total"]}
    assert summaries([total])[0]["nodes"] == 15


# -- live points ------------------------------------------------------------------------


def live_figure(tmp_path, factor=1.0, **changes):
    run = {"design": "pipelined", "nodes": 15, "tasks": 4, "order": "live"}
    emulated = carry_out(StartupRun(**run, costs=Costs(link_mb_s=10))).total_s
    found = {
        **document(TITLES["fig9a"], [], "command", emulated=False),
        "live": True,
        "costs": asdict(Costs(link_mb_s=10)),
        "quantity": "total",
        "points": [
            {
                "series": "pipelined",
                "x": 15,
                "values": {"1": emulated * factor, "2": emulated * factor},
                "run": run,
            }
        ],
        **changes,
    }
    (tmp_path / "live-fig9a.json").write_text(json.dumps(found))


def test_live_points_stand_beside_the_emulator(tmp_path):
    live_figure(tmp_path, factor=0.8)
    (row,) = beside(read_live(tmp_path)["fig9a"])
    assert row.off == pytest.approx(0.25)
    live_figure(tmp_path)
    (row,) = beside(read_live(tmp_path)["fig9a"])
    assert (row.figure, row.series, row.x) == ("fig9a", "pipelined", 15)
    assert row.off == pytest.approx(0)


def test_faulty_live_figure_is_refused(tmp_path):
    live_figure(tmp_path, live=False)
    with pytest.raises(CoschedError, match=r"live-fig9a.json: a live figure has live"):
        read_live(tmp_path)


# -- the command and the page -----------------------------------------------------------


@pytest.fixture
def docs(tmp_path):
    (tmp_path / "results" / "figures").mkdir(parents=True)
    made_page = tmp_path / "results" / "brelsford.md"
    made_page.write_text(
        "# F\n\n<!-- brelsford: begin -->\n<!-- brelsford: end -->\n\nEnd\n"
    )
    return made_page


def test_figures_are_made_and_written_into_the_page(tmp_path, docs, capsys, monkeypatch):
    two = dict(list(COSTS.items())[:2])
    for module in ("plans", "claims"):
        monkeypatch.setattr(f"benchmarks.experiments.startup.{module}.COSTS", two)
    out = tmp_path / "out"
    words = ["fig9b", "fig11a", "--most-nodes", "248", "--out", str(out)]
    experiment.main([*words, "--docs", str(docs)])
    printed = capsys.readouterr().out
    assert TITLES["fig9b"].text in printed
    for figure in ("fig9b", "fig11a"):
        for ending in ("json", "txt", "svg"):
            assert (out / f"{figure}.{ending}").exists()
    first = docs.read_text()
    assert first.startswith("# F\n\n<!-- brelsford: begin -->\n")
    assert first.endswith("<!-- brelsford: end -->\n\nEnd\n")
    assert "| 9B | old to new at 248 nodes, 128 tasks | above 6 |" in first
    assert "No point was measured live yet." in first
    assert "| old | 248 | 32 |" in first
    assert (docs.parent / "figures" / "brelsford_fig9b.svg").exists()
    assert (docs.parent / "brelsford_fig11a.txt").exists()
    live_figure(out)
    experiment.main([*words, "--redraw", "--docs", str(docs)])
    assert "1 of 1 are within 15%." in docs.read_text()
    (out / "live-fig9a.json").unlink()
    experiment.main([*words, "--redraw", "--docs", str(docs)])
    assert docs.read_text() == first


def test_measured_figure_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "benchmarks.experiments.startup.measure.cases_of",
        lambda _figure: [("old", 3, 2), ("new", 3, 2)],
    )
    experiment.main(["fig8b", "--repeat", "2", "--out", str(tmp_path)])
    found = read(tmp_path / "fig8b.json")
    assert [list(point["values"]) for point in found["points"]] == [["1", "2"]] * 2
    assert len(found["runs"]) == 4


@pytest.mark.parametrize(
    "words", [["fig5"], ["fig7", "--repeat", "0"], ["fig9a", "--jobs", "0"]]
)
def test_wrong_usage(words, capsys, tmp_path):
    with pytest.raises(SystemExit) as ended:
        experiment.main([*words, "--out", str(tmp_path)])
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_failure_is_one_line(tmp_path):
    with pytest.raises(SystemExit) as ended:
        experiment.main(["fig9a", "--redraw", "--out", str(tmp_path)])
    assert "startup: " in str(ended.value.code)
    assert "fig9a.json" in str(ended.value.code)


def test_page_names_its_own_part():
    assert page.file_name("fig9a", "svg") == "brelsford_fig9a.svg"
