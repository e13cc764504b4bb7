"""The experiments of Yoo and Jette on made-up runs: plans, tables, pictures, claims."""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.experiments.claims import NOT_HERE
from benchmarks.experiments.verdicts import HOLDS, NO, UNDECIDED
from benchmarks.experiments.yoo import __main__ as yoo
from benchmarks.experiments.yoo import yoo_page
from benchmarks.experiments.yoo.claims import claims
from benchmarks.experiments.yoo.figures import draw
from benchmarks.experiments.yoo.plans import (
    PLANS,
    SCALES,
    WORKLOADS,
    fleet_workload,
    make_plan,
)
from benchmarks.experiments.yoo.yoo_table import text_table, values
from cosched.bench.measure.equal_speed import speeds
from cosched.bench.measure.load import OutsideLoad
from cosched.bench.results.results import Failure, JobResult, Run
from cosched.bench.run.arms import Arm
from cosched.bench.workload.file import load_workload
from cosched.core.errors import CoschedError
from cosched.core.node.settings import Settings
from cosched.core.units import parse_duration

#: The name of the paper's arm in Fig. 2.
PAPER = "paper gmet=167ms slice=0.5s"


def as_the_paper_says(way):
    """Seconds of a point in a world where every claim of the paper's is true."""
    arm, x = way.setup.arm, way.x
    kernel = 20.0
    if way.workload.title.startswith("many"):
        if arm is Arm.BATCH:
            return 40.0
        return 20.0 + 2 * way.setup.dom
    if arm is Arm.KERNEL:
        return kernel
    if way.workload.title.startswith("DOM"):
        return kernel * {"2": 0.15, "3": 0.4, "4": 0.6, "5": 0.8}[x]
    gain = {"1": 0.8, "2": 0.5, "3": 1.0}.get(way.workload.title[-1], 0.7)
    if way.setup.settings.get("slice") == "auto":
        return kernel * gain
    if "gmet" in way.setup.settings and way.workload.title != "workload 3":
        slice_s = float(way.setup.settings["slice"][:-1])
        if x == way.setup.settings["slice"]:
            gain *= 1 + slice_s / 10
        elif way.workload.title == "workload 2" and x == SCALES["lab"].gmets[0]:
            gain *= 3
    return kernel * gain


def made_up(way, repeats, seconds, probes_us=()):
    """probes_us: the machine's speed beside each run; unknown if there are none."""
    load = OutsideLoad(busy_s=9.0, jobs_s=8.8, overhead_s=0.1, capacity_s=10.0)
    return [
        Run(
            way.setup.arm,
            repeat,
            (JobResult("a", 0.0, seconds * 0.5, seconds * (1 + repeat / 100), 1.0),),
            load,
            probe_us=probes_us[repeat - 1] if probes_us else None,
        )
        for repeat in range(1, repeats + 1)
    ]


def document_of(figure, seconds_of=as_the_paper_says, scale="lab", **changes):
    """Makes the document of yoo.carry_out without the runs."""
    plan = make_plan(figure, SCALES[scale], None, quick=False)
    found = {
        (way.workload.title, way.setup.name): made_up(way, 2, seconds_of(way))
        for way in plan.ways
    }
    found.update(changes.pop("found", {}))
    made = {
        "format": yoo.FORMAT,
        "figure": figure,
        "title": plan.title,
        "xlabel": plan.xlabel,
        "value": plan.value,
        "scale": scale,
        "quick": False,
        "repeats": 2,
        "lab": True,
        "kernel": "6.18",
        "mpi": {"family": "openmpi", "version": "5.0.11", "mpiexec": "/x/mpiexec"},
        "hosts": ["lab1", "lab2"],
        "speeds": speeds(run for runs in found.values() for run in runs),
        "points": yoo.point_documents(plan.ways, found),
        **changes,
    }
    return json.loads(json.dumps(made))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("figure", PLANS)
def test_plan_can_be_run(figure, scale, quick):
    plan = make_plan(figure, SCALES[scale], None, quick)
    keys = {(way.workload.title, way.setup.name) for way in plan.ways}
    assert len(keys) == len(plan.ways)
    assert len({(way.series, way.x) for way in plan.ways}) == len(plan.ways)
    for way in plan.ways:
        Settings().changed(dict(way.setup.settings))
        for spec in way.workload.jobs:
            assert spec.ranks <= 2 * spec.ppn if spec.ppn else True
    if quick:
        assert len(plan.ways) <= 14
        assert all(len(way.workload.instances()) <= 2 for way in plan.ways)


