"""Puts the claims of a paper beside our results, in one table for all papers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from benchmarks.experiments.verdicts import (
    NO,
    UNDECIDED,
    Finding,
    Judge,
    Measured,
    Near,
    Order,
    cases,
    judge,
)
from cosched.tables import markdown

#: Without a figure there is no verdict.
MISSING = "not measured"
#: The figure was chosen so that it fits, so it is no result.
TUNED = "tuned"
#: The figure is calculated from the paper's own numbers.
RECOMPUTED = "recomputed"
#: This machine cannot show the effect, whatever the scheduler does.
NOT_HERE = "not measurable here"
#: Verdicts that need their reason beside them, if it is known.
_EXPLAINED = (NO, UNDECIDED, TUNED, NOT_HERE)


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """A claim, our result, and how it is judged."""

    source: str  #: the paper's figure, table or section
    what: str  #: the claim in words
    paper: str  #: the paper's value; empty: the paper has no such claim
    ours: str  #: our figure, with its range; or MISSING
    finding: Finding | None = None  #: the judged figure; None: there is none
    by: Judge | None = None  #: the judge; None: nothing is judged
    apart: str = ""  #: TUNED, RECOMPUTED or NOT_HERE; empty: the finding is judged
    why: str = ""  #: the likely reason of a verdict in one sentence; empty: none is known

    @property
    def verdict(self) -> str:
        """The verdict; empty: nothing is judged."""
        if self.apart:
            return self.apart
        if self.by is None or self.finding is None:
            return ""
        return judge(self.by, self.finding)

    @property
    def shown(self) -> str:
        """The verdict, with its reason if it needs one."""
        verdict = self.verdict
        return f"{verdict}: {self.why}" if self.why and verdict in _EXPLAINED else verdict


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
    by: Judge | None = None,
    form: str = "{:.2f}",
    why: str = "",
) -> Claim:
    """Returns a claim about one figure. Without the figure it gets no verdict."""
    return Claim(source, what, paper, shown(ours, form), ours, by, why=why)


def counted(
    source: str,
    what: str,
    paper: str,
    outcomes: Iterable[bool | None],
    but: int = 0,
    why: str = "",
) -> Claim:
    """Returns a claim about an order in several cases. None: a case that stays open."""
    found = cases(outcomes)
    return Claim(source, what, paper, found.text, found, Order(but), why=why)


def near(low: float, high: float | None = None, no_effect: float | None = None) -> Near:
    """Returns the judge of a value, or of a range of values."""
    return Near(low, high, no_effect)


def claims_table(claims: Iterable[Claim]) -> list[str]:
    """Returns the claims as the lines of a table in Markdown."""
    head = ("Fig.", "claim", "paper", "ours", "verdict")
    return markdown(
        head, [(one.source, one.what, one.paper, one.ours, one.shown) for one in claims]
    )


def explained(claims: Sequence[Claim], reasons: Callable[[Claim], str]) -> list[Claim]:
    """Returns the claims with reasons where they have none."""
    return [
        one if one.why else msgspec.structs.replace(one, why=reasons(one)) for one in claims
    ]
