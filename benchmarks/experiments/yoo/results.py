"""Writes the section on Yoo and Jette into docs/results.md, from what yoo.py left.

Between two marks in the page everything is replaced; the rest stays as it is. Each figure
whose JSON the folder holds gets its claims beside the paper's, its picture and its table;
``--note FILE`` puts a paragraph of one's own (Markdown) before them, on why they differ.
Folders of several MPIs may be given; each is a part of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.experiments.section import marks, replaced
from benchmarks.experiments.yoo.claims import claims, rows
from benchmarks.experiments.yoo.figures import draw
from benchmarks.experiments.yoo.plans import PLANS, ROOT
from benchmarks.experiments.yoo.table import text_table
from cosched.core.errors import CoschedError

NAME = "yoo"
BEGIN, END = marks(NAME)
TITLE = "## Yoo and Jette 2001: a coscheduling technique, Figs. 2 to 6"
HEAD = ["| claim | paper | ours | |", "|---|---|---|---|"]


def read(folder: Path) -> list[dict[str, Any]]:
    """The figures in the folder, in the paper's order."""
    paths = [folder / f"{figure}.json" for figure in PLANS]
    found = [json.loads(path.read_text()) for path in paths if path.exists()]
    if not found:
        raise CoschedError(
            f"{folder}: no figure's JSON is there; make one: scripts/dev bench yoo fig2 "
            f"--out {folder}"
        )
    return found


def section(folders: Sequence[tuple[str, list[dict[str, Any]]]], note: str) -> str:
    """The section. folders: a name for pictures' files, and the figures, of each."""
    lines = [TITLE, ""]
    lines += [note.strip(), ""] if note.strip() else []
    for name, documents in folders:
        lines += _part(name, documents)
    return "\n".join(lines).rstrip() + "\n"


def _part(name: str, documents: Sequence[dict[str, Any]]) -> list[str]:
    lines = [f"### {_made_with(documents[0])}", "", "```"]
    lines += dict.fromkeys(_command(document) for document in documents)
    lines += ["```", "", *HEAD]
    for document in documents:
        lines += rows(claims(document))
    for document in documents:
        lines += ["", f"![{document['title']}](figures/{picture(name, document)})", ""]
        lines += [f"    {line}".rstrip() for line in text_table(document).splitlines()]
    return [*lines, ""]


def _command(document: dict[str, Any]) -> str:
    """How the figure is made; the folder and the launcher's path are everybody's own."""
    words = ["scripts/dev", "bench", "yoo", document["figure"]]
    words += ["--scale", document["scale"]] if document["scale"] != "lab" else []
    words += ["--repeats", str(document["repeats"])]
    return " ".join(words)


def _made_with(document: dict[str, Any]) -> str:
    mpi = document["mpi"]
    titles = {"mpich": "MPICH", "openmpi": "Open MPI"}
    family = f"{titles.get(mpi['family'], mpi['family'])} {mpi['version']}, " if mpi else ""
    kind = "lab nodes" if document["lab"] else "nodes"
    linux = document["kernel"].partition("-")[0]  # what follows names somebody's build
    return f"{family}{len(document['hosts'])} {kind}, Linux {linux}"


def picture(name: str, document: dict[str, Any]) -> str:
    """The picture's file in docs/figures."""
    return f"yoo_{document['figure']}{'_' + name if name else ''}.svg"


def placed(page: str, text: str) -> str:
    """The page with the section between its marks; at the end if there are none yet."""
    if BEGIN not in page and END not in page:
        page = page.rstrip("\n") + f"\n\n{BEGIN}{END}"
    return replaced(page, NAME, text)


def main(words: Sequence[str] | None = None) -> int:
    """0, or 1 with one line on what is wrong."""
    parser = argparse.ArgumentParser(
        prog="scripts/dev bench yoo_results",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: scripts/dev bench yoo_results results/openmpi results/mpich",
    )
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--note", type=Path, metavar="FILE", help="a paragraph of Markdown")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="(docs)")
    options = parser.parse_args(words)
    try:
        several = len(options.folders) > 1
        parts = [(f.name if several else "", read(f)) for f in options.folders]
        note = options.note.read_text() if options.note else ""
        page = options.docs / "results.md"
        page.write_text(placed(page.read_text(), section(parts, note)))
        for name, documents in parts:
            for document in documents:
                draw(document, [options.docs / "figures" / picture(name, document)])
    except (CoschedError, OSError) as error:
        print(f"yoo_results: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
