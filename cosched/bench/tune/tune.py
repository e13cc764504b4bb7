"""Carries out the search of ``cosched tune`` (search.py) by runs of a workload."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TextIO

import msgspec

from cosched.bench.measure.equal_speed import rescaled, speeds
from cosched.bench.results.results import Run
from cosched.bench.results.run_store import RunStore, open_run_store
from cosched.bench.run.arms import Arm, Setup
from cosched.bench.run.progress import Progress, open_progress
from cosched.bench.run.session import Session
from cosched.bench.run.testbed import Testbed, TestbedOptions, open_testbed
from cosched.bench.simulate.virtual import (
    VirtualGround,
    VirtualSession,
    calibration_of,
    virtual_testbed,
)
from cosched.bench.tune.heatmap import heat_map
from cosched.bench.tune.search import (
    Advice,
    Contestant,
    Grid,
    Setting,
    Verdict,
    advise,
    most_left,
    next_round,
)
from cosched.bench.workload.file import Workload, load_workload
from cosched.core.errors import CoschedError
from cosched.core.node.settings import GMET, SLICE, USUAL, Span
from cosched.tables import WIDTH, wrapped

FORMAT = "cosched-tune-1"
#: The values in a variant's name.
ALIGN = ("on", "off")


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """The user's choices."""

    workload: Path  #: the workload file
    testbed: TestbedOptions  #: the nodes and the MPI
    slices: tuple[Span, ...]  #: the grid's slices, in any order
    gmets: tuple[Span, ...]  #: the grid's GMETs, in any order
    modes: tuple[str, ...] = ()  #: modes to try; empty: the daemons' present mode
    aligns: tuple[str, ...] = ("on",)  #: the grid's values of align: on, off
    repeats: int = 3  #: runs of the finalists
    resume: Path | None = None  #: the file of finished runs; None: none is kept
    command_line: tuple[str, ...] = ()  #: the call of cosched tune, for the document
    simulate: bool = False  #: run in virtual time
    #: The file with the programs' behaviour; None: the one beside the workload, if any.
    calibration: Path | None = None


@dataclass(frozen=True, slots=True)
class Tuned:
    """The result of a search."""

    text: str  #: the tables, for the terminal
    document: dict[str, Any]  #: the results as JSON
    config: str | None  #: the recommendation as a file; None: no setting is recommended
    failed: bool  #: whether no setting ran without a failure


@dataclass(slots=True)
class _Search:
    """A search in progress: its runs and the responses observed in them."""

    grid: Grid
    session: Session | VirtualSession
    store: RunStore
    repeats: int
    observed: dict[Contestant, list[float]] = field(default_factory=dict)
    runs: list[tuple[Contestant, Run]] = field(default_factory=list)
    warm: bool = False

    def carry_out(self, progress: Progress) -> None:
        """Runs round after round until the rule ends the search."""
        while batch := next_round(self.grid, self.observed, self.repeats):
            # The rule runs only between rounds, so a resumed search repeats its choices.
            for place, one in enumerate(batch):
                run = self._run(one, batch[place:], progress)
                self.runs.append((one, run))
                self.observed.setdefault(one, []).append(self._response_s(run))

    def _response_s(self, run: Run) -> float:
        """Returns the run's mean response, rescaled to the machine's speed in the first
        run, because the points of a grid are measured at very different times."""
        if run.failure:
            return math.inf
        first_us = next(r.probe_us for _, r in self.runs if not r.failure)
        even = run if first_us is None else rescaled(run, first_us)
        return even.mean_response_s

    def _run(self, one: Contestant, batch: Sequence[Contestant], progress: Progress) -> Run:
        """Returns the next run of ``one``, the first of the rest of the round."""
        repeat = len(self.observed.get(one, ())) + 1
        title, setup = self.session.workload.title, setup_of(one)
        run = self.store.find(title, setup.name, repeat)
        if run is None:
            if not self.warm:
                self.session.warm_up((Arm.KERNEL, Arm.COSCHED), progress)
                self.warm = True
            left = most_left(self.grid, self.observed, self.repeats, batch)
            progress.plan_at_most([_name(each) for each in left])
            done = len(self.runs)
            place = f"run {done + 1} of at most {done + len(left)}"
            progress.begin(place, _name(one), repeat)
            run = self.session.run_once(setup, repeat, progress)
            self.store.add(title, setup.name, run)
            progress.end(run)
        return run


