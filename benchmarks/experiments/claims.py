"""Puts the claims of a paper beside our results, in one table for all papers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks.experiments.verdicts import NO, Measured, judge_value
from cosched.tables import markdown

#: Without a figure there is no verdict.
MISSING = "not measured"

#: Returns the verdict on a figure.
Judge = Callable[[Measured], str]


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim, our result, and the verdict."""

    source: str  #: the paper's figure, table or section
    what: str  #: the claim in words
    paper: str  #: the paper's value; empty: the paper has no such claim
    ours: str  #: our figure, with its range; or MISSING
    verdict: str = ""  #: as in verdicts; empty: nothing is judged
    why: str = ""  #: the likely reason of a "no"; empty: none is known

    @property
    def shown(self) -> str:
        """The verdict, with the reason of a "no"."""
        return f"{NO}: {self.why}" if self.verdict == NO and self.why else self.verdict


def shown(found: Measured | None, form: str = "{:.2f}") -> str:
    """Returns the middle of a figure, and its range if its runs or cases differ."""
    if found is None:
        return MISSING
    low, middle, high = (form.format(one) for one in (found.low, found.middle, found.high))
    return middle if low == high else f"{middle} ({low} to {high})"


def judged(
    source: str,
    what: str,
    paper: str,
    ours: Measured | None,
    judge: Judge = lambda _ours: "",
    form: str = "{:.2f}",
) -> Claim:
    """Returns a claim about one figure. Without the figure it gets no verdict."""
    verdict = judge(ours) if ours is not None else ""
    return Claim(source, what, paper, shown(ours, form), verdict)


def near(low: float, high: float | None = None, no_effect: float = 1.0) -> Judge:
    """Returns the judge of a value, or of a range of values (``judge_value``)."""
    return lambda ours: judge_value(ours, low, high, no_effect)


def claims_table(claims: Iterable[Claim]) -> list[str]:
    """Returns the claims as the lines of a table in Markdown."""
    head = ("Fig.", "claim", "paper", "ours", "verdict")
    return markdown(
        head, [(one.source, one.what, one.paper, one.ours, one.shown) for one in claims]
    )