def test_figures_have_the_papers_axes():
    def xs(figure, scale="paper"):
        plan = make_plan(figure, SCALES[scale], None, quick=False)
        return list(dict.fromkeys(way.x for way in plan.ways))

    assert xs("fig2") == ["1", "2", "3"]
    assert xs("fig3") == ["2", "3", "4", "5"]
    assert xs("fig4")[:3] == ["batch", "(15s, 2)", "(30s, 2)"]
    assert xs("fig5") == ["any", "2s", "5s", "10s", "15s", "20s"]
    assert xs("fig6")[0] == "any"
    papers = make_plan("fig2", SCALES["paper"], None, quick=False)
    settings = {way.setup.arm: way.setup.settings for way in papers.ways}
    assert settings[Arm.PAPER] == {"slice": "15s", "gmet": "5s"}
    assert settings[Arm.COSCHED] == {}  # the defaults


@pytest.mark.parametrize("figure", ["fig2", "fig3", "fig4", "fig5", "fig6"])
def test_turns_have_the_papers_ratios(figure):
    """The slice is a small part of a job; GMET is a part of the slice."""
    for way in make_plan(figure, SCALES["lab"], None, quick=False).ways:
        slice_, gmet = (way.setup.settings.get(name) for name in ("slice", "gmet"))
        if slice_ is not None:
            slice_ns, gmet_ns = (parse_duration(text, "x") for text in (slice_, gmet))
            assert 0.06 <= gmet_ns / slice_ns <= 0.68
            assert 0.02 <= slice_ns / LAB_JOB_NS <= 0.2


#: The CPU time of the shortest job of each workload on the lab, some 15 slices of 0.5 s.
LAB_JOB_NS = 7.5e9


def test_all_jobs_of_the_lab_have_that_length():
    for name in ("workload1", "workload2", "workload3", "dom5", "many"):
        workload = load_workload(WORKLOADS / "yoo" / f"{name}.toml")
        units = [int(job.args[1]) * int(job.args[3]) for job in workload.jobs]
        assert min(units) == 6_000_000_000  # some 1.25 ns each
        assert max(units) == (30_000_000_000 if name == "many" else 6_000_000_000)


def test_fleet_jobs_have_equal_work_per_core():
    for placement, jobs in (("spread", 2), ("double", 2), ("uneven", 2)):
        workload = fleet_workload(30_000, 2, placement)
        assert len(workload.instances()) == jobs
        for spec in workload.jobs:
            steps, grain = int(spec.args[1]), int(spec.args[3])
            assert steps * grain * spec.ppn == 1_200_000_000


@pytest.mark.parametrize("figure", PLANS)
def test_claims_hold_on_the_papers_figures(figure):
    found = claims(document_of(figure))
    assert found
    of_the_paper = [claim for claim in found if claim.paper]
    good = [claim.verdict for claim in of_the_paper]
    assert all(one == HOLDS or one.startswith("within") for one in good), of_the_paper
    assert of_the_paper or figure in ("fleet", "auto")


@pytest.mark.parametrize("figure", sorted(set(PLANS) - {"fleet", "auto"}))
def test_claims_fail_on_equal_figures(figure):
    equal = document_of(figure, lambda _way: 7.0)
    found = {claim.what: claim.verdict for claim in claims(equal) if claim.paper}
    flat = {what for what in found if "does not matter" in what}
    assert all(found[what].startswith("within") for what in flat)
    others = {verdict for what, verdict in found.items() if what not in flat}
    assert others & {NO, NOT_HERE}


@pytest.mark.parametrize("figure", sorted(set(PLANS) - {"fleet", "auto"}))
def test_single_runs_refute_no_claim(figure):
    plan = make_plan(figure, SCALES["lab"], None, quick=False)
    found = {
        (way.workload.title, way.setup.name): made_up(way, 1, 7.0) for way in plan.ways
    }
    verdicts = {claim.verdict for claim in claims(document_of(figure, found=found))}
    assert UNDECIDED in verdicts
    assert NO not in verdicts


