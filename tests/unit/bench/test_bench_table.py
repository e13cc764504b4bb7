"""The output of a bench: its tables, conclusion and JSON document."""

import json
from dataclasses import replace
from pathlib import PurePath

import pytest

from cosched.bench.results.document import document
from cosched.bench.results.results import Run
from cosched.bench.results.results_table import conclude, describe_run, render
from cosched.bench.results.summary import Ratio
from cosched.bench.run.arms import Arm
from cosched.bench.run.session import NOTHING_REGISTERED
from cosched.bench.workload.file import parse_workload
from tests.unit.bench.bench_samples import (
    BATCH,
    COSCHED,
    KERNEL,
    failed_run,
    run,
    summaries,
)

SETTING = "MPICH 5.0.2, 2 nodes of the lab, slice 1s, gmet 100ms, align on"

GOLDEN = """\
twins: two pipelines at once
MPICH 5.0.2, 2 nodes of the lab, slice 1s, gmet 100ms, align on

seconds  mean response                 makespan
batch             2.40  (2.35 - 2.50)      3.20  (3.10 - 3.30)
kernel            4.22  (4.10 - 4.35)      4.30  (4.20 - 4.40)
cosched           3.15  (3.15 - 3.30)      3.40  (3.30 - 3.50)
medians of 2 or 3 runs an arm (least - greatest)

bounded slowdown  mean                 worst job
batch             1.00  (1.00 - 1.05)       1.00  (1.00 - 1.06)
kernel            1.97  (1.91 - 2.03)       2.59  (2.50 - 2.69)
cosched           1.45  (1.44 - 1.52)       1.88  (1.81 - 1.94)
response divided by the time alone (in batch, at least 1 s)

                batch          kernel         cosched
job          response   CPU  response   CPU  response   CPU
wavefront.1      1.60  3.10      4.15  3.10      3.00  3.10
wavefront.2      3.20  3.20      4.30  3.20      3.40  3.20

ratio           mean response  makespan  mean slowdown  worst slowdown
cosched/kernel           0.75      0.79           0.74            0.72
cosched/batch            1.31      1.06           1.45            1.88
kernel/batch             1.76      1.34           1.97            2.59

switches in a coscheduled run: 6 by the timer, 4 by messages
outside load: at most 31.0% of the nodes' CPUs in a run
kernel, repeat 3: discarded, outside load 31.0% is over 5%

Coscheduled, a job answered on average 25% sooner than under the kernel alone
and 31% later than one after the other.
"""


def test_render_shows_the_whole_bench():
    text = render(
        "twins: two pipelines at once", SETTING, summaries(BATCH, KERNEL, COSCHED)
    )
    assert text == GOLDEN


def probed(runs, *probes_us):
    return [replace(run, probe_us=us) for run, us in zip(runs, probes_us, strict=True)]


def test_uneven_speed_adds_ratios_at_equal_speed():
    kernel = probed(KERNEL[:2], 450.0, 450.0)
    arms = summaries(
        probed(BATCH, 300.0, 300.0, 300.0), kernel, probed(COSCHED, 300.0, 310.0, 300.0)
    )
    text = render("t", "s", arms)
    assert max(map(len, text.splitlines())) <= 80
    assert text[text.index("\nratio") + 1 :].splitlines()[:9] == [
        "ratio           mean response  makespan  mean slowdown  worst slowdown",
        "cosched/kernel           0.75      0.79           0.74            0.72",
        "cosched/batch            1.31      1.06           1.45            1.88",
        "kernel/batch             1.76      1.34           1.97            2.59",
        "",
        "at equal speed  mean response  makespan  mean slowdown  worst slowdown",
        "cosched/kernel           1.12      1.19           1.05            1.05",
        "cosched/batch            1.31      1.06           1.44            1.81",
        "kernel/batch             1.17      0.90           1.36            1.73",
    ]
    assert "the machine ran at 0.67 to 1.00 of its usual speed\n" in text
    said = " ".join(text[text.index("Coscheduled") :].split())
    assert said.startswith(
        "Coscheduled, a job answered on average, at equal speed of the machine, 12% later "
        "than under the kernel alone"
    )
    made = json.loads(json.dumps(document(ONE_JOB, arms, {})))
    assert made["level_ratios"]["kernel/batch"]["makespan"] == pytest.approx(
        0.896, abs=1e-3
    )
    assert made["ratios"]["kernel/batch"]["makespan"] == pytest.approx(1.344, abs=1e-3)
    assert made["arms"]["kernel"]["repeats"][0]["probe_us"] == 450.0


