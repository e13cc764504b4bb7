"""``cosched sim malleable``: simulates jobs that give up nodes so that others start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import click

from cosched.cli.declared import Command, argument, command, is_given, option, part
from cosched.cli.files import check_writable
from cosched.cli.options import json_file_option, parallel_option
from cosched.cli.sim.options import (
    carry_out_runs,
    machine_option,
    read_again,
    seed_option,
    strict_option,
    write_results,
)
from cosched.cli.values import TIME, Number, Whole, several, some_of, whole
from cosched.core.cluster.queue.sizes.execution import EXECUTIONS
from cosched.core.cluster.queue.sizes.settings import Control
from cosched.core.cluster.queue.sizes.suspension import Suspension
from cosched.core.decoding import is_whole, parse_integer
from cosched.core.errors import CoschedError
from cosched.sim.cells import duration, left_out
from cosched.sim.logs.log_models import MODELS
from cosched.sim.malleable.jobs import TEMPLATES
from cosched.sim.malleable.malleable_runs import (
    Case,
    MalleableOutcome,
    MalleableRun,
    Source,
    carry_out,
    cases_of,
    means,
    repeated,
)
from cosched.sim.malleable.policies import BACKFILLING, BASELINES, HARVESTING
from cosched.sim.malleable.true_times import FIT_WORD, KNOWN_WORD, knowledge_of
from cosched.tables import table

HEAD = ("policy", "wait", "run", "total", "jobs/h", "harvests", "success")
ALIGN = "<>>>>>>"
#: The words of a title for the knowledge of the queue.
_KNOWS = MappingProxyType({KNOWN_WORD: "", FIT_WORD: ", run times fitted"})
#: Options for some kinds of sources only: the field, the option, the kinds, and whether a
#: source is one of them.
_OF_KINDS: tuple[tuple[str, str, str, Callable[[Source], bool]], ...] = (
    ("count", "--count", "models of logs and users' problems", lambda one: one.generated),
    ("beta", "--beta", "users' problems", lambda one: one.users),
    ("shares", "--malleable", "logs and models of logs", lambda one: not one.users),
    ("most", "--ideal", "logs and models of logs", lambda one: not one.users),
    ("preferred", "--preferred", "logs and models of logs", lambda one: not one.users),
)
Figures: TypeAlias = dict[Case, dict[str, float]]

HELP = f"""\
Run malleable jobs (Weissman et al. 2003).

Running jobs give up nodes so that other jobs can start. They get nodes back
when other jobs end.

\b
A SOURCE of jobs is
  a log             in the Standard Workload Format, plain or compressed
  a model of a log  {", ".join(MODELS)}, or the JSON that 'cosched sim fit' wrote
  users' problems   {", ".join(TEMPLATES)} (Table 1 of the paper)

\b
Policies:
  ideal-only      first come, first served; each job waits for its ideal size
  ideal-backfill  the same with conservative backfill
  ideal-easy      the same with EASY backfill
  moldable        a job starts on the free nodes if they reach its minimum
  HARVEST-fr      nodes are harvested; free nodes go to running jobs first
  HARVEST-fq      nodes are harvested; free nodes go to queued jobs only
  HARVEST-qr      nodes are harvested; free nodes go to queued jobs first
  HARVEST-easy    the same, with EASY backfill; even or low-impact
HARVEST is never, even, fair, long, short or low-impact.

All policies, degrees and minima are combined. With --suspend the first waiting
job may borrow the nodes of a running one, in policies without backfill.

\b
Examples:
  cosched sim malleable sdsc
  cosched sim malleable KTH.swf.gz --minimum 50,25 --execution parabolic
  cosched sim malleable sdsc --policy even-fr,even-fq --degree 3,9,none
  cosched sim malleable mixed --beta 0.25 --traces 4 --out mixed.json
  cosched sim malleable KTH.swf.gz --malleable 0,20,100 --policy even-easy
  cosched sim malleable KTH.swf.gz --ideal 200 --preferred 100
  cosched sim malleable ge --worth 1 --predict fit,0%,10%
