"""Checks a run's result against NASA's values and prints it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cosched.core.counting import counted

Number = float | complex


@dataclass(frozen=True, slots=True)
class Check:
    """Compares a value that was computed with the published one."""

    name: str  #: name of the value, for the report
    found: Number  #: the computed value
    expected: Number  #: the published value
    tolerance: float  #: largest difference, as a fraction of the published value

    @property
    def passed(self) -> bool:
        """False for a value that is not a number, too."""
        return abs(self.found - self.expected) <= self.tolerance * abs(self.expected)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Holds the result of one timed run."""

    size: str  #: size of the problem, for the report
    iterations: int  #: number of timed iterations
    seconds: float  #: elapsed time
    operations: float  #: number that Mop/s counts, by NPB's own formula
    checks: tuple[Check, ...]  #: all values that were compared

    @property
    def verified(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def mops(self) -> float:
        return self.operations / self.seconds / 1e6


@dataclass(frozen=True, slots=True)
class Traffic:
    """Counts the traffic that one rank sent. A mean over ranks is a fraction."""

    messages: float  #: number of messages
    message_bytes: float  #: bytes in messages
    collectives: float  #: number of collective operations
    collective_bytes: float  #: bytes in collective operations


@dataclass(frozen=True, slots=True)
class Run:
    """Holds all that a report shows of one run."""

    benchmark: str  #: its short name
    problem: str  #: the letter of its class
    ranks: int  #: number of ranks
    outcome: Outcome  #: the time and the checks
    traffic: Traffic  #: the mean of the ranks


def checks(
    names: Iterable[str],
    found: Iterable[Number],
    expected: Iterable[Number],
    tolerance: float,
) -> tuple[Check, ...]:
    """One check for each value."""
    return tuple(
        Check(name, value, published, tolerance)
        for name, value, published in zip(names, found, expected, strict=True)
    )


def as_json(run: Run) -> dict[str, Any]:
    """One object for scripts; bytes and messages are those of a rank, on average."""
    outcome, traffic = run.outcome, run.traffic
    return {
        "benchmark": run.benchmark,
        "class": run.problem,
        "ranks": run.ranks,
        "size": outcome.size,
        "iterations": outcome.iterations,
        "seconds": outcome.seconds,
        "mops": outcome.mops,
        "messages_per_rank": traffic.messages,
        "message_bytes_per_rank": traffic.message_bytes,
        "collectives_per_rank": traffic.collectives,
        "collective_bytes_per_rank": traffic.collective_bytes,
        "verified": outcome.verified,
        "failed": [check.name for check in outcome.checks if not check.passed],
    }


def as_text(run: Run) -> str:
    """The same for people, in 80 columns."""
    outcome, traffic = run.outcome, run.traffic
    mean = traffic.message_bytes / traffic.messages if traffic.messages else 0.0
    megabytes = traffic.collective_bytes / 1e6
    failed = [check for check in outcome.checks if not check.passed]
    verdict = (
        f"FAILED: {counted(len(failed), 'value')} not as published"
        if failed
        else f"successful: {counted(len(outcome.checks), 'value')} as published"
    )
    lines = [
        f"NPB {run.benchmark.upper()}, class {run.problem}: {outcome.size}, "
        f"{counted(outcome.iterations, 'iteration')}, {counted(run.ranks, 'rank')}",
        f"  seconds       {outcome.seconds:.3f}",
        f"  Mop/s         {outcome.mops:.1f}",
        f"  messages      {traffic.messages:,.10g} a rank, {mean:,.0f} bytes on average",
        f"  collectives   {traffic.collectives:,.0f} a rank, {megabytes:,.3f} MB in all",
        f"  verification  {verdict}",
    ]
    for check in failed:
        lines.append(f"    {check.name}: {check.found:.13g}, not {check.expected:.13g}")
    return "\n".join(lines)