ONE_JOB = parse_workload(
    '[[job]]\nname = "a"\ncommand = "true"\nranks = 1\n', "t.toml", PurePath("/w")
)


def test_slowdowns_need_batch():
    arms = summaries(KERNEL, COSCHED)
    text = render("t", "s", arms)
    assert "slowdown" not in text
    made = document(ONE_JOB, arms, {})
    assert made["slowdown"] is None
    assert made["arms"]["kernel"]["mean_slowdown"] is None
    assert made["ratios"]["cosched/kernel"]["worst_slowdown"] is None


def test_document_names_bound_and_lengths_of_slowdowns():
    made = document(ONE_JOB, summaries(BATCH, [*KERNEL[:1], failed_run(Arm.KERNEL, 2)]), {})
    lengths = {"wavefront.1": 1.6, "wavefront.2": 3.2}
    assert made["slowdown"] == {"bound_s": 1.0, "lengths_s": lengths}
    kernel = made["arms"]["kernel"]
    assert kernel["worst_slowdown"] == pytest.approx(4.0 / 1.6)
    assert kernel["mean_slowdown"] == pytest.approx((4.0 / 1.6 + 4.2 / 3.2) / 2)
    assert kernel["repeats"][0]["mean_slowdown"] == kernel["mean_slowdown"]
    assert kernel["repeats"][1]["mean_slowdown"] is None


def test_even_or_unknown_speed_adds_no_ratios():
    even = summaries(probed(BATCH, 300.0, 301.0, 302.0), probed(KERNEL[:2], 300.0, 305.0))
    unknown = summaries(BATCH, probed(KERNEL[:2], 300.0, 450.0))
    for arms in (even, unknown):
        text = render("t", "s", arms)
        assert "speed" not in text
        assert document(ONE_JOB, arms, {})["level_ratios"] is None


def test_failures_and_disturbed_arms_are_shown():
    disturbed = [run(Arm.KERNEL, 1, (4.0, 4.2), share=0.2)]
    text = render("t", "s", summaries(disturbed, [failed_run(Arm.COSCHED, 1)]))
    assert text.splitlines()[-6:] == [
        "outside load: at most 20.0% of the nodes' CPUs in a run",
        "kernel: every run was disturbed (outside load over 5%); measure again",
        "",
        "failed: cosched, repeat 1: job 'wavefront.1' ended with status 3",
        "  | reading input",
        "  | cannot open 'mesh.dat'",
    ]


def test_failures_alone_are_shown():
    text = render("t", "s", summaries([failed_run(Arm.BATCH, 1)]))
    assert text.startswith("t\ns\n\nfailed: batch, repeat 1: ")


def test_long_failures_and_notes_are_wrapped():
    failed = Run(Arm.COSCHED, 1, (), failure=NOTHING_REGISTERED)
    nodes = ", ".join(f"node-{n}.cluster.example.org" for n in range(4))
    note = f"nodes that went by earlier jobs, too: {nodes}"
    text = render("t", "s", summaries([failed]), [note])
    assert max(map(len, text.splitlines())) <= 80
    for line in (NOTHING_REGISTERED.line, note):
        assert " ".join(line.split()) in " ".join(text.split())


@pytest.mark.parametrize("seconds", [0.001, 99.994, 12345.6])
def test_no_line_is_wider_than_80_columns(seconds):
    groups = [[run(arm, n, (seconds * n,) * 50) for n in (1, 2)] for arm in Arm]
    text = render("x" * 200, "y" * 200, summaries(*groups))
    assert max(map(len, text.splitlines())) <= 80
    assert "... and 10 more; --json has them all" in text