@pytest.mark.parametrize("figure", PLANS)
def test_table_and_pictures(figure, tmp_path):
    document = document_of(figure)
    text = yoo.write(document, tmp_path / figure)
    assert max(map(len, text.splitlines())) <= 80
    assert text == (tmp_path / f"{figure}.txt").read_text()
    assert (tmp_path / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
    svg = (tmp_path / f"{figure}.svg").read_text()
    assert document["xlabel"] in svg
    draw(document, tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text() == svg


@pytest.mark.parametrize("figure", ["fig2", "fig4"])
def test_a_figure_without_the_papers_places_has_a_picture(figure, tmp_path):
    document = document_of(figure)
    first = document["points"][0]["x"]
    few = [point for point in document["points"] if point["x"] == first]
    yoo.write({**document, "points": few}, tmp_path / figure)
    assert (tmp_path / f"{figure}.svg").exists()


def test_table_compares_with_the_kernel():
    text = text_table(document_of("fig2"))
    line = next(line for line in text.splitlines() if line.startswith("  cosched"))
    assert line == "  cosched     16.24  (16.16 - 16.32)  0.80 of kernel's"
    assert "medians of 2 runs" in text
    assert "outside load: at most 1.0% of the nodes' CPUs in a run" in text


def test_table_names_the_runs_before():
    assert "2 runs of each program alone" in text_table(document_of("auto", seen=2))
    assert "alone" not in text_table(document_of("auto", seen=0))


def test_known_speed_rescales_the_seconds(tmp_path):
    plan = make_plan("fig2", SCALES["lab"], None, quick=False)
    kernels = {"workload 1": (300, 300), "workload 2": (450, 450), "workload 3": (300, 300)}
    found = {
        (way.workload.title, way.setup.name): made_up(
            way, 2, *slowed(way, kernels[way.workload.title])
        )
        for way in plan.ways
    }
    document = document_of("fig2", found=found)
    assert values(document)["kernel"] == pytest.approx({"1": 20.3, "2": 20.3, "3": 20.3})
    assert [claim.verdict for claim in claims(document)][:4] == [
        "within 1%",
        HOLDS,
        "within 1%",
        HOLDS,
    ]
    text = text_table(document)
    assert "the machine ran at 0.67 to 1.00 of its usual speed; seconds here" in text
    yoo.write(document, tmp_path / "fig2")
    assert "mean response, s at the usual speed" in (tmp_path / "fig2.svg").read_text()
    assert not any(
        "probe" in claim.what for claim in claims(document)
    )  # only jobs that compute
    one_without = dict(found)
    one_without["workload 1", "batch"] = made_up(plan.ways[0], 2, 20.0)
    assert "usual speed" not in text_table(document_of("fig2", found=one_without))


def test_probe_that_favours_an_arm_is_detected():
    plan = make_plan("fig2", SCALES["lab"], None, quick=False)
    found = {}
    for way in plan.ways:
        probe_us = (
            330.0 if way.setup.arm is Arm.GANG else 300.0
        )  # while jobs that compute take the same
        run = Run(way.setup.arm, 1, (JobResult("coarse.1", 0.0, 0.0, 9.0, 6.0),))
        found[way.workload.title, way.setup.name] = [replace(run, probe_us=probe_us)]
    told = [c.ours for c in claims(document_of("fig2", found=found)) if "probe" in c.what]
    assert told == ["0.91 to 1.00"]


def slowed(way, probes_us):
    """Seconds and probes of a run under the kernel on a machine that is slower then."""
    seconds = as_the_paper_says(way)
    if way.setup.arm is not Arm.KERNEL:
        return seconds, (300, 300)
    return seconds * probes_us[0] / 300, probes_us


def test_failed_points_are_reported_and_left_out(tmp_path):
    failed = [Run(Arm.COSCHED, 1, (), failure=Failure("job 'lu' ended with status 3"))]
    document = document_of("fig2", found={("workload 2", PAPER): failed})
    text = yoo.write(document, tmp_path / "fig2")
    assert "failed: paper 2: job 'lu' ended with status 3" in text
    assert "2" not in values(document)["paper"]
    assert [bool(claim.verdict) for claim in claims(document)][:4] == [
        False,
        True,
        True,
        False,
    ]


def test_figure_without_good_runs_is_written(tmp_path):
    plan = make_plan("fig4", SCALES["lab"], None, quick=False)
    failed = Run(Arm.COSCHED, 1, (), failure=Failure("no"))
    none = {(way.workload.title, way.setup.name): [failed] for way in plan.ways}
    document = document_of("fig4", found=none)
    assert "failed: batch batch: no" in yoo.write(document, tmp_path / "fig4")
    assert claims(document)[0].ours == "not measured"


# --- docs/results/yoo.md ---


@pytest.fixture
def page(tmp_path):
    (tmp_path / "results" / "figures").mkdir(parents=True)
    page = tmp_path / "results" / "yoo.md"
    page.write_text("# Figures\n\n<!-- yoo: begin -->\n<!-- yoo: end -->\n\n## After\n")
    return page


def folder(tmp_path, name, *figures):
    made = tmp_path / name
    made.mkdir()
    for figure in figures:
        (made / f"{figure}.json").write_text(json.dumps(document_of(figure)))
    return made


def test_results_replace_the_part_between_the_marks(page, tmp_path):
    one = folder(tmp_path, "openmpi", "fig2", "fig4")
    yoo_page.main([str(one), "--docs", str(page)])
    first = page.read_text()
    assert first.startswith("# Figures\n\n<!-- yoo: begin -->\n")
    assert first.endswith("<!-- yoo: end -->\n\n## After\n")
    assert "## Open MPI 5.0.11, 2 lab nodes, Linux 6.18" in first
    assert re.search(r"^\| 2 \| .* \| 0\.50 \| 0\.50.* \| within 1% \|$", first, re.M)
    assert "scripts/dev bench yoo fig4 --repeats 2" in first
    assert "](yoo_fig4.txt)" in first
    made = {str(path.relative_to(page.parent)) for path in page.parent.rglob("yoo_*")}
    pictures = {"figures/yoo_fig2.svg", "figures/yoo_fig4.svg"}
    assert made == {"yoo_fig2.txt", "yoo_fig4.txt", *pictures}
    yoo_page.main([str(one), "--docs", str(page)])
    assert page.read_text() == first


def test_results_of_several_mpis_have_files_by_folder(page, tmp_path):
    folders = [folder(tmp_path, name, "fig2") for name in ("openmpi", "mpich")]
    yoo_page.main([*map(str, folders), "--docs", str(page)])
    assert "](figures/yoo_fig2_mpich.svg)" in page.read_text()
    assert (page.parent / "figures" / "yoo_fig2_openmpi.svg").exists()
    assert (page.parent / "yoo_fig2_mpich.txt").exists()


def test_results_without_figures_or_marks_fail(page, tmp_path):
    with pytest.raises(SystemExit, match="no figure's JSON is there; make one: "):
        yoo_page.main([str(tmp_path), "--docs", str(page)])
    page.write_text("<!-- yoo: begin -->\n")
    with pytest.raises(SystemExit, match="no '<!-- yoo: begin -->' followed by"):
        yoo_page.main([str(tmp_path), "--docs", str(page)])


# --- the command ---


@pytest.mark.parametrize(
    "words",
    [
        ["fig9"],
        ["fig2", "--repeats", "0"],
        ["fig5", "--arms", "kernel"],
        ["fig2", "--run-limit", "0"],
    ],
)
def test_wrong_usage(words, capsys):
    with pytest.raises(SystemExit) as ended:
        yoo.parse(words)
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_redraw_needs_no_runs(tmp_path, capsys):
    (tmp_path / "fig2.json").write_text(json.dumps(document_of("fig2")))
    assert yoo.main(["fig2", "--out", str(tmp_path), "--redraw"]) == 0
    assert capsys.readouterr().out == (tmp_path / "fig2.txt").read_text()
    assert yoo.main(["fig3", "--out", str(tmp_path), "--redraw"]) == 1
    assert "fig3.json" in capsys.readouterr().err


def test_failed_figure_does_not_stop_the_others(tmp_path, monkeypatch, capsys):
    def carry_out(plan, _options):
        if plan.figure == "fig3":
            raise CoschedError("no lab")
        return document_of(plan.figure)

    written = []
    monkeypatch.setattr(yoo, "carry_out", carry_out)
    monkeypatch.setattr(yoo, "write", lambda _document, stem: written.append(stem.name))
    assert yoo.main(["all", "--out", str(tmp_path)]) == 1
    assert "yoo: fig3: no lab\n" in capsys.readouterr().err
    assert set(written) == set(PLANS) - {"fig3"}


def test_run_files_are_named_after_the_figure():
    quick = argparse.Namespace(quick=True)
    assert yoo.stem_of("fig2", quick) == "fig2-quick"
    assert Path(yoo.parse(["fig2"]).out) == Path("results")
