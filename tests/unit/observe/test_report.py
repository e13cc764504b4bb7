"""Checks the report's data, its page, and the command."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import re

import pytest

from cosched.bench.results.document import document
from cosched.bench.workload.file import Workload
from cosched.core.node.messages import Cause
from cosched.observe.report.contents import report_data
from cosched.observe.report.page import render_page
from cosched.observe.timeline.timeline import NodeTimeline, Span, timelines
from tests.tools.commands import run_command
from tests.unit.bench.bench_samples import COSCHED, KERNEL, failed_run, summaries
from tests.unit.observe.timeline_samples import MS, TracedNode, line, two_nodes

WORKLOAD = Workload(title="two wavefronts", description="", jobs=(), origin="w.toml")
DATA = re.compile(r'id="data">([A-Za-z0-9+/=]*)</script>')


def data_in(page):
    """Returns the data that the page's script unpacks."""
    return json.loads(gzip.decompress(base64.b64decode(DATA.search(page)[1])))


def added_up(differences):
    return list(itertools.accumulate(differences))


@pytest.fixture
def timeline(tmp_path):
    nodes = timelines(node.trace(tmp_path) for node in two_nodes())
    return report_data(nodes, [])["timeline"]


def test_report_has_the_nodes_of_each_job_over_time(tmp_path):
    """Node 1 has job a alone, then node 2 has it too, and node 1 gives it up."""
    nodes = timelines(node.trace(tmp_path) for node in two_nodes())
    one, other = nodes
    one.present = [("0.a", 0, 100 * MS), ("0.a", 100 * MS, 150 * MS)]
    other.present = [("0.a", 50 * MS, 200 * MS), ("0.b", 50 * MS, 60 * MS)]
    data = report_data(nodes, [])["timeline"]
    a, b = data["sizes"]
    assert added_up(a["at"]) == [0, 50_000, 150_000, 200_000]
    assert a["nodes"] == [1, 2, 1, 0], "a stay that follows at once is no change"
    assert (added_up(b["at"]), b["nodes"]) == ([50_000, 60_000], [1, 0])


class Passes(list):
    """A list that counts how often it is read."""

    count = 0

    def __iter__(self):
        self.count += 1
        return super().__iter__()


def test_report_reads_the_spans_as_often_for_many_jobs():
    """A trace has thousands of jobs and a hundred thousand spans."""
    counts = []
    for jobs in (2, 20):
        names = [f"0.j{number}" for number in range(jobs)]
        spans = Passes(Span(name, 0, MS, Cause.SLICE) for name in names)
        stays = Passes((name, 0, MS) for name in names)
        nodes = [NodeTimeline(node, 0, MS, spans, [], stays) for node in ("a", "b")]
        report_data(nodes, [])
        counts.append((spans.count, stays.count))
    assert counts[0] == counts[1]


def test_report_has_rows_of_timeline(timeline):
    assert (timeline["jobs"], timeline["keyed"]) == (["a", "b"], False)
    assert timeline["length_us"] == 200_000
    second = timeline["nodes"][1]
    (lane,) = second["lanes"]
    assert added_up(lane["begin"]) == [0, 130_000, 180_000]
    assert lane["length"] == [130_000, 50_000, 20_000]
    assert lane["job"] == [0, 1, 0]
    causes = [timeline["causes"][cause][0] for cause in lane["cause"]]
    assert causes == ["first", "pulled", "freed"]
    assert added_up(second["refused"]["at"]) == [105_000]
    together = timeline["together"]
    assert added_up(together["begin"]) == [0, 130_000, 180_000]
    assert together["length"] == [100_000, 50_000, 20_000]
    assert together["job"] == [0, 1, 0]


def test_each_part_of_a_node_has_a_lane():
    """A page writes the CPUs of each part beside its lane."""
    node = line("n1", [("0.a", 0, 10)], [("0.a", 0, 10), ("0.b", 0, 10)])
    node.parts = [frozenset({0}), frozenset({1})]
    (row,) = report_data([node], [])["timeline"]["nodes"]
    assert row["parts"] == ["0", "1"]
    assert [len(lane["begin"]) for lane in row["lanes"]] == [1, 0]


def test_report_has_figures_of_each_job(timeline):
    a, b = timeline["per_job"]
    assert (a["switches"], a["pulled"], a["refused"]) == (4, 0, 1)
    assert (b["switches"], b["pulled"], b["refused"]) == (2, 1, 0)
    assert a["nodes"] == ["n1", "n2"]
    assert a["here_s"] == pytest.approx(0.2)
    assert (a["alone_s"], b["alone_s"]) == (pytest.approx(0.15), pytest.approx(0.08))
    assert a["share"] == pytest.approx((120 + 150) / 400)
    assert a["together"] == pytest.approx(120 / 150)
    totals = timeline["totals"]
    assert (totals["switches"], totals["pulled"], totals["refused"]) == (6, 1, 1)
    assert totals["together"] == pytest.approx(170 / 230)


