"""Puts the verdicts of stored claims into the tables of their pages. Pure."""

from __future__ import annotations

from benchmarks.experiments.claims import claims_table
from benchmarks.experiments.stored import Stored
from cosched.core.errors import CoschedError


def rejudged(page: str, part: Stored) -> str:
    """Returns the page with the part's table of claims made from the stored claims.

    It is the table with the same claims and figures, in whatever words its verdicts are.
    Raises CoschedError if the page has no such table.
    """
    lines = page.splitlines()
    new = claims_table(part.claims)
    wanted = [_judged_part(row) for row in new]
    for at in range(len(lines)):
        if [_judged_part(row) for row in lines[at : at + len(new)]] == wanted:
            lines[at : at + len(new)] = new
            return "\n".join(lines) + "\n"
    rows = len(part.claims)
    raise CoschedError(f"{part.page}: has no table of the {rows} claims of {part.name}")


def _judged_part(row: str) -> list[str]:
    """Returns the figure, the claim, the paper's value and ours."""
    return row.split("|")[1:5]