"""


def _degree(word: str, what: str) -> int | None:
    if word != "none" and not is_whole(word, 1):
        raise click.BadParameter(f"'{word}' is neither a number above 0 nor none.")
    return None if word == "none" else parse_integer(word, what, 1, (1 << 63) - 1)


def _percent(word: str, what: str) -> int:
    return whole(1, 100)(word.removesuffix("%"), what)  # type: ignore[no-any-return]


def _knowledge(word: str, what: str) -> str:
    try:
        return knowledge_of(word).name
    except CoschedError as error:
        raise click.BadParameter(f"{error}.") from None


def _share(word: str, what: str) -> int:
    return whole(0, 100)(word.removesuffix("%"), what)  # type: ignore[no-any-return]


@command("malleable", help=HELP)
class Malleable(Command):
    """The options of ``cosched sim malleable``."""

    sources: tuple[str, ...] = argument(nargs=-1, required=True, metavar="SOURCE...")
    policies: tuple[str, ...] = option(
        "--policy",
        type=some_of((*BASELINES, *HARVESTING, *BACKFILLING)),
        default="ideal-only,ideal-backfill,moldable,even-fq,low-impact-fr",
        show_default=False,
        help="One or several; by default the baselines, even-fq and low-impact-fr.",
    )
    degrees: tuple[int | None, ...] = option(
        "--degree",
        type=several("M,...", _degree),
        default="none",
        help="Harvest for queued jobs while fewer than M jobs run; none: always.",
    )
    percents: tuple[int, ...] = option(
        "--minimum",
        type=several("P,...", _percent),
        default="50",
        help="Fewest nodes of a job, in percent of its ideal or its size in a log.",
    )
    shares: tuple[int, ...] = option(
        "--malleable",
        type=several("P,...", _share),
        default="100",
        help="Malleable jobs of a log, in percent; the others keep their size.",
    )
    most: int = option(
        "--ideal",
        type=Whole(100),
        default=100,
        metavar="P",
        help="Ideal of malleable jobs, in percent of their size in the log.",
    )
    preferred: int | None = option(
        type=Whole(1),
        metavar="P",
        help="Size beyond which jobs grow only while none waits, in percent of that in the "
        "log.  [default: the ideal]",
    )
    predict: tuple[str, ...] = option(
        type=several("WORD,...", _knowledge),
        default=KNOWN_WORD,
        help="What the queue knows of run times: known, fit (what it measures), or P%: "
        "what programs predict, off by up to P percent.",
    )
    execution: str = option(
        type=click.Choice(list(EXECUTIONS)),
        default="linear",
        help="How run times depend on nodes. Users' problems are always parabolic.",
    )
    control: Control = part(
        Control,
        harvest_limit=option(
            type=Whole(0), metavar="N", help="Harvest a job at most N times."
        ),
        protected_ns=option("--protect", type=TIME, help="Do not harvest younger jobs."),
        least_benefit=option(
            "--worth",
            type=Number(0.0),
            metavar="X",
            help="Resize a job only if that saves X times its cost.",
        ),
    )
    suspend_ns: int | None = option(
        "--suspend",
        type=TIME,
        help="Suspend running jobs for waiting ones with at most this run time.",
    )
    suspend_limit: int = option(
        type=Whole(1), default=2, help="Suspend a job at most so often."
    )
    count: int = option(type=Whole(1), default=10_000, help="Jobs to generate.")
    traces: int = option(
        type=Whole(1),
        default=1,
        help="Logs to generate; the figures are means over them.",
    )
    seed: int = seed_option("Random seed of the first log.")
    beta: float = option(
        type=Number(0.0),
        default=0.5,
        help="Interval between users' problems; at 1 they hardly wait.",
    )
    load: float | None = option(
        type=Number(0.0, min_open=True),
        metavar="X",
        help="Load of a model on its own machine, by other rates of arrival.",
    )
    machine: int | None = machine_option("Another size of the machine.")
    strict: bool = strict_option()
    at_a_time: int = parallel_option()
    json_file: Path | None = json_file_option()

    def source(self, name: str) -> Source:
        """Returns the source of jobs of this name."""
        return Source(
            name=name,
            count=self.count,
            seed=self.seed,
            beta=self.beta,
            machine=self.machine,
            strict=self.strict,
            load=self.load,
            most=self.most,
            preferred=self.preferred,
        )

    def __post_init__(self) -> None:
        """Raises UsageError for options that would have no effect."""
        sources = [self.source(name) for name in self.sources]
        for field, word, kinds, is_of_kinds in _OF_KINDS:
            if is_given(field) and not any(map(is_of_kinds, sources)):
                raise click.UsageError(
                    f"{word}: no effect on {', '.join(self.sources)}; it is for {kinds}."
                )
        for source in sources:
            if self.load is not None and not source.modelled:
                raise click.UsageError(f"--load: {source.name} is not a model of a log.")

    def run(self) -> None:
        with read_again(map(Path, self.sources)) as files:
            named = zip(self.sources, files, strict=True)
            self._run([name if file == Path(name) else str(file) for name, file in named])

    def _run(self, names: Sequence[str]) -> None:
        check_writable(self.json_file)
        cases = cases_of(
            self.policies, self.degrees, self.percents, self.shares, self.predict
        )
        suspension = None
        if self.suspend_ns is not None:
            suspension = Suspension(self.suspend_ns, self.suspend_limit)
        groups = [
            repeated(
                MalleableRun(
                    self.source(name),
                    self.execution,
                    self.control,
                    cases,
                    suspension=suspension,
                ),
                self.traces,
            )
            for name in dict.fromkeys(names)
        ]
        runs = [run for group in groups for run in group]
        if self.traces > 1 and len(runs) == len(groups):
            raise click.UsageError(
                f"--traces: no effect on {', '.join(self.sources)}; another seed makes the"
                " same jobs."
            )
        outcomes = iter(carry_out_runs(carry_out, runs, self.at_a_time))
        results = []
        for group in groups:
            ended = [next(outcomes) for _ in group]
            results.append((ended[0], len(ended), means(ended)))
        text = "\n".join(render(_title(*result), result[2]) for result in results)
        document = {"sources": [_document(*result) for result in results]}
        write_results(self.json_file, text, document)


def _title(outcome: MalleableOutcome, traces: int, figures: Figures) -> str:
    jobs = next(iter(figures.values()))["jobs"]
    times = f"{traces} times " if traces > 1 else ""
    execution = "parabolic" if outcome.run.source.users else outcome.run.execution
    name = Path(outcome.run.source.name).name
    title = f"{name}: {times}{jobs:.0f} jobs, {outcome.nodes} nodes, {execution} execution"
    return "\n".join((title, *left_out(outcome.run.source.skipped_lines())))


def _document(outcome: MalleableOutcome, traces: int, figures: Figures) -> dict[str, Any]:
    return {
        "source": outcome.run.source.name,
        "nodes": outcome.nodes,
        "traces": traces,
        "execution": "parabolic" if outcome.run.source.users else outcome.run.execution,
        "skipped_lines": outcome.run.source.skipped_lines(),
        "cases": [{**asdict(case), "figures": found} for case, found in figures.items()],
    }


def render(title: str, figures: Mapping[Case, Mapping[str, float]]) -> str:
    """Returns a block for each minimum; ends with a newline."""
    blocks = [f"{title}\n"]
    parts = groupby(figures, key=lambda case: (case.percent, case.share, case.predict))
    for (percent, share, predict), cases in parts:
        some = "" if share == 100 else f", {share}% of the jobs malleable"
        knows = _KNOWS.get(predict, f", predictions off by up to {predict}")
        lines = [f"minimum {percent}% of the ideal{some}{knows}"]
        lines += table(HEAD, (_cells(case, figures[case]) for case in cases), ALIGN)
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _cells(case: Case, figures: Mapping[str, float]) -> tuple[str, ...]:
    wanted = figures["requests"] > 0
    return (
        case.label,
        duration(figures["mean_wait_s"]),
        duration(figures["mean_execution_s"]),
        duration(figures["mean_total_s"]),
        f"{figures['throughput_per_h']:.2f}",
        f"{figures['harvests']:.2f}" if wanted else "",
        f"{figures['success']:.1%}" if wanted else "",
    )