def test_time_here_is_the_sum_of_the_runs_of_a_name():
    """The name runs twice on two nodes, 700 ms apart; each node has it half of the time."""
    stays = [("0.a", 0, 100 * MS), ("0.a", 800 * MS, 1000 * MS)]
    spans = [("0.a", 0, 50 * MS), ("0.a", 800 * MS, 900 * MS)]
    nodes = [line(name, spans, stays) for name in ("n1", "n2")]
    (a,) = report_data(nodes, [])["timeline"]["per_job"]
    assert a["here_s"] == pytest.approx(0.3)
    assert a["share"] == pytest.approx(a["alone_s"] / a["here_s"])


def test_jobs_of_several_users_have_the_uid_before_their_names():
    stays = [("0.sweep.1", 0, MS), ("1000.sweep.1", 0, MS)]
    data = report_data([line("n1", [], stays)], [])["timeline"]
    assert (data["jobs"], data["keyed"]) == (["0.sweep.1", "1000.sweep.1"], True)


def test_report_of_node_without_jobs(tmp_path):
    nodes = timelines([TracedNode("n1").trace(tmp_path)])
    data = report_data(nodes, [])["timeline"]
    assert (data["jobs"], data["per_job"], data["totals"]["together"]) == ([], [], None)


def test_page_loads_nothing_and_has_its_data(tmp_path):
    nodes = timelines(node.trace(tmp_path) for node in two_nodes())
    data = report_data(nodes, [])
    page = render_page("<night> & day", data)
    assert "<h1>&lt;night&gt; &amp; day</h1>" in page
    assert data_in(page) == json.loads(json.dumps(data))
    assert "default-src 'none'" in page
    assert not re.search(r"""(src|href)\s*=\s*["'][^"']""", page.split("<script")[0])
    assert not re.search(r"<(link|img|iframe)\b|@import|url\(", page)
    assert render_page("<night> & day", data) == page


def test_names_in_data_cannot_end_script():
    page = render_page("t", {"timeline": None, "benches": [{"title": "</script><b>"}]})
    assert "</script><b>" not in page
    assert data_in(page)["benches"][0]["title"] == "</script><b>"


def test_page_of_100000_switches_is_small():
    slot = 7 * MS
    spans = [
        (f"0.{'ab'[n % 2]}", n * slot + n % 997, (n + 1) * slot) for n in range(100_000)
    ]
    end_ns = 100_000 * slot
    node = line("n1", spans, [("0.a", 0, end_ns), ("0.b", 0, end_ns)])
    data = report_data([node], [])
    assert len(data["timeline"]["nodes"][0]["lanes"][0]["begin"]) == 100_000
    assert len(render_page("t", data)) < 1_500_000


@pytest.fixture
def bench_file(tmp_path):
    """A result as cosched bench --out writes it, with a disturbed and a failed run."""
    cosched_ = (*COSCHED, failed_run(COSCHED[0].arm, 4))
    context = {
        "command_line": ["cosched", "bench", "a b.toml"],
        "started": "2026-11-27T03:00:00+00:00",
        "kernel": "6.1.0",
        "mpi": {"family": "MPICH", "version": "5.0.2"},
        "cosched": "0.1.0",
        "hosts": ["n1", "n2"],
        "settings": {"slice": "0.5s", "gmet": "auto"},
    }
    made = document(WORKLOAD, summaries(KERNEL, cosched_), context)
    path = tmp_path / "result.json"
    path.write_text(json.dumps(made, indent=1))
    return path


def cosched(*words):
    return run_command("report", *words)


def test_command_sorts_its_inputs(tmp_path, bench_file):
    for node in two_nodes():
        (tmp_path / "run" / node.name).mkdir(parents=True)
        path = node.write(tmp_path)
        path.rename(tmp_path / "run" / node.name / "trace.jsonl")
    out, flat = tmp_path / "r.html", tmp_path / "p.json"
    run = cosched("--out", out, "--perfetto", flat, tmp_path / "run", bench_file)
    assert (run.returncode, run.stderr) == (0, "")
    data = data_in(out.read_text())
    assert [node["name"] for node in data["timeline"]["nodes"]] == ["n1", "n2"]
    (bench,) = data["benches"]
    kernel, ours = bench["arms"]
    assert (kernel["name"], ours["name"]) == ("kernel", "cosched")
    assert [counted for _, _, counted in kernel["runs"]] == [True, True, False]
    assert len(ours["runs"]) == 3
    assert [name for name, _ in ours["jobs"]] == ["wavefront.1", "wavefront.2"]
    assert bench["ratios"]["cosched/kernel"]["makespan"] == pytest.approx(3.4 / 4.3)
    assert bench["facts"] == [
        ["date", "2026-11-27T03:00:00+00:00"],
        ["command", "cosched bench 'a b.toml'"],
        ["MPI", "family MPICH, version 5.0.2"],
        ["kernel", "6.1.0"],
        ["cosched", "0.1.0"],
        ["nodes", "n1, n2"],
        ["settings", "slice 0.5s, gmet auto"],
    ]
    assert bench["void"] == []
    assert json.loads(flat.read_text())["traceEvents"]


