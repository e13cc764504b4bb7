"""Runs a whole bench: from the workload file to the tables and the JSON document."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TextIO

from cosched.bench.results.document import document
from cosched.bench.results.results import Run
from cosched.bench.results.results_table import known_lengths, render
from cosched.bench.results.run_store import open_run_store
from cosched.bench.results.summary import ArmSummary, summarise_arms
from cosched.bench.run.arms import Arm, Setup
from cosched.bench.run.budget import Budget
from cosched.bench.run.progress import open_progress
from cosched.bench.run.repeats import Point, run_all, to_run
from cosched.bench.run.testbed import Testbed, TestbedOptions, open_testbed
from cosched.bench.simulate.bound import bound_runs
from cosched.bench.simulate.ideal import calculated_runs
from cosched.bench.workload.file import Workload, load_workload


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """The user's choices."""

    workload: Path  #: the workload file
    arms: tuple[Arm, ...]  #: in the order of the table
    repeats: int  #: runs of each arm
    testbed: TestbedOptions  #: the nodes and the MPI
    dom: int | None = None  #: the number of jobs that run at a time; None: all
    warm_up: bool = True  #: whether the first job runs alone before all else
    resume: Path | None = None  #: the file of finished runs; None: none is kept
    #: How often each program runs alone before the measured runs, so that its length is
    #: known.
    seen: int = 0
    #: How long all runs may take; then runs fail or are left out. Each of the two runs of
    #: the warm-up may take half of it.
    within_s: float = math.inf
    command_line: tuple[str, ...] = ()  #: the call of the bench, for the document


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a bench."""

    text: str  #: the tables, for the terminal
    document: dict[str, Any]  #: the results as JSON
    failed: bool  #: whether any run failed


def run_bench(options: BenchOptions, environ: Mapping[str, str], log: TextIO) -> Outcome:
    """Runs the bench and writes its progress to ``log``."""
    workload = load_workload(options.workload)
    started = datetime.now(timezone.utc)
    with open_testbed([workload], options.testbed, environ) as testbed:
        summaries = _measure(options, testbed, workload, log)
        context = {
            "command_line": list(options.command_line),
            "started": started.isoformat(timespec="seconds"),
            "dom": options.dom,
            "seen": options.seen,
            "remembering": list(testbed.remembering),
            **testbed.context(),
        }
        setting, notes = testbed.setting(), _notes(options, testbed)
    return Outcome(
        text=render(_title(workload), setting, summaries, notes),
        document=document(workload, summaries, context),
        failed=any(summary.failed for summary in summaries),
    )


def _measure(
    options: BenchOptions, testbed: Testbed, workload: Workload, log: TextIO
) -> list[ArmSummary]:
    session = testbed.sessions[workload.title]
    arms = [arm for arm in options.arms if not arm.calculated or arm.runs_alone]
    points = [Point(session, Setup(arm, dom=options.dom), arm.value) for arm in arms]
    made_with = {**testbed.made_with(), "seen": options.seen or None}
    with open_run_store(options.resume, made_with) as store:
        left = to_run(points, options.repeats, store)
        with open_progress(log, left) as progress:
            done = len(points) * options.repeats - len(left)
            if done:
                progress.note(f"runs done already: {done}")
            if options.warm_up and left:
                session.limited_to(options.within_s / 2).warm_up(arms, progress)
            if options.seen and left and any(arm.coscheduled for arm in arms):
                session.see(options.seen, progress)
            budget = Budget(options.within_s, time.monotonic)
            found = run_all(points, options.repeats, store, progress, budget)
    runs = {point.setup.arm: found[point.key] for point in points}
    return summarise_arms({arm: _runs_of(arm, workload, runs) for arm in options.arms})


def _runs_of(
    arm: Arm, workload: Workload, measured: Mapping[Arm, Sequence[Run]]
) -> Sequence[Run]:
    if arm is Arm.BOUND:
        return bound_runs(workload, measured[arm], measured[Arm.BATCH])
    if arm.calculated:
        return calculated_runs(arm, measured[Arm.BATCH])
    return measured[arm]


def _notes(options: BenchOptions, testbed: Testbed) -> list[str]:
    """Returns lines about what was known before the coscheduled runs."""
    if not any(arm.coscheduled for arm in options.arms):
        return []
    notes = known_lengths(options.seen)
    if testbed.remembering:
        hosts = ", ".join(testbed.remembering)
        notes.append(f"nodes that went by earlier jobs, too: {hosts}")
    return notes


def _title(workload: Workload) -> str:
    if not workload.description:
        return workload.title
    return f"{workload.title}: {workload.description}"
