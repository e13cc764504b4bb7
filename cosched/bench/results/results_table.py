"""Writes the result of a bench as text of at most 80 columns. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from cosched.bench.measure.equal_speed import at_usual_speed, speeds
from cosched.bench.measure.load import DISCARD_ABOVE
from cosched.bench.results.results import Run
from cosched.bench.results.slowdown import BOUND_S
from cosched.bench.results.summary import ArmSummary, Ratio, Spread, ratios
from cosched.bench.run.arms import Arm
from cosched.core.counting import counted
from cosched.tables import WIDTH, table, wrapped

JOB_LINES_MAX = 40
SAME_WITHIN = 0.03
#: With more arms the table leaves out the jobs' CPU times.
ARMS_WITH_CPU_MAX = 3
ARMS_ABREAST = 4

_ALONE = {Arm.KERNEL: "under the kernel alone", Arm.BATCH: "one after the other"}


def render(
    title: str, setting: str, summaries: Sequence[ArmSummary], notes: Sequence[str] = ()
) -> str:
    """Returns the tables of a whole bench, which end with a newline.

    ``setting``: the nodes, the MPI and the settings. ``notes``: lines about
    the runs.
    """
    ended = [summary for summary in summaries if summary.counted]
    compared = ratios(ended)
    level = ratios(at_usual_speed(ended) or ())
    blocks = (
        [*wrapped(title), *textwrap.wrap(setting, WIDTH)],
        _arm_block(ended),
        _slowdown_block(ended),
        _job_block(ended),
        _ratio_block(compared, "ratio"),
        _ratio_block(level, "at equal speed"),
        [
            *(line for note in notes for line in wrapped(note)),
            *_switch_lines(ended),
            *_load_lines(summaries),
            *_speed_lines(ended),
        ],
        _failure_block(summaries),
        conclude(level or compared, any(s.all_disturbed for s in ended), bool(level)),
    )
    return "\n".join("\n".join(block) + "\n" for block in blocks if block)


def describe_run(run: Run, way: str) -> str:
    """Describes one run of ``way`` in one line."""
    name = f"{way}, repeat {run.repeat}".ljust(17)
    if run.failure is not None:
        return f"{name}  failed: {run.failure.line}"
    if run.arm.runs_alone:
        return f"{name}  each program alone {run.makespan_s:.2f} s"
    line = f"{name}  response {run.mean_response_s:.2f} s  makespan {run.makespan_s:.2f} s"
    if run.load is None:
        return line
    verdict = ": disturbed" if run.disturbed else ""
    return f"{line}  outside {run.load.share:.1%}{verdict}"


def known_lengths(times: int) -> list[str]:
    """Returns a line about programs that ran alone before the measured runs, if any did."""
    line = f"lengths were known from {counted(times, 'run')} of each program alone"
    return [line] if times else []


def conclude(compared: Iterable[Ratio], disturbed: bool, level: bool = False) -> list[str]:
    """Compares cosched with the other arms in words. level: at equal speed."""
    findings = [
        _finding(ratio)
        for ratio in compared
        if ratio.arm is Arm.COSCHED and ratio.other in _ALONE
    ]
    if not findings:
        return []
    speed = ", at equal speed of the machine," if level else ""
    words = f"Coscheduled, a job answered on average{speed} {' and '.join(findings)}."
    if disturbed:
        words = (
            "No conclusion: other programs kept the nodes' CPUs busy. "
            "Measure again on a quiet machine."
        )
    return textwrap.wrap(words, WIDTH)


def _finding(ratio: Ratio) -> str:
    other = _ALONE[ratio.other]
    if abs(ratio.mean_response - 1.0) < SAME_WITHIN:
        return f"as soon as {other} (within {SAME_WITHIN:.0%})"
    percent = f"{abs(ratio.mean_response - 1.0):.0%}"
    direction = "sooner" if ratio.mean_response < 1.0 else "later"
    doubt = " (but single runs overlap)" if ratio.responses_overlap else ""
    return f"{percent} {direction} than {other}{doubt}"


def _arm_block(ended: Sequence[ArmSummary]) -> list[str]:
    if not ended:
        return []
    counts = sorted({len(summary.counted) for summary in ended})
    runs = " or ".join(map(str, counts))
    note = f"medians of {runs} runs an arm (least - greatest)"
    spreads = {s.arm: (s.mean_response_s, s.makespan_s) for s in ended}
    return [
        *_spread_table(("seconds", "mean response", "makespan"), spreads),
        "one run an arm" if counts == [1] else note,
        *_calculated_lines(ended),
    ]


def _spread_table(
    head: tuple[str, str, str], spreads: Mapping[Arm, tuple[Spread | None, Spread | None]]
) -> list[str]:
    """Returns a row an arm: the medians of two figures, each with its range."""
    rows = [
        (arm.value, *_median_and_range(one), *_median_and_range(other))
        for arm, (one, other) in spreads.items()
    ]
    return table((head[0], head[1], "", head[2], ""), rows, "<><><")


def _calculated_lines(ended: Sequence[ArmSummary]) -> list[str]:
    arms = [summary.arm for summary in ended if summary.arm.calculated]
    names = ", ".join(arm.value for arm in arms if not arm.runs_alone)
    lines = []
    if names:
        lines.append(f"{names}: calculated from the lengths in batch, one job at a time")
    if Arm.BOUND in arms:
        lines.append("bound: the work that no schedule can avoid, by each program alone")
    return lines


def _slowdown_block(ended: Sequence[ArmSummary]) -> list[str]:
    spreads = {s.arm: (s.mean_slowdown, s.worst_slowdown) for s in ended if s.mean_slowdown}
    if not spreads:
        return []
    return [
        *_spread_table(("bounded slowdown", "mean", "worst job"), spreads),
        f"response divided by the time alone (in batch, at least {BOUND_S:g} s)",
    ]


def _median_and_range(spread: Spread | None) -> tuple[str, str]:
    if spread is None:
        return "", ""
    around = f"({_figure(spread.low)} - {_figure(spread.high)})"
    return _figure(spread.median), "" if spread.low == spread.high else around


def _job_block(ended: Sequence[ArmSummary]) -> list[str]:
    """Returns a row for each job, as many as a reader can use."""
    lines = []
    with_cpu = len(ended) <= ARMS_WITH_CPU_MAX
    for first in range(0, len(ended), ARMS_ABREAST):
        shown = ended[first : first + ARMS_ABREAST]
        jobs = list(zip(*(summary.jobs for summary in shown), strict=True))[:JOB_LINES_MAX]
        if with_cpu:
            head = [word for s in shown for word in (f"{s.arm.value}\nresponse", "CPU")]
            rows = [
                [
                    _figure(spread.median)
                    for job in row
                    for spread in (job.response_s, job.cpu_s)
                ]
                for row in jobs
            ]
        else:
            head = [summary.arm.value for summary in shown]
            rows = [[_figure(job.response_s.median) for job in row] for row in jobs]
        names = [row[0].name for row in jobs]
        lines += table(
            ("job" if with_cpu else "response", *head),
            [(name, *row) for name, row in zip(names, rows, strict=True)],
            "<" + ">" * len(head),
        )
        left = len(shown[0].jobs) - len(jobs)
        if left:
            lines.append(f"... and {left} more; --json has them all")
    return lines


def _ratio_block(compared: Sequence[Ratio], head: str) -> list[str]:
    if not compared:
        return []
    titles = ["mean response", "makespan"]
    if all(ratio.mean_slowdown is not None for ratio in compared):
        titles += ["mean slowdown", "worst slowdown"]
    rows = [
        (f"{ratio.arm.value}/{ratio.other.value}", *map(_ratio_text, _figures(ratio)))
        for ratio in compared
    ]
    width = 1 + len(titles)
    return table((head, *titles), [row[:width] for row in rows], "<>>>>"[:width])


def _figures(ratio: Ratio) -> tuple[float | None, ...]:
    """Returns the figures of a row, in the order of the columns."""
    return (
        ratio.mean_response,
        ratio.makespan,
        ratio.mean_slowdown,
        ratio.worst_slowdown,
    )


def _ratio_text(figure: float | None) -> str:
    return "" if figure is None else f"{figure:.2f}"


def _speed_lines(ended: Sequence[ArmSummary]) -> list[str]:
    found = speeds(run for summary in ended for run in summary.counted)
    if found is None:
        return []
    least, most = found
    return [f"the machine ran at {least:.2f} to {most:.2f} of its usual speed"]


def _switch_lines(ended: Sequence[ArmSummary]) -> list[str]:
    """Counts the switches of a coscheduled run, if known."""
    done = [
        run.activity
        for summary in ended
        for run in summary.counted
        if run.arm is Arm.COSCHED and run.activity is not None
    ]
    if not done:
        return []
    timer = median(activity.timer_switches for activity in done)
    message = median(activity.message_switches for activity in done)
    return [
        f"switches in a coscheduled run: {timer:g} by the timer, {message:g} by messages"
    ]


def _load_lines(summaries: Sequence[ArmSummary]) -> list[str]:
    runs = [run for summary in summaries for run in summary.runs]
    loads = [run.load.share for run in runs if run.load is not None]
    if not loads:
        return []
    lines = [f"outside load: at most {max(loads):.1%} of the nodes' CPUs in a run"]
    for summary in summaries:
        if summary.arm.calculated and not summary.arm.runs_alone:
            continue  # its runs are those of batch
        if summary.all_disturbed:
            lines.append(
                f"{summary.arm.value}: every run was disturbed (outside load over "
                f"{DISCARD_ABOVE:.0%}); measure again"
            )
            continue
        lines += [
            f"{run.arm.value}, repeat {run.repeat}: discarded, outside load "
            f"{run.load.share:.1%} is over {DISCARD_ABOVE:.0%}"
            for run in summary.discarded
            if run.load is not None
        ]
    return lines


def _failure_block(summaries: Sequence[ArmSummary]) -> list[str]:
    lines = []
    for run in (run for summary in summaries for run in summary.runs):
        if run.failure is not None:
            where = f"{run.arm.value}, repeat {run.repeat}"
            lines += wrapped(f"failed: {where}: {run.failure.line}")
            lines += table(
                (), [(f"| {line}",) for line in run.failure.output], "<", indent=2
            )
    return lines


def _figure(seconds: float) -> str:
    return f"{seconds:.2f}" if seconds < 100 else f"{seconds:.1f}"
