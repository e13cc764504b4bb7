"""Puts the claims of a paper beside our results, in one table for all papers. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.experiments.verdicts import NO
from cosched.tables import markdown


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim, our result, and the verdict (``verdicts``).

    source: the paper's figure, table or section. paper: the paper's value; empty if it has
    no such claim. verdict: empty if nothing is judged. why: the likely reason of a "no".
    """

    source: str
    what: str
    paper: str
    ours: str
    verdict: str = ""
    why: str = ""

    @property
    def shown(self) -> str:
        """The verdict, with the reason of a "no"."""
        return f"{NO}: {self.why}" if self.verdict == NO and self.why else self.verdict


def claims_table(claims: Iterable[Claim]) -> list[str]:
    """Returns the claims as the lines of a table in Markdown."""
    head = ("Fig.", "claim", "paper", "ours", "verdict")
    return markdown(
        head, [(one.source, one.what, one.paper, one.ours, one.shown) for one in claims]
    )
