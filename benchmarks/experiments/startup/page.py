"""Writes the generated part of docs/results/brelsford.md."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks.experiments.claims import claims_table
from benchmarks.experiments.section import rewrite
from benchmarks.experiments.startup.claims import LIVE_CHUNKS, aims, claims
from benchmarks.experiments.startup.documents import MIDDLE, Document, text
from benchmarks.experiments.startup.figures import draw
from benchmarks.experiments.startup.live_comparison import section
from benchmarks.experiments.startup.plans import TITLES
from benchmarks.experiments.stored import Stored, keep
from cosched.tables import markdown

PART = "brelsford"
#: The figures that the page shows as pictures.
PICTURED = ("fig7", "fig8b", "fig9a", "fig9b", "fig10a", "fig10b", "fig11a", "fig11b")
#: The figures whose values are measured; the others are emulated.
MEASURED = ("7", "8A", "8B", "6")
PARTS = ("job object", "assignment", "tables", "master start", "go")


def lines(documents: Mapping[str, Document], live: Mapping[str, Document]) -> list[str]:
    """Returns the part of the page."""
    found = ["## Claims", "", *claims_table(claims(documents, live))]
    found += ["", "## 16,384 nodes with up to 128 tasks each", ""]
    found += markdown(
        ("the central part", "aim", "ours", ""),
        [(aim.what, aim.paper, aim.ours, aim.verdict) for aim in aims(documents)],
    )
    found += ["", *_parts(documents), "", "## Live and emulated", "", *section(live), ""]
    found += ["## Figures", ""]
    for figure, title in TITLES.items():
        if figure not in documents:
            continue
        if figure in PICTURED:
            found += [f"![{title.text}](figures/{file_name(figure, 'svg')})", ""]
    found += ["All values:", ""]
    found += [
        f"- [{title.text}]({file_name(figure, 'txt')})"
        for figure, title in TITLES.items()
        if figure in documents
    ]
    return found


def _parts(documents: Mapping[str, Document]) -> list[str]:
    """Returns the five parts of the dispatch time, at the middle costs."""
    rows = [
        row
        for figure in ("fig9b", "fig9-16k")
        for row in documents.get(figure, {}).get("summary", ())
        if row["costs"] == MIDDLE and row["x"] in (1, 32, 128)
    ]
    if not rows:
        return ["No dispatch time was emulated yet."]
    cells = [
        (
            *(row["series"], str(row["nodes"]), str(row["x"])),
            *(f"{row[part] * 1e3:.2f}" for part in (*PARTS, "total")),
        )
        for row in rows
    ]
    table = markdown(("", "nodes", "tasks", *PARTS, "all"), cells)
    return ["Dispatch times in ms, with the middle costs:", "", *table]


def stored(
    page: Path, documents: Mapping[str, Document], live: Mapping[str, Document]
) -> Stored:
    """Returns the claims of the part with what the table of all papers shows of them."""
    return Stored(
        name=PART,
        page=page.name,
        how="emulated",
        command="scripts/dev bench startup",
        claims=tuple(claims(documents, live)),
        pictures={
            figure.removeprefix("fig").upper(): f"figures/{file_name(figure, 'svg')}"
            for figure in PICTURED
        },
        otherwise={**dict.fromkeys(MEASURED, "measured"), LIVE_CHUNKS: "live"},
    )


def file_name(figure: str, ending: str) -> str:
    """Returns the name of a figure's picture (svg) or values (txt)."""
    return f"brelsford_{figure}.{ending}"


def write(
    page: Path, documents: Mapping[str, Document], live: Mapping[str, Document]
) -> None:
    """Writes the part of the page, the pictures and the values."""
    rewrite(page, PART, "\n".join(lines(documents, live)))
    keep(page, stored(page, documents, live))
    folder = page.parent
    for figure, document in documents.items():
        (folder / file_name(figure, "txt")).write_text(text(document))
        if figure in PICTURED:
            picture = folder / "figures" / file_name(figure, "svg")
            draw(document, picture)
