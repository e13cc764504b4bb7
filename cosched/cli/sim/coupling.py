"""``cosched sim couple``: simulates machines whose jobs start together."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from cosched.cli.declared import Command, command, option, part
from cosched.cli.options import json_file_option, parallel_option
from cosched.cli.sim.options import (
    command_line,
    logs_argument,
    read_again,
    save_option,
    simulate,
    strict_option,
)
from cosched.cli.values import EnumChoice, Number, Parsed, Whole
from cosched.core.cluster.coupling.groups import Timing
from cosched.core.cluster.coupling.settings import (
    RELEASE,
    CouplingSettings,
    Scheme,
    WhenDown,
)
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.decoding import Malformed, is_whole, parse_integer, parse_number
from cosched.core.units import format_duration, parse_duration
from cosched.sim.cells import duration, left_out
from cosched.sim.coupling.coupled_runs import Coupling
from cosched.sim.coupling.logs import (
    CoupledOutcome,
    CoupledRun,
    Pairing,
    carry_out,
    unique_names,
)
from cosched.sim.logs.workload import Estimates
from cosched.tables import table

HEAD = ("schemes", "wait", "slowdown", "sync", "lost")


@command("couple")
class Couple(Command):
    """Run logs of several machines whose jobs start together (Tang et al. 2011).

    Each machine has its own queue. A job that is ready waits until its mates on the
    other machines are ready, too. Meanwhile it holds its nodes, idle, or yields to
    other jobs. Every machine has one of these two schemes. By default all
    combinations are run, and one run without mates for comparison.

    Logs do not say which jobs are mates. --pairs 2min pairs jobs that were
    submitted less than 2 minutes apart; --pairs 10% pairs a tenth of all jobs.

    \b
    Examples:
      cosched sim couple theta.swf thetagpu.swf
      cosched sim couple big.swf small.swf --pairs 10% --schemes hold-yield
      cosched sim couple a.swf b.swf c.swf --pairs 5% --schemes yield-yield-yield
      cosched sim couple a.swf b.swf --timing within=30min --out out.json
      cosched sim couple mira.swf b.swf --blocks mira=512
      cosched sim couple a.swf b.swf --down b --when-down hold=10min
    """

    traces: tuple[Path, ...] = logs_argument("A.swf[.gz] B.swf[.gz]...")
    schemes: str | None = option(
        metavar="A-B,...",
        help="hold or yield for each log, in order; by default every combination.",
    )
    pairing: Pairing = option(
        "--pairs",
        type=Parsed("TEXT", lambda text, _: _pairing(text)),
        default="2min",
        help="Time between mates, or share of mates in %.",
    )
    settings: CouplingSettings = part(
        CouplingSettings,
        release_ns=option(
            "--release",
            type=Parsed("TEXT", RELEASE.named, RELEASE.text),
            help="How often holding jobs release their nodes, or 'never'.",
        ),
        held_cap=option(
            type=Number(0.0, 1.0),
            help="Share of a machine that may be held; further jobs yield.",
        ),
        yield_cap=option(
            type=Whole(0),
            metavar="N",
            help="A job that yielded N times holds; by default never.",
        ),
        raise_by=option(
            type=Whole(0),
            metavar="N",
            help="Places that a job moves up in the queue with each yield; by default 0.",
        ),
    )
    coupling: Coupling = part(
        Coupling,
        policy=option(
            type=click.Choice([name for name in POLICIES if name != "conservative"]),
            help="Order and backfill of every queue.",
        ),
        estimates=option(
            type=EnumChoice(Estimates),
            help="Run times that the queues expect: as users asked (log), or exact.",
        ),
    )
    blocks: tuple[str, ...] = option(
        multiple=True,
        metavar="LOG=NODES",
        help="The machine of this log gives jobs aligned blocks of 1, 2, 4, ... times NODES"
        " nodes, like the partitions of a Blue Gene.",
    )
    timing: tuple[Timing, int] = option(
        type=Parsed("TEXT", lambda text, _: _timing(text)),
        default="together",
        help="together; within=TIME of each other; or after=TIME, when the first log's job "
        "has run that long.",
    )
    down: tuple[str, ...] = option(
        multiple=True,
        metavar="LOG",
        help="The domain of this log never answers; its jobs do not run.",
    )
    when_down: tuple[WhenDown, int] = option(
        type=Parsed("CHOICE", lambda text, _: _when_down(text)),
        default=WhenDown.START.value,
        help="What a ready job does if the domain of a mate is down: start, or hold=TIME "
        "and then start.",
    )
    strict: bool = strict_option()
    at_a_time: int = parallel_option()
    save_in: Path | None = save_option()
    json_file: Path | None = json_file_option()

    def __post_init__(self) -> None:
        if len(self.traces) < 2:
            raise click.UsageError("Only one log: name the logs of two machines or more.")

    def run(self) -> None:
        with read_again(self.traces) as traces:
            self._run(tuple(traces))

    def _run(self, traces: tuple[Path, ...]) -> None:
        names = unique_names(traces)
        when_down, hold_ns = self.when_down
        settings = replace(self.settings, when_down=when_down, down_hold_ns=hold_ns)
        timing, delay_ns = self.timing
        coupling = replace(
            self.coupling,
            timing=timing,
            delay_ns=delay_ns,
            units=_units(self.blocks, names),
            down=_down(self.down, names),
        )
        words = command_line()
        runs = [
            CoupledRun(
                traces,
                combination,
                self.pairing,
                settings,
                coupling,
                self.strict,
                self.save_in,
                words,
            )
            for combination in [(), *_combinations(self.schemes, len(traces))]
        ]
        simulate(
            carry_out,
            runs,
            self.at_a_time,
            self.json_file,
            render,
            traces=[str(trace) for trace in self.traces],
        )


def _combinations(text: str | None, machines: int) -> list[tuple[Scheme, ...]]:
    if text is None:
        return list(itertools.product(Scheme, repeat=machines))
    known = [scheme.value for scheme in Scheme]
    combinations = []
    for combination in text.split(","):
        names = combination.strip().split("-")
        if len(names) != machines or not set(names) <= set(known):
            raise click.UsageError(
                f"--schemes: '{combination}' is not hold or yield {machines} times, "
                "joined by '-'."
            )
        combinations.append(tuple(Scheme(name) for name in names))
    return combinations


def _pairing(text: str) -> Pairing:
    if not text.endswith("%"):
        return Pairing(within_ns=parse_duration(text, "--pairs"))
    try:
        share = parse_number(text[:-1], "--pairs", -1e9, 1e9) / 100.0
    except Malformed:
        raise click.UsageError(f"--pairs: '{text}' is not a share like 10%.") from None
    if not 0.0 < share <= 1.0:
        raise click.UsageError(f"--pairs: '{text}' is not more than 0%, at most 100%.")
    return Pairing(share=share)


def _units(texts: tuple[str, ...], names: list[str]) -> dict[str, int]:
    """Returns the nodes of the least block of each machine that has blocks."""
    units = {}
    for text in texts:
        name, _, nodes = text.rpartition("=")
        if name not in names or not is_whole(nodes, 1):
            raise click.UsageError(
                f"--blocks: '{text}' is not LOG=NODES with one of the logs "
                f"{', '.join(names)}."
            )
        units[name] = parse_integer(nodes, "--blocks", 1, (1 << 63) - 1)
    return units


def _down(names: tuple[str, ...], known: list[str]) -> frozenset[str]:
    for name in names:
        if name not in known:
            raise click.UsageError(
                f"--down: '{name}' is none of the logs {', '.join(known)}."
            )
    if len(set(names)) == len(known):
        raise click.UsageError("--down: no domain is left.")
    return frozenset(names)


def _when_down(text: str) -> tuple[WhenDown, int]:
    """Returns the choice, and how long a job holds, in ns. Jobs that yield to a domain that
    is always down never start, so there is nothing to simulate."""
    name, _, hold = text.partition("=")
    if text == WhenDown.START.value:
        return WhenDown.START, 0
    if name != WhenDown.HOLD.value or not hold:
        raise click.UsageError(f"--when-down: '{text}' is neither start nor hold=TIME.")
    return WhenDown.HOLD, parse_duration(hold, "--when-down")


def _timing(text: str) -> tuple[Timing, int]:
    """Returns the constraint, and its time in ns."""
    name, _, delay = text.partition("=")
    if name not in [timing.value for timing in Timing] or (name == "together") == bool(
        delay
    ):
        raise click.UsageError(
            f"--timing: '{text}' is none of together, within=TIME, after=TIME."
        )
    delay_ns = parse_duration(delay, "--timing") if delay else 0
    return Timing(name), delay_ns


def render(outcomes: Sequence[CoupledOutcome]) -> str:
    """Returns a block for each machine, then a line for each run with groups."""
    lines = []
    for name in outcomes[0].machines:
        figures = outcomes[0].result.domains.get(name)
        if figures is None:
            lines += [f"{name}: down", ""]
            continue
        lines.append(f"{name}: {figures['jobs']:g} jobs, load {figures['load']:.2f}")
        lines += left_out(outcomes[0].skipped.get(name, {}))
        rows = (_cells(outcome, name) for outcome in outcomes)
        lines += table(HEAD, rows, "<>>>>", indent=2)
        lines.append("")
    for outcome in outcomes:
        result = outcome.result
        if not outcome.run.schemes:
            continue
        kept = f"{result.kept} of {result.groups} groups {_constraint(outcome)}"
        line = f"{outcome.run.name}: {kept}"
        if outcome.run.coupling.down:
            down = ", ".join(sorted(outcome.run.coupling.down))
            line = f"{outcome.run.name}: {result.groups} groups, without {down}"
        if result.stuck:
            line += f"; {result.stuck} jobs never started"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _constraint(outcome: CoupledOutcome) -> str:
    """Returns how the jobs of a group should start."""
    coupling = outcome.run.coupling
    if coupling.timing is Timing.TOGETHER:
        return "together"
    delay = format_duration(coupling.delay_ns)
    if coupling.timing is Timing.WITHIN:
        return f"within {delay} of each other"
    return f"{delay} after the first, or after its end"


def _cells(outcome: CoupledOutcome, machine: str) -> tuple[str, ...]:
    figures = outcome.result.domains[machine]
    return (
        outcome.run.name,
        duration(figures["mean_wait_s"]),
        f"{figures['mean_slowdown']:.1f}",
        duration(figures["mean_sync_s"]),
        f"{figures['lost_share']:.2%}",
    )
