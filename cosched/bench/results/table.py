"""The bench's result as text of at most 80 columns. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from statistics import median

from cosched.bench.measure.level import at_usual_speed, speeds
from cosched.bench.measure.load import DISCARD_ABOVE
from cosched.bench.results.results import ArmSummary, JobSummary, Ratio, Run, Spread, ratios
from cosched.bench.run.arms import Arm

WIDTH = 80
JOB_LINES_MAX = 40
SAME_WITHIN = 0.03

_LABEL = 17
_FIGURE = 9
_RANGE = 22
_JOB = 18
_CPU = 7
_ALONE = {Arm.KERNEL: "under the kernel alone", Arm.BATCH: "one after the other"}


def render(title: str, setting: str, summaries: Sequence[ArmSummary]) -> str:
    """The table of a whole bench; ends with a newline.

    ``setting`` says in one line where and with which MPI the runs were made.
    """
    ended = [summary for summary in summaries if summary.counted]
    compared = ratios(ended)
    level = ratios(at_usual_speed(ended) or ())
    blocks = (
        [_clip(title, WIDTH), _clip(setting, WIDTH)],
        _arm_block(ended),
        _job_block(ended),
        _ratio_block(compared, "ratio"),
        _ratio_block(level, "at equal speed"),
        [*_switch_lines(ended), *_load_lines(summaries), *_speed_lines(ended)],
        _failure_block(summaries),
        conclude(level or compared, any(s.all_disturbed for s in ended), bool(level)),
    )
    return "\n".join("\n".join(block) + "\n" for block in blocks if block)


def describe_run(run: Run, way: str) -> str:
    """One run of ``way`` in one short line: repeat, mean response and so on."""
    name = f"{way:<7} {run.repeat}"
    if run.failure is not None:
        return f"{name}  failed: {run.failure.line}"
    line = f"{name}  response {run.mean_response_s:.2f} s  makespan {run.makespan_s:.2f} s"
    if run.load is None:
        return line
    verdict = ": discard" if run.disturbed else ""
    return f"{line}  outside {run.load.share:.1%}{verdict}"


def conclude(compared: Iterable[Ratio], disturbed: bool, level: bool = False) -> list[str]:
    """What the figures say of cosched, in plain words. level: they are at equal speed."""
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
    first = _LABEL + _FIGURE
    lines = [
        f"{'seconds':<{first - 13}}mean response{'makespan':>{_RANGE + _FIGURE}}",
    ]
    for summary in ended:
        figures = (summary.mean_response_s, summary.makespan_s)
        line = f"{summary.arm.value:<{_LABEL}}" + "".join(map(_figure_and_range, figures))
        lines.append(line.rstrip())
    counts = sorted({len(summary.counted) for summary in ended})
    runs = " or ".join(map(str, counts))
    if counts == [1]:
        lines.append("one run an arm")
    else:
        lines.append(f"medians of {runs} runs an arm (least - greatest)")
    return lines


def _figure_and_range(spread: Spread | None) -> str:
    if spread is None:
        return " " * (_FIGURE + _RANGE)
    around = f"({_figure(spread.low)} - {_figure(spread.high)})"
    if spread.low == spread.high:
        around = ""
    return f"{_figure(spread.median):>{_FIGURE}}  {around:<{_RANGE - 2}}"


def _job_block(ended: Sequence[ArmSummary]) -> list[str]:
    if not ended:
        return []
    label = max(_LABEL, min(22, 2 + max(len(job.name) for job in ended[0].jobs)))
    if label + len(ended) * _JOB <= WIDTH:
        lines = [
            "job".ljust(label) + "".join(f"{s.arm.value:>{_JOB}}" for s in ended),
            " " * label + f"{'response':>{_JOB - _CPU}}{'CPU':>{_CPU}}" * len(ended),
        ]
        return lines + _job_rows(ended, label, _response_and_cpu)
    # Too many arms for CPU times, and maybe for one block.
    width = max(_FIGURE, 2 + max(len(summary.arm.value) for summary in ended))
    a_block = (WIDTH - _LABEL) // width
    lines = []
    for first in range(0, len(ended), a_block):
        block = ended[first : first + a_block]
        lines.append(
            "response".ljust(_LABEL) + "".join(f"{s.arm.value:>{width}}" for s in block)
        )
        lines += _job_rows(block, _LABEL, lambda job: f"{_response(job):>{width}}")
    return lines


def _job_rows(
    ended: Sequence[ArmSummary], label: int, cell: Callable[[JobSummary], str]
) -> list[str]:
    """A line a job, as many as one wants to read."""
    rows = list(zip(*(summary.jobs for summary in ended), strict=True))
    lines = [
        _clip(row[0].name, label - 1).ljust(label) + "".join(map(cell, row))
        for row in rows[:JOB_LINES_MAX]
    ]
    if len(rows) > JOB_LINES_MAX:
        lines.append(f"... and {len(rows) - JOB_LINES_MAX} more; --json has them all")
    return lines


def _response_and_cpu(job: JobSummary) -> str:
    response = _figure(job.response_s.median)
    return f"{response:>{_JOB - _CPU}}{_figure(job.cpu_s.median):>{_CPU}}"


def _response(job: JobSummary) -> str:
    return f"{_figure(job.response_s.median):>{_FIGURE}}"


def _ratio_block(compared: Sequence[Ratio], head: str) -> list[str]:
    if not compared:
        return []
    names = [f"{ratio.arm.value}/{ratio.other.value}" for ratio in compared]
    label = max(_LABEL, 1 + max(map(len, names)))
    return [
        f"{head:<{label}}{'mean response':>{_FIGURE + 6}}{'makespan':>{_FIGURE + 6}}",
        *(
            f"{name:<{label}}"
            f"{ratio.mean_response:>{_FIGURE + 6}.2f}{ratio.makespan:>{_FIGURE + 6}.2f}"
            for name, ratio in zip(names, compared, strict=True)
        ),
    ]


def _speed_lines(ended: Sequence[ArmSummary]) -> list[str]:
    found = speeds(run for summary in ended for run in summary.counted)
    if found is None:
        return []
    least, most = found
    return [f"the machine ran at {least:.2f} to {most:.2f} of its usual speed"]


def _switch_lines(ended: Sequence[ArmSummary]) -> list[str]:
    """How often the coscheduled runs switched, if that is known."""
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
            said = f"failed: {where}: {run.failure.line}"
            lines += textwrap.wrap(said, WIDTH, subsequent_indent="  ")
            lines += [_clip(f"  | {line}", WIDTH) for line in run.failure.output]
    return lines


def _figure(seconds: float) -> str:
    return f"{seconds:.2f}" if seconds < 100 else f"{seconds:.1f}"


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