@pytest.mark.parametrize(
    ("ratio", "overlap", "words"),
    [
        (0.5, False, "50% sooner than under the kernel alone"),
        (1.4, False, "40% later than under the kernel alone"),
        (1.4, True, "40% later than under the kernel alone (but single runs overlap)"),
        (1.02, True, "as soon as under the kernel alone (within 3%)"),
    ],
)
def test_conclusion_compares_with_the_kernel(ratio, overlap, words):
    lines = conclude([Ratio(Arm.COSCHED, Arm.KERNEL, ratio, 1.0, overlap)], False)
    assert " ".join(lines) == f"Coscheduled, a job answered on average {words}."


def test_no_conclusion_without_cosched():
    assert conclude([Ratio(Arm.KERNEL, Arm.BATCH, 2.0, 2.0, False)], False) == []


def test_no_conclusion_from_disturbed_runs():
    disturbed = [run(Arm.KERNEL, 1, (4.0, 4.2), share=0.2)]
    text = render("t", "s", summaries(disturbed, COSCHED))
    assert text.endswith(
        "\nNo conclusion: other programs kept the nodes' CPUs busy. Measure again on a\n"
        "quiet machine.\n"
    )


def test_describe_run_is_one_line():
    assert describe_run(KERNEL[2], "kernel") == (
        "kernel, repeat 3   response 9.45 s  makespan 9.90 s  outside 31.0%: disturbed"
    )
    assert describe_run(failed_run(Arm.BATCH, 2), "batch") == (
        "batch, repeat 2    failed: job 'wavefront.1' ended with status 3"
    )


# --- JSON ---


def test_document_holds_every_run():
    workload = parse_workload(
        '[[job]]\nname = "wavefront"\ncommand = "true"\nranks = 2\ncount = 2',
        "twins.toml",
        None,
    )
    runs = (*KERNEL, *COSCHED[:1], failed_run(Arm.COSCHED, 2))
    groups = [[r for r in runs if r.arm is arm] for arm in (Arm.KERNEL, Arm.COSCHED)]
    found = json.loads(
        json.dumps(document(workload, summaries(*groups), {"kernel": "6.1"}))
    )
    assert found["format"] == "cosched-bench-1"
    assert found["kernel"] == "6.1"
    assert found["workload"]["jobs"][0]["command"] == ["true"]
    kernel = found["arms"]["kernel"]
    assert kernel["mean_response_s"] == pytest.approx(4.225)
    assert kernel["makespan_s"] == pytest.approx(4.3)
    assert kernel["spread"]["makespan_s"] == [4.2, 4.4]
    assert [job["response_s"] for job in kernel["jobs"]] == pytest.approx([4.15, 4.3])
    assert [r["discarded"] for r in kernel["repeats"]] == [False, False, True]
    assert [r["counted"] for r in kernel["repeats"]] == [True, True, False]
    assert kernel["repeats"][2]["outside_load"]["share"] == pytest.approx(0.31)
    assert kernel["repeats"][0]["jobs"][1]["cpu_s"] == pytest.approx(3.2)
    cosched = found["arms"]["cosched"]
    assert cosched["repeats"][1]["failure"]["output"][1] == "cannot open 'mesh.dat'"
    assert cosched["repeats"][1]["mean_response_s"] is None
    assert cosched["repeats"][0]["activity"] == {
        "tasks": 4,
        "timer_switches": 6,
        "message_switches": 2,
    }
    assert found["ratios"]["cosched/kernel"]["makespan"] == pytest.approx(3.4 / 4.3)


def test_failed_arm_has_nulls():
    workload = parse_workload(
        '[[job]]\nname = "a"\nsource = "a.c"\nranks = 1', "a.toml", PurePath("/w")
    )
    found = document(workload, summaries([failed_run(Arm.BATCH, 1)]), {})
    assert found["arms"]["batch"]["mean_response_s"] is None
    assert found["arms"]["batch"]["jobs"] == []
    assert found["workload"]["jobs"][0]["source"] == "/w/a.c"
    assert found["ratios"] == {}
