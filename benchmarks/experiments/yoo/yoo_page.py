"""Writes docs/results/yoo.md's generated part: the claims of Yoo and Jette beside ours.

The part between the page's two marks is replaced; the rest of the page stays as it is.
Each folder that is given holds the results with one MPI and becomes one section. A figure
whose JSON the folder holds adds its claims to the section's table, and a text file with its
seconds, to which the page links. The page shows one picture an MPI.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.experiment import Bench, in_one_line
from benchmarks.experiments.claims import claims_table
from benchmarks.experiments.section import check, rewrite
from benchmarks.experiments.stored import Stored, keep
from benchmarks.experiments.yoo.claims import claims
from benchmarks.experiments.yoo.figures import draw
from benchmarks.experiments.yoo.plans import PLANS, ROOT
from benchmarks.experiments.yoo.yoo_table import text_table
from cosched.core.errors import CoschedError
from cosched.documents import read_json

NAME = "yoo"
#: The figures that the page shows as pictures.
PICTURED = ("fig2", "fig3", "fig4", "fig5", "fig6")


def read(folder: Path) -> list[dict[str, Any]]:
    """Returns the figures in the folder, in the paper's order."""
    paths = [folder / f"{figure}.json" for figure in PLANS]
    found = [read_json(path) for path in paths if path.exists()]
    if not found:
        raise CoschedError(
            f"{folder}: no figure's JSON is there; make one: scripts/dev bench yoo fig2 "
            f"--out {folder}"
        )
    return found


def section(name: str, documents: Sequence[dict[str, Any]]) -> list[str]:
    """Returns the lines on the figures of one MPI. name: a suffix of their files."""
    lines = [f"## {_made_with(documents[0])}", "", "```"]
    lines += dict.fromkeys(_command(document) for document in documents)
    found = [claim for document in documents for claim in claims(document)]
    lines += ["```", "", *claims_table(found), ""]
    for document in documents:
        if document["figure"] in PICTURED:
            picture = file_name(name, document, "svg")
            lines += [f"![{document['title']}](figures/{picture})", ""]
    lines += ["Seconds of each figure:", ""]
    for document in documents:
        lines += [f"- [{document['title']}]({file_name(name, document, 'txt')})"]
    return [*lines, ""]


def stored(name: str, documents: Sequence[dict[str, Any]]) -> Stored:
    """Returns the claims on one MPI's figures, with what the table of all papers shows of
    them. name: a suffix of the files."""
    return Stored(
        name=f"yoo_{name}" if name else "yoo",
        page="yoo.md",
        how="live",
        command="scripts/dev bench yoo all",
        claims=tuple(claim for document in documents for claim in claims(document)),
        setting=_made_with(documents[0]).partition(",")[0],
        pictures={
            document["figure"].removeprefix(
                "fig"
            ): f"figures/{file_name(name, document, 'svg')}"
            for document in documents
            if document["figure"] in PICTURED
        },
    )


def _command(document: dict[str, Any]) -> str:
    """Returns the command that makes the figure, without folder and launcher."""
    words = ["scripts/dev", "bench", "yoo", document["figure"]]
    words += ["--scale", document["scale"]] if document["scale"] != "lab" else []
    words += ["--repeats", str(document["repeats"])]
    return " ".join(words)


def _made_with(document: dict[str, Any]) -> str:
    mpi = document["mpi"]
    titles = {"mpich": "MPICH", "openmpi": "Open MPI"}
    family = f"{titles.get(mpi['family'], mpi['family'])} {mpi['version']}, " if mpi else ""
    kind = "lab nodes" if document["lab"] else "nodes"
    linux = document["kernel"].partition("-")[0]  # the rest names a distribution's build
    return f"{family}{len(document['hosts'])} {kind}, Linux {linux}"


def file_name(name: str, document: dict[str, Any], ending: str) -> str:
    """Returns the name of the figure's file: its picture (svg) or its seconds (txt)."""
    return f"yoo_{document['figure']}{'_' + name if name else ''}.{ending}"


def write_files(folder: Path, name: str, documents: Sequence[dict[str, Any]]) -> None:
    """Writes the text of each figure, and the picture that the page shows."""
    for document in documents:
        text = "\n".join(line.rstrip() for line in text_table(document).splitlines())
        (folder / file_name(name, document, "txt")).write_text(text + "\n")
        if document["figure"] in PICTURED:
            draw(document, folder / "figures" / file_name(name, document, "svg"))


def main(words: Sequence[str] | None = None) -> None:
    bench = Bench("yoo_page", __doc__, "results/openmpi results/mpich")
    bench.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    bench.add_page()
    bench.set_defaults(docs=ROOT / "docs/results/yoo.md")
    options = bench.parse(words)
    with in_one_line("yoo_page"):
        check(options.docs, NAME)
        several = len(options.folders) > 1
        parts = [(f.name if several else "", read(f)) for f in options.folders]
        lines = [line for name, documents in parts for line in section(name, documents)]
        rewrite(options.docs, NAME, "\n".join(lines))
        for name, documents in parts:
            write_files(options.docs.parent, name, documents)
            keep(options.docs, stored(name, documents))


if __name__ == "__main__":
    main()
