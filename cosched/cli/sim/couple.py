"""``cosched sim couple``: simulates machines whose jobs start together."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import click

from cosched.cli.files import check_writable
from cosched.cli.options import json_file_option, parallel_option
from cosched.cli.sim.options import (
    carry_out_runs,
    command_line,
    logs_argument,
    save_option,
    strict_option,
    write_results,
)
from cosched.core.cluster.coupling.groups import Timing
from cosched.core.cluster.coupling.settings import CouplingSettings, Scheme, WhenDown
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.decoding import Malformed, is_whole, parse_integer, parse_number
from cosched.core.units import parse_duration
from cosched.sim.coupled.logs import CoupledRun, Pairing, carry_out, unique_names
from cosched.sim.coupled.runs import Coupling
from cosched.sim.coupled.table import render
from cosched.sim.logs.workload import Estimates

HELP = """\
Run logs of several machines whose jobs start together (Tang et al. 2011).

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


@click.command("couple", help=HELP, short_help="Machines whose jobs start together.")
@logs_argument("A.swf[.gz] B.swf[.gz]...")
@click.option(
    "--schemes",
    metavar="A-B,...",
    help="hold or yield for each log, in order; by default every combination.",
)
@click.option("--pairs", default="2min", help="Time between mates, or share of mates in %.")
@click.option(
    "--policy",
    type=click.Choice([name for name in POLICIES if name != "conservative"]),
    default="wfp",
    help="Order and backfill of every queue.",
)
@click.option(
    "--release",
    default="20min",
    help="How often holding jobs release their nodes, or 'never'.",
)
@click.option(
    "--held-cap",
    type=click.FloatRange(0.0, 1.0),
    default=1.0,
    help="Share of a machine that may be held; further jobs yield.",
)
@click.option(
    "--yield-cap",
    type=click.IntRange(0),
    metavar="N",
    help="A job that yielded N times holds; by default never.",
)
@click.option(
    "--raise-by",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Places that a job moves up in the queue with each yield.",
)
@click.option(
    "--blocks",
    "blocks",
    multiple=True,
    metavar="LOG=NODES",
    help="The machine of this log gives jobs aligned blocks of 1, 2, 4, ... times NODES "
    "nodes, like the partitions of a Blue Gene.",
)
@click.option(
    "--timing",
    default="together",
    help="together; within=TIME of each other; or after=TIME, when the first log's job "
    "has run that long.",
)
@click.option(
    "--estimates",
    type=click.Choice([told.value for told in Estimates]),
    default=Estimates.LOG.value,
    help="Run times that the queues expect: as users asked (log), or exact.",
)
@click.option(
    "--down",
    multiple=True,
    metavar="LOG",
    help="The domain of this log never answers; its jobs do not run.",
)
@click.option(
    "--when-down",
    metavar="CHOICE",
    default=WhenDown.START.value,
    help="What a ready job does if the domain of a mate is down: start, or hold=TIME "
    "and then start.",
)
@strict_option
@parallel_option
@save_option
@json_file_option()
def couple(
    traces: tuple[Path, ...],
    schemes: str | None,
    pairs: str,
    policy: str,
    release: str,
    held_cap: float,
    yield_cap: int | None,
    raise_by: int,
    blocks: tuple[str, ...],
    timing: str,
    estimates: str,
    down: tuple[str, ...],
    when_down: str,
    strict: bool,
    at_a_time: int,
    save_in: Path | None,
    json_file: Path | None,
) -> None:
    if len(traces) < 2:
        raise click.UsageError("Only one log: name the logs of two machines or more.")
    check_writable(json_file)
    names = unique_names(traces)
    choice, hold_ns = _when_down(when_down)
    settings = CouplingSettings(
        when_down=choice,
        down_hold_ns=hold_ns,
        release_ns=None if release == "never" else parse_duration(release, "--release"),
        held_cap=held_cap,
        yield_cap=yield_cap,
        raise_by=raise_by,
    )
    coupling = replace(
        _coupling(policy, timing),
        estimates=Estimates(estimates),
        units=_units(blocks, names),
        down=_down(down, names),
    )
    words = command_line()
    pairing = _pairing(pairs)
    runs = [
        CoupledRun(traces, combination, pairing, settings, coupling, strict, save_in, words)
        for combination in [(), *_combinations(schemes, len(traces))]
    ]
    outcomes = carry_out_runs(carry_out, runs, at_a_time)
    document = {
        "traces": [str(trace) for trace in traces],
        "runs": [outcome.document() for outcome in outcomes],
    }
    write_results(json_file, render(outcomes), document)


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


def _coupling(policy: str, text: str) -> Coupling:
    name, _, delay = text.partition("=")
    if name not in [timing.value for timing in Timing] or (name == "together") == bool(
        delay
    ):
        raise click.UsageError(
            f"--timing: '{text}' is none of together, within=TIME, after=TIME."
        )
    delay_ns = parse_duration(delay, "--timing") if delay else 0
    return Coupling(policy, timing=Timing(name), delay_ns=delay_ns)
