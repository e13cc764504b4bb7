"""Writes the table of all claims of all papers, from the claims that the pages keep.

The folder docs/results/claims has every judged figure. The verdicts are made from it again:
no experiment runs. --docs writes the table into a page, between the lines
<!-- overview: begin --> and <!-- overview: end -->, and the verdicts into the table of each
page of docs/results.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.experiment import Bench, in_one_line
from benchmarks.experiments.overview.claim_table import counts, table
from benchmarks.experiments.overview.pages import rejudged
from benchmarks.experiments.section import rewrite
from benchmarks.experiments.stored import FOLDER, Stored, read_all
from cosched.core.errors import CoschedError

PART = "overview"
RESULTS = Path(__file__).parents[3] / "docs/results"


def text_of(parts: Sequence[Stored]) -> str:
    """Returns the counts and the table as Markdown."""
    return "\n".join([*counts(parts), "", *table(parts)]) + "\n"


def main(words: Sequence[str] | None = None) -> None:
    bench = Bench("overview", __doc__)
    bench.add_page()
    bench.add_argument(
        "--results", type=Path, default=RESULTS, help="the pages' folder (docs/results)"
    )
    options = bench.parse(words)
    with in_one_line("overview"):
        parts = read_all(options.results / FOLDER)
        if not parts:
            raise CoschedError(f"{options.results / FOLDER}: has no claims")
        text = text_of(parts)
        if options.docs is not None:
            for part in parts:
                page = options.results / part.page
                page.write_text(rejudged(page.read_text(), part))
            rewrite(options.docs, PART, text)
        print(text, end="")


if __name__ == "__main__":
    main()
