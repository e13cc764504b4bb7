"""The symbiosis experiment as parts of a page: paper and result side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.experiments.claims import RECOMPUTED, Claim, claims_table
from benchmarks.experiments.stored import Stored
from benchmarks.experiments.symbiosis.claims import CLAIMS, claims
from benchmarks.experiments.symbiosis.measured import FIGURES
from cosched.tables import markdown

Result = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PagePicture:
    """A picture of the page."""

    file: str  #: from the page's folder
    title: str  #: the text in its place
    source: str  #: the figure or section of the paper


@dataclass(frozen=True, slots=True)
class PagePart:
    """A part of the page: the results on one kind of node."""

    name: str  #: it is in the markers of the page. The file of claims has it, too.
    parts: Sequence[str]  #: the parts of the experiment, in the paper's order
    how: str  #: where the figures are from, as in ``Stored``
    command: str  #: makes the figures, without its folder
    pictures: Mapping[str, PagePicture]  #: by the part of the experiment
    otherwise: Mapping[str, str] = field(default_factory=dict)  #: as in ``Stored``
    setting: str = ""  #: in words
    again: bool = False  #: as in ``Stored``

    def section(self, results: Mapping[str, Result]) -> str:
        """Returns the section: existing parts in the order of the paper, and the gaps."""
        there = [part for part in self.parts if part in results]
        missing = [part for part in self.parts if part not in results]
        lines = claims_table(all_claims(results))
        if missing:
            lines += ["", f"Not measured yet: {', '.join(missing)}."]
        lines += ["", *_quiet(results)]
        lines += [
            f"![{picture.title}]({picture.file})"
            for part, picture in self.pictures.items()
            if part in there
        ]
        if "stream" in results:
            lines += ["", *_streams(results["stream"])]
        if "log" in results:
            log = results["log"]
            lines += ["", f"The log, labels drawn {log['seeds']} times:", "", "```text"]
            lines += [*log["text"].rstrip().splitlines(), "```"]
        return "\n".join(lines)

    def stored(self, page: Path, results: Mapping[str, Result]) -> Stored:
        """Returns the claims with what the table of all papers shows of them."""
        return Stored(
            name=self.name,
            page=page.name,
            how=self.how,
            command=self.command,
            claims=tuple(all_claims(results)),
            setting=self.setting,
            pictures={each.source: each.file for each in self.pictures.values()},
            otherwise=dict(self.otherwise),
            again=self.again,
        )


#: The results on this machine, and in virtual time.
ON_MACHINE = PagePart(
    name="symbiosis",
    parts=tuple(CLAIMS),
    how="measured",
    command="scripts/dev bench symbiosis all",
    pictures={
        "stream": PagePicture(
            "figures/symbiosis_stream.png", "the stream under each placement", "2.4"
        )
    },
    otherwise={
        **dict.fromkeys(("2.4", "3", "3.3", "5"), "simulated"),
        **dict.fromkeys(("Table 3", "Table 4"), RECOMPUTED),
    },
)
#: The results on a node whose memory bus and disk are emulated.
ON_EMULATED_NODE = PagePart(
    name="symbiosis-emulated",
    parts=(*FIGURES, "table1", "table2"),
    how="emulated",
    command="scripts/dev bench symbiosis fig1 fig2 fig3 fig4 table1 table2 --node emulated",
    pictures={
        part: PagePicture(
            f"figures/symbiosis_emulated_{part}.png",
            f"slowdown of {name} on the emulated node",
            f"Fig. {part[-1]}",
        )
        for part, name in FIGURES.items()
    },
    setting="emulated memory bus and disk",
    again=True,
)


def all_claims(results: Mapping[str, Result]) -> list[Claim]:
    """Returns the claims of all existing parts in the paper's order."""
    return [one for part in CLAIMS if part in results for one in claims(part, results)]


def _quiet(results: Mapping[str, Result]) -> Iterator[str]:
    """How quiet the machine was while the figures were measured."""
    quiet = [result["quiet"] for result in results.values() if "quiet" in result]
    if not quiet:
        return
    median, most, stolen = (
        max(one[key] for one in quiet)
        for key in ("outside_median", "outside_most", "stolen_most")
    )
    cpus = next(result["cpus"] for result in results.values() if "quiet" in result)
    rounds = min(result["repeat"] for result in results.values() if "quiet" in result)
    yield (
        f"Measured on {cpus} CPUs, medians of {rounds} or more. Others used {median:.1%} "
        f"of the machine meanwhile (the most in a sample: {most:.1%}; taken by the host: "
        f"{stolen:.1%})."
    )
    yield ""


def _streams(streams: Result) -> Iterator[str]:
    cell = {(row["order"], row["queue"], row["placement"]): row for row in streams["rows"]}
    columns = list(dict.fromkeys((order, queue) for order, queue, _ in cell))
    yield (
        f"Makespans of streams, means of {streams['repeat']}; speedup over whole nodes for "
        "each job, and"
    )
    yield "over packed ones:"
    yield ""
    rows = [
        (
            name,
            *(
                f"{cell[order, queue, name]['over_whole']:.2f}, "
                f"{cell[order, queue, name]['over_packed']:.2f}"
                for order, queue in columns
            ),
        )
        for name in dict.fromkeys(row["placement"] for row in streams["rows"])
    ]
    head = ("", *(f"{order}, {queue} queued" for order, queue in columns))
    yield from markdown(head, rows)
    split, packed = (cell["largest", 12, name] for name in ("split", "packed"))
    yield ""
    yield (
        f"Of the prototype's {split['compared_over_whole']:.2f}, "
        f"{packed['compared_over_whole']:.2f} comes with two small jobs on a node alone."
    )