def tune(options: TuneOptions, environ: Mapping[str, str], log: TextIO) -> Tuned:
    """Searches the grid and writes the progress to ``log``."""
    workload = load_workload(options.workload)
    started = datetime.now(timezone.utc).isoformat(timespec="seconds")
    with _open(workload, options, environ) as testbed:
        if not testbed.nodes:
            raise CoschedError(
                "no node's daemons can be reached from here, so their settings cannot be "
                "changed: run 'cosched up' on this node, or tune on a lab (without --hosts)"
            )
        session = testbed.sessions[workload.title]
        with (
            open_run_store(options.resume, testbed.made_with()) as store,
            open_progress(log, []) as progress,
        ):
            search = _Search(_grid(options), session, store, options.repeats)
            search.carry_out(progress)
        context, setting = testbed.context(), testbed.setting()
        head = "\n".join([*wrapped(workload.title), *textwrap.wrap(setting, WIDTH)])
    advice = advise(search.grid, search.observed)
    context = {"command_line": list(options.command_line), "started": started, **context}
    return Tuned(
        text=_text(head, search, advice),
        document=_document(workload.title, search, advice, context),
        config=_config(workload.title, search, advice),
        failed=advice.verdict is Verdict.NOTHING,
    )


@contextmanager
def _open(
    workload: Workload, options: TuneOptions, environ: Mapping[str, str]
) -> Iterator[Testbed | VirtualGround]:
    if options.simulate:
        calibration = calibration_of(options.workload, options.calibration)
        given = options.testbed
        nodes = len(given.hosts) or given.nodes or calibration.nodes
        yield virtual_testbed(workload, calibration, nodes)
        return
    with open_testbed([workload], options.testbed, environ) as testbed:
        yield testbed


def _grid(options: TuneOptions) -> Grid:
    """Returns the grid. Its default is cosched's default settings in the daemons' mode,
    which need not be a point of the grid."""
    modes = options.modes or ("",)
    variants = tuple(
        " ".join(filter(None, (mode, "" if align == "on" else f"align={align}")))
        for mode in modes
        for align in options.aligns
    )
    grid = Grid(
        variants=variants,
        slices=tuple(sorted(options.slices)),
        gmets=tuple(sorted(options.gmets)),
        default=Setting("", USUAL.slice, USUAL.gmet),
    )
    if not grid.points():
        raise CoschedError("every GMET reaches the longest slice; give shorter ones")
    return grid


def setup_of(one: Contestant) -> Setup:
    """Returns the setup that a contestant runs with."""
    if not isinstance(one, Setting):
        return Setup(Arm.KERNEL)
    mode, _, align = one.variant.rpartition("align=")
    mode = (mode if align in ALIGN else one.variant).strip()
    return Setup(
        Arm(mode) if mode else Arm.COSCHED,
        {
            "slice": SLICE.write(one.slice),
            "gmet": GMET.write(one.gmet),
            "align": align if align in ALIGN else "on",
        },
    )


def _name(one: Contestant) -> str:
    """Returns the name in the progress and in the result."""
    if not isinstance(one, Setting):
        return one
    words = f"slice {SLICE.write(one.slice)}, gmet {GMET.write(one.gmet)}"
    return f"{words}, {one.variant}" if one.variant else words


# --- the result ---


def _text(head: str, search: _Search, advice: Advice) -> str:
    lines = [*head.splitlines(), ""]
    lines += heat_map(search.grid, search.observed, advice)
    lines += ["", *_loads(search), *_speeds(search), *_failures(search)]
    for sentence in _sentences(search, advice):
        lines += textwrap.wrap(sentence, WIDTH)
    return "\n".join(lines) + "\n"


