"""The prototype's live streams: a table, and the claim beside the paper's. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.experiments.claims import Claim, claims_table, judged, near
from benchmarks.experiments.stored import Stored
from benchmarks.experiments.verdicts import over_cases
from cosched.sim.symbiotic.symbiotic_runs import PROTOTYPE
from cosched.tables import markdown, table

WHOLE = "whole"
ARMS = (WHOLE, "split", "labels", "learned")
#: The figures of both, and their names in the table.
QUANTITIES: Mapping[str, str] = {
    "compared_s": "counted jobs, s",
    "makespan_s": "makespan, s",
    "mean_wait_s": "wait, s",
    "mean_speed": "speed",
}
HEAD = ("placement", "figure", "live", "sim", "live is", "whole/", "sim")
#: The part of the page.
PART = "symbiosis-live"
#: The paper's gain of the prototype on its stream.
PAPER_GAIN = 1.20

Runs = Sequence[Mapping[str, Any]]


def text_of(runs: Runs) -> str:
    """Returns the table of the streams: medians over them."""
    lines = table(HEAD, list(_rows(runs)), "<<>>>>>")
    counted = [run["live"][PROTOTYPE]["compared_jobs"] for run in runs]
    lines.append(f"counted jobs: {', '.join(f'{count:g}' for count in counted)}")
    lines.append(
        f"paper: {PAPER_GAIN:.2f} for split, 87 jobs counted; emulated bus and disk"
    )
    return "\n".join(lines)


def _rows(runs: Runs) -> Iterator[tuple[str, ...]]:
    for arm in ARMS:
        for name, title in QUANTITIES.items():
            live = [run["live"][arm][name] for run in runs]
            sim = [run["simulated"][arm][name] for run in runs]
            off = [one / other - 1.0 for one, other in zip(live, sim, strict=True) if other]
            gains = [gains_of(runs, way, arm, name) for way in ("live", "simulated")]
            yield (
                arm,
                title,
                f"{statistics.median(live):.2f}",
                f"{statistics.median(sim):.2f}",
                f"{_farthest(off):+.0%}" if off else "-",
                *(f"{statistics.median(gain):.2f}" if gain else "-" for gain in gains),
            )


def _farthest(off: Sequence[float]) -> float:
    """Returns the greatest of the differences, with its sign."""
    return max(off, key=abs)


def gains_of(runs: Runs, way: str, arm: str, name: str) -> list[float]:
    """Returns a figure on whole nodes over that of an arm, for each stream. way: ``live``
    or ``simulated``."""
    return [
        run[way][WHOLE][name] / run[way][arm][name] for run in runs if run[way][arm][name]
    ]


def claims_of(runs: Runs) -> list[Claim]:
    """Returns the claims about live streams."""
    gains = gains_of(runs, "live", PROTOTYPE, "compared_s")
    return [
        judged(
            "2.4",
            "the prototype on 100-job streams, over whole nodes for each job",
            f"{PAPER_GAIN:.2f}",
            over_cases(gains, repeated=len(runs) > 1) if gains else None,
            near(PAPER_GAIN, no_effect=1),
        )
    ]


def section(runs: Runs) -> str:
    """Returns the part of the page."""
    streams = ", ".join(str(run["seed"]) for run in runs)
    lines = claims_table(claims_of(runs))
    lines += [
        "",
        f"Streams {streams}: medians, and the greatest difference of a stream:",
        "",
    ]
    return "\n".join([*lines, *markdown(HEAD, list(_rows(runs)))])


def stored(page: Path, runs: Runs) -> Stored:
    """Returns the claims with what the table of all papers shows of them."""
    return Stored(
        name=PART,
        page=page.name,
        how="live",
        command="scripts/dev bench symbiosis_live",
        claims=tuple(claims_of(runs)),
        setting="emulated memory bus and disk",
    )
