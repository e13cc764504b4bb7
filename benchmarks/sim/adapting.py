"""Orders that adapt beside fixed slices: mean response of simulated jobs on two nodes.

Each mix of jobs runs with slices of 2 s, and with the best of several fixed ones. Then it
runs with the default settings (order=rest) and with turns by age (order=age), each on nodes
that have seen no job end, and on nodes that have seen the same jobs before. Jobs of one
length are runs of one program. Nothing here depends on chance or on the machine's speed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from benchmarks.experiment import Bench
from benchmarks.progress_lines import steps_of
from cosched.core.node.knowledge import Expectation
from cosched.core.node.settings import USUAL, Order, Settings
from cosched.core.units import NS_PER_MS, NS_PER_S
from cosched.sim.nodes.model import Cluster, Pattern, Program
from cosched.sim.nodes.node_runs import NodesRun, carry_out
from cosched.tables import markdown

BY_AGE = replace(USUAL, order=Order.AGE)
FIXED_S = (0.5, 1.0, 2.0, 4.0, 8.0)
#: Between the jobs that nodes have seen before and the same again.
LATER_S = 400.0
NODES = 2
SEED = 1  # draws the ranks' starts


@dataclass(frozen=True, slots=True)
class Mix:
    """Describes jobs that are submitted to the same nodes."""

    title: str  #: for the table
    work_s: tuple[float, ...]  #: time that each job computes, in seconds
    submit_s: tuple[float, ...]  #: time at which each job is submitted, in seconds


def at_once(title: str, *work_s: float) -> Mix:
    """Jobs that are submitted together."""
    return Mix(title, work_s, (0.0,) * len(work_s))


MIXES = (
    at_once("three of 5.5", 5.5, 5.5, 5.5),
    at_once("five of 7", 7, 7, 7, 7, 7),
    at_once("three of 20", 20, 20, 20),
    at_once("1, 20, 1, 20", 1, 20, 1, 20),
    at_once("five of 6, then three of 0.7", 6, 6, 6, 6, 6, 0.7, 0.7, 0.7),
    at_once("4, 6, 2, 5, 3, 2", 4, 6, 2, 5, 3, 2),
    at_once("1.6, 1.6, 3.5, 3.5, 3, 0.2, 2.1", 1.6, 1.6, 3.5, 3.5, 3, 0.2, 2.1),
    Mix("two of 20; one of 1 every 5 s", (20, 20, 1, 1, 1, 1), (0, 0, 5, 10, 15, 20)),
    Mix("30, 30; 5 after 10 s, 5 after 30 s", (30, 30, 5, 5), (0, 0, 10, 30)),
)


@dataclass(frozen=True, slots=True)
class Row:
    """Holds the mean responses of one mix."""

    mix: str  #: its title
    usual_s: float  #: with a fixed slice of 2 s, in seconds
    best_s: float  #: with the best fixed slice, in seconds
    best_slice_s: float  #: that slice, in seconds
    rest_unseen_s: float  #: order ``rest``, first time that the jobs run, in seconds
    rest_seen_s: float  #: order ``rest``, second time that the jobs run, in seconds
    age_unseen_s: float  #: order ``age``, first time that the jobs run, in seconds
    age_seen_s: float  #: order ``age``, second time that the jobs run, in seconds


def responses_s(mix: Mix, settings: Settings) -> list[float]:
    """Returns a value for each job of a mix, in their order."""
    programs = tuple(
        Program(
            f"job{number}",
            Pattern.BULK,
            NS_PER_MS,
            round(work_s * NS_PER_S),
            submit_ns=round(submit_s * NS_PER_S),
        )
        for number, (work_s, submit_s) in enumerate(
            zip(mix.work_s, mix.submit_s, strict=True)
        )
    )
    kinds = {work_s: kind for kind, work_s in enumerate(dict.fromkeys(mix.work_s), 1)}
    expectations = {
        program.name: Expectation(kinds[work_s])
        for program, work_s in zip(programs, mix.work_s, strict=True)
    }
    run = NodesRun(
        "cosched", programs, Cluster(NODES), settings, SEED, expectations=expectations
    )
    return list(carry_out(run).responses_s)


def again(mix: Mix) -> Mix:
    """A mix, and much later the same once more."""
    later = tuple(submit_s + LATER_S for submit_s in mix.submit_s)
    return Mix(mix.title, mix.work_s * 2, mix.submit_s + later)


def compare(mix: Mix) -> Row:
    """One row of the table."""
    fixed = {
        slice_s: fmean(responses_s(mix, Settings(slice_ns=round(slice_s * NS_PER_S))))
        for slice_s in FIXED_S
    }
    best_slice_s = min(fixed, key=lambda slice_s: fixed[slice_s])
    count = len(mix.work_s)
    rest_s, age_s = (responses_s(again(mix), order) for order in (USUAL, BY_AGE))
    return Row(
        mix=mix.title,
        usual_s=fixed[2.0],
        best_s=fixed[best_slice_s],
        best_slice_s=best_slice_s,
        rest_unseen_s=fmean(rest_s[:count]),
        rest_seen_s=fmean(rest_s[count:]),
        age_unseen_s=fmean(age_s[:count]),
        age_seen_s=fmean(age_s[count:]),
    )


def table(rows: Sequence[Row]) -> list[str]:
    """Returns the lines of the table in docs/results/nodes.md."""
    orders = ("rest, nothing seen", "rest", "age, nothing seen", "age")
    return markdown(
        ("jobs, s", "2 s", "best fixed", *orders),
        [
            (
                *(row.mix, f"{row.usual_s:.1f}"),
                f"{row.best_s:.1f} ({row.best_slice_s:g} s)",
                *(f"{row.rest_unseen_s:.1f}", f"{row.rest_seen_s:.1f}"),
                *(f"{row.age_unseen_s:.1f}", f"{row.age_seen_s:.1f}"),
            )
            for row in rows
        ],
    )


def run(_options: argparse.Namespace) -> tuple[list[str], object]:
    """Returns the rows, and their table."""
    rows = [compare(mix) for mix in steps_of(MIXES, "mixes")]
    return table(rows), rows


def main() -> None:
    Bench("adapting", __doc__).run(run)


if __name__ == "__main__":
    main()