def _sentences(search: _Search, advice: Advice) -> list[str]:
    if advice.best is None:
        return ["No setting ran to its end; see the failures above."]
    best = _name(advice.best)
    untried = sum(point not in search.observed for point in search.grid.points())
    said = [f"{len(search.runs)} runs; {untried} points of the grid were not tried."]
    loads = [run.load for _, run in search.runs if run.load is not None]
    if loads and all(load.disturbed for load in loads):
        said.append("Other programs were at work in every run: what follows is a guess.")
    if advice.verdict is Verdict.KERNEL:
        return [
            *said,
            "Do not coschedule this workload: the kernel alone answers as soon. The best "
            f"setting ({best}) takes {_percent(advice.to_kernel)} of its mean response.",
        ]
    kernel = (
        f"{_percent(advice.to_kernel)} of the kernel's mean response"
        if advice.to_kernel is not None
        else "the kernel alone did not run to its end"
    )
    if advice.verdict is Verdict.DEFAULT:
        return [*said, f"Keep the default ({best}): none is better. It takes {kernel}."]
    gain = (
        f" and {_percent(advice.to_default)} of the default's" if advice.to_default else ""
    )
    return [*said, f"Recommended: {best}. It takes {kernel}{gain}."]


def _percent(ratio: float | None) -> str:
    return "an unknown part" if ratio is None else f"{ratio:.0%}"


def _loads(search: _Search) -> list[str]:
    loads = [run.load for _, run in search.runs if run.load is not None]
    disturbed = sum(load.disturbed for load in loads)
    if not disturbed:
        return []
    share = max(load.share for load in loads)
    return [
        f"{disturbed} of {len(loads)} runs were disturbed, outside load up to {share:.0%}:",
        "tune again on a quiet machine",
        "",
    ]


def _speeds(search: _Search) -> list[str]:
    found = speeds(run for _, run in search.runs)
    if found is None:
        return []
    least, most = found
    return [
        f"the machine ran at {least:.2f} to {most:.2f} of its usual speed: times are as at",
        "the speed of the first run",
        "",
    ]


def _failures(search: _Search) -> list[str]:
    lines = [
        line
        for one, run in search.runs
        if run.failure is not None
        for line in wrapped(f"failed: {_name(one)}: {run.failure.line}")
    ]
    return [*lines, ""] if lines else []


def _config(title: str, search: _Search, advice: Advice) -> str | None:
    """Returns the recommendation as a file that ``cosched config check`` accepts."""
    if advice.best is None or advice.verdict is Verdict.KERNEL:
        return None
    setup = setup_of(advice.best)
    lines = [
        f"# From cosched tune, {len(search.runs)} runs of '{title}': mean response",
        f"# {_percent(advice.to_kernel)} of the kernel's, "
        f"{_percent(advice.to_default)} of the default settings'.",
        "[node]",
        f'slice = "{setup.settings["slice"]}"',
        f'gmet = "{setup.settings["gmet"]}"',
        f"align = {'true' if setup.settings['align'] == 'on' else 'false'}",
    ]
    lines += [f'mode = "{setup.arm.value}"'] if setup.arm.mode else []
    return "\n".join(lines) + "\n"


def _document(
    title: str, search: _Search, advice: Advice, context: Mapping[str, Any]
) -> dict[str, Any]:
    best = setup_of(advice.best) if advice.best is not None else None
    return {
        "format": FORMAT,
        "workload": title,
        **context,
        "verdict": advice.verdict.value,
        "recommended": _as_settings(best) if best else None,
        "ratio_to_kernel": advice.to_kernel,
        "ratio_to_default": advice.to_default,
        "points": [
            {
                "name": _name(one),
                "settings": _as_settings(setup_of(one)),
                "mean_response_s": [None if math.isinf(v) else v for v in values],
            }
            for one, values in search.observed.items()
        ],
        "runs": [
            {"name": _name(one), **msgspec.to_builtins(run)} for one, run in search.runs
        ],
    }


def _as_settings(setup: Setup) -> dict[str, str] | None:
    if setup.arm is Arm.KERNEL:
        return None
    return {**setup.settings, **({"mode": setup.arm.mode} if setup.arm.mode else {})}