def test_report_shows_that_a_bench_is_void(tmp_path, bench_file):
    made = json.loads(bench_file.read_text())
    for run in made["arms"]["cosched"]["repeats"]:
        run["discarded"] = True
    bench_file.write_text(json.dumps(made))
    out = tmp_path / "r.html"
    assert cosched("-o", out, bench_file).returncode == 0
    (bench,) = data_in(out.read_text())["benches"]
    assert bench["void"] == ["cosched"]
    assert not any(good for _, _, good in bench["arms"][1]["runs"])
    assert any(good for _, _, good in bench["arms"][0]["runs"])


def test_report_of_bench_alone_has_no_timeline(tmp_path, bench_file):
    out = tmp_path / "r.html"
    assert cosched("-o", out, bench_file).returncode == 0
    assert data_in(out.read_text())["timeline"] is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read"),
        ("", "neither a trace nor a result"),
        ("hello", "neither a trace nor a result"),
        ('{"format": "other"}', "neither a trace nor a result"),
        ('{"cosched_trace": 99}\n', ":1: "),
    ],
)
def test_wrong_input_prints_one_line(tmp_path, content, words):
    path = tmp_path / "input"
    if content is not None:
        path.write_text(content)
    run = cosched("-o", tmp_path / "r.html", path)
    assert run.returncode == 1
    assert words in run.stderr
    assert str(path) in run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_empty_directory_prints_one_line(tmp_path):
    run = cosched(tmp_path)
    assert run.returncode == 1
    assert "no trace in it" in run.stderr


def test_perfetto_of_bench_alone_fails(tmp_path, bench_file):
    run = cosched("--perfetto", tmp_path / "p.json", bench_file)
    assert run.returncode == 1
    assert "the inputs have no trace" in run.stderr
    assert not (tmp_path / "p.json").exists()


# -- simulated queues ----------------------------------------------------------------------


@pytest.fixture
def queue_file(tmp_path):
    """A result as cosched sim queue --out writes it, of a small log and two policies."""
    log, out = tmp_path / "log.swf", tmp_path / "queue.json"
    lines = [
        f"{n} {10 * n} -1 {100 + n} {1 + n % 3} -1 -1 {1 + n % 3} 300 -1 1 1" + 6 * " -1"
        for n in range(1, 41)
    ]
    log.write_text("\n".join(["; MaxNodes: 4", *lines]) + "\n")
    words = ("--policy", "fcfs,easy", "--out", out, log)
    assert run_command("sim", "queue", *words).returncode == 0
    return out


def test_simulated_queues_are_drawn(tmp_path, queue_file):
    out = tmp_path / "r.html"
    run = cosched("--out", out, queue_file)
    assert (run.returncode, run.stderr) == (0, "")
    (section,) = data_in(out.read_text())["simulations"]
    assert (section["title"], section["about"][:18]) == ("log.swf", "40 jobs on 4 nodes")
    assert dict(section["facts"])["command"].startswith("cosched sim queue")
    first, second = section["runs"]
    assert (first["name"], second["name"]) == (
        "fcfs, run times by log",
        "easy, run times by log",
    )
    document = json.loads(queue_file.read_text())["runs"]
    for made, run in zip((first, second), document, strict=True):
        used = sum(run["course"]["used"]) / len(run["course"]["used"])
        assert used == pytest.approx(run["figures"]["utilisation"], abs=1e-3)
        assert made["waits_s"][50] == pytest.approx(run["figures"]["median_wait_s"])
        assert made["waits_s"][95] == pytest.approx(run["figures"]["p95_wait_s"])
        assert made["waits_s"][100] == pytest.approx(run["figures"]["max_wait_s"])


def test_results_without_a_course_are_refused(tmp_path, queue_file):
    document = json.loads(queue_file.read_text())
    del document["runs"][0]["course"]
    queue_file.write_text(json.dumps(document))
    run = cosched("--out", tmp_path / "r.html", queue_file)
    assert run.returncode == 1
    assert "neither a trace nor a result of cosched bench, sim queue or sim" in run.stderr
