"""Makes the table of all claims of all papers. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from benchmarks.experiments.claims import MISSING, NOT_HERE, RECOMPUTED, TUNED, Claim
from benchmarks.experiments.stored import Stored, all_claims
from benchmarks.experiments.verdicts import DIRECTION, HOLDS, NO, UNDECIDED
from cosched.tables import markdown

#: The paper of each page, in the order of the table.
PAPERS = {
    "yoo.md": "Yoo 2001",
    "nodes.md": "Yoo 2001",
    "tang.md": "Tang 2011",
    "weissman.md": "Weissman 2003",
    "weinberg.md": "Weinberg 2006",
    "brelsford.md": "Brelsford 2010",
}
#: Verdicts in the order of their counts.
JUDGED = (HOLDS, DIRECTION, NO, UNDECIDED)
APART = (NOT_HERE, TUNED, RECOMPUTED)
WITHIN = "within x%"
HEAD = ("paper", "Fig.", "claim", "paper's", "ours", "how", "verdict", "by", "picture")


def table(parts: Iterable[Stored]) -> list[str]:
    """Returns a line of Markdown for each claim, below a head."""
    return markdown(HEAD, [row for part in in_order(parts) for row in _rows(part)])


def in_order(parts: Iterable[Stored]) -> list[Stored]:
    """Returns the parts in the order of their papers."""
    pages = list(PAPERS)
    return sorted(parts, key=lambda part: (pages.index(part.page), part.name))


def _rows(part: Stored) -> Iterator[Sequence[str]]:
    paper = f"[{PAPERS[part.page]}](results/{part.page})"
    if part.setting:
        paper += f", {part.setting}"
    command = part.command.removeprefix("scripts/dev ")
    for claim in all_claims([part]):
        picture = part.pictures.get(claim.source, "")
        yield (
            *(paper, claim.source, claim.what, claim.paper, claim.ours),
            *(part.how_of(claim), claim.shown, f"`{command}`"),
            f"[picture](results/{picture})" if picture else "",
        )


def counts(parts: Sequence[Stored]) -> list[str]:
    """Returns how many claims of each paper have each verdict, as a table in Markdown."""
    names = list(dict.fromkeys(PAPERS[part.page] for part in in_order(parts)))
    words = (WITHIN, *JUDGED, *APART, MISSING)
    found = {
        name: Counter(
            _word(claim) for claim in all_claims(p for p in parts if PAPERS[p.page] == name)
        )
        for name in names
    }
    found["all"] = sum(found.values(), Counter[str]())
    rows = [
        (name, *(str(by_word[word] or "") for word in words), str(by_word.total()))
        for name, by_word in found.items()
    ]
    return markdown(("", *words, "claims"), rows)


def _word(claim: Claim) -> str:
    verdict = claim.verdict or MISSING
    return WITHIN if verdict.startswith("within") else verdict
