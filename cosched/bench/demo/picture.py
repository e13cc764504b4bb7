"""Draws the result of ``cosched demo`` in 80 columns. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from cosched.bench.results.results_table import SAME_WITHIN
from cosched.bench.run.arms import Arm
from cosched.bench.run.processes import LATE
from cosched.core.counting import counted
from cosched.launch.family import Family
from cosched.tables import WIDTH

#: The ways in their order, and their names for users.
NAMES = {
    Arm.BATCH: "one after the other",
    Arm.KERNEL: "at once, kernel alone",
    Arm.COSCHED: "at once, with cosched",
}
_FIGURES = {
    "mean_response_s": "mean time from the start of a job to its end",
    "makespan_s": "until all jobs have ended",
}
_QUIET = "Try it again on a quiet machine."
_BAR = "\N{FULL BLOCK}"
_NAME_WIDTH = max(map(len, NAMES.values()))
_SECONDS_WIDTH = 9
_BAR_WIDTH = WIDTH - _NAME_WIDTH - _SECONDS_WIDTH - 4


def picture(document: Mapping[str, Any]) -> list[str]:
    """Returns the lines of the picture. document: the result of the bench."""
    arms = {arm: document["arms"][arm.value] for arm in NAMES}
    lines = [*_head(document)]
    for figure, title in _FIGURES.items():
        values = {arm: found[figure] for arm, found in arms.items()}
        lines += ["", title, *_bars(values)]
    return [*lines, "", *verdict(arms)]


def verdict(arms: Mapping[Arm, Mapping[str, Any]]) -> list[str]:
    """Returns what the figures show, also if that is no gain."""
    kernel, cosched = (arms[arm]["mean_response_s"] for arm in (Arm.KERNEL, Arm.COSCHED))
    if kernel is None or cosched is None:
        return textwrap.wrap(_failed(arms), WIDTH)
    if any(_is_disturbed(arms[arm]) for arm in (Arm.KERNEL, Arm.COSCHED)):
        words = f"No conclusion: other programs kept the CPUs busy. {_QUIET}"
        return textwrap.wrap(words, WIDTH)
    if abs(cosched / kernel - 1) < SAME_WITHIN:
        words = f"No gain here: both ways are equal (within {SAME_WITHIN:.0%})."
    elif cosched > kernel:
        words = (
            f"No gain here: with cosched a job took {cosched / kernel:.2f} times as long "
            "as under the kernel alone."
        )
    else:
        words = (
            f"With cosched a job took {cosched / kernel:.2f} of its time under the kernel "
            f"alone: {kernel / cosched:.1f} times as fast."
        )
    if _overlap(arms):
        words += " But single runs overlap: repeat it with --repeat 5."
    return textwrap.wrap(words, WIDTH)


def _failed(arms: Mapping[Arm, Mapping[str, Any]]) -> str:
    """Returns why there is no conclusion: the ways to run the jobs that failed."""
    lines = [
        (NAMES[arm], run["failure"]["line"])
        for arm, found in arms.items()
        for run in found["repeats"]
        if run["failure"] is not None
    ]
    reasons = "".join(f" '{name}' failed: {line}." for name, line in lines)
    late = any(line.startswith(LATE) for _, line in lines)
    return f"No conclusion.{reasons}{' ' + _QUIET if late else ''}"


def _head(document: Mapping[str, Any]) -> list[str]:
    (job,) = document["workload"]["jobs"]
    mpi, runs = document["mpi"], len(document["arms"][Arm.COSCHED.value]["repeats"])
    family = Family(mpi["family"]).title
    text = (
        f"{job['count']} jobs of {job['ranks']} ranks on {job['ranks']} CPUs of this "
        f"machine, {family} {mpi['version']}, median of {counted(runs, 'run')}"
    )
    return textwrap.wrap(text, WIDTH)


def _bars(values: Mapping[Arm, float | None]) -> Sequence[str]:
    most = max((value for value in values.values() if value is not None), default=1.0)
    return [_bar(NAMES[arm], value, most) for arm, value in values.items()]


def _bar(name: str, value: float | None, most: float) -> str:
    if value is None:
        return f"  {name:<{_NAME_WIDTH}}  failed"
    bar = _BAR * max(1, round(_BAR_WIDTH * value / most))
    return f"  {name:<{_NAME_WIDTH}}  {bar} {value:.2f} s"


def _is_disturbed(arm: Mapping[str, Any]) -> bool:
    counted = [run for run in arm["repeats"] if run["counted"]]
    return bool(counted) and all(run["discarded"] for run in counted)


def _overlap(arms: Mapping[Arm, Mapping[str, Any]]) -> bool:
    spreads = [arms[arm]["spread"]["mean_response_s"] for arm in (Arm.KERNEL, Arm.COSCHED)]
    (low, high), (other_low, other_high) = spreads
    several = len(arms[Arm.COSCHED]["repeats"]) > 1
    return bool(several and low <= other_high and other_low <= high)
