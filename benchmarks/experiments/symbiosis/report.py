"""The symbiosis experiment as a section of a page: paper and result side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.experiments.claims import Claim, claims_table
from benchmarks.experiments.symbiosis.claims import CLAIMS, claims
from cosched.tables import markdown

Result = Mapping[str, Any]

#: The part that the page shows as a picture, and the picture's title.
PICTURES: Mapping[str, str] = {"stream": "the stream under each placement"}


def section(results: Mapping[str, Result]) -> str:
    """Returns the section with all existing parts in the paper's order, and the gaps."""
    there = [part for part in CLAIMS if part in results]
    missing = [part for part in CLAIMS if part not in results]
    lines = claims_table(all_claims(results))
    if missing:
        lines += ["", f"Not measured yet: {', '.join(missing)}."]
    lines += ["", *_quiet(results)]
    lines += [
        f"![{title}](figures/symbiosis_{part}.png)"
        for part, title in PICTURES.items()
        if part in there
    ]
    if "stream" in results:
        lines += ["", *_streams(results["stream"])]
    if "log" in results:
        log = results["log"]
        lines += ["", f"The log, labels drawn {log['seeds']} times:", "", "```text"]
        lines += [*log["text"].rstrip().splitlines(), "```"]
    return "\n".join(lines)


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
