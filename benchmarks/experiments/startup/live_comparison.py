"""Sets live figures beside the emulator. Pure but for the emulation itself.

A live figure is a document (``documents``) with ``live`` true, in ``live-FIGURE.json``. The
emulator gets each point's start and the costs that were calibrated live; a point may have
some of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.experiments.startup.documents import Document, read
from benchmarks.experiments.startup.emulate import QUANTITIES
from benchmarks.experiments.verdicts import Measured, over_cases
from cosched.core.errors import CoschedError
from cosched.sim.startup.costs import Costs
from cosched.sim.startup.model import StartupRun
from cosched.sim.startup.startup_runs import carry_out
from cosched.tables import markdown

#: The emulator is right if it is so near the live time.
WITHIN = 0.15


@dataclass(frozen=True, slots=True)
class Beside:
    """A point, live and emulated."""

    figure: str  #: the key of its figure: fig9a
    series: str  #: the line that it is on
    x: int  #: its place on the axis
    live: Measured  #: seconds, over the live starts
    emulated: float  #: seconds

    @property
    def off(self) -> float:
        """By which share the emulated time is above the live one."""
        return self.emulated / self.live.middle - 1.0


def read_live(folder: Path) -> dict[str, Document]:
    """Returns the live figures in a folder by figure; CoschedError for a faulty one."""
    found: dict[str, Document] = {}
    for path in sorted(folder.glob("live-*.json")):
        document = read(path)
        missing = {"costs", "quantity"} - set(document)
        if not document["live"] or missing:
            raise CoschedError(
                f"{path}: a live figure has live, costs and quantity, each point has run"
            )
        found[document["figure"]] = document
    return found


def beside(document: Document) -> Iterator[Beside]:
    """Emulates each point of a live figure."""
    for point in document["points"]:
        costs = Costs(**{**document["costs"], **point.get("costs", {})})
        run = StartupRun(**point["run"], costs=costs)
        emulated = QUANTITIES[document["quantity"]](carry_out(run))
        live = over_cases(point["values"].values())
        yield Beside(document["figure"], point["series"], point["x"], live, emulated)


def section(documents: Mapping[str, Document]) -> list[str]:
    """Returns the part of the page on live points."""
    rows = [row for document in documents.values() for row in beside(document)]
    if not rows:
        return ["No point was measured live yet."]
    right = sum(abs(row.off) <= WITHIN for row in rows)
    head = ("Fig.", "", "at", "live, ms", "emulated, ms", "off")
    return [
        *markdown(head, map(_cells, rows)),
        "",
        f"{right} of {len(rows)} are within {WITHIN:.0%}.",
    ]


def _cells(row: Beside) -> Sequence[str]:
    live = f"{row.live.middle * 1e3:.2f}"
    if row.live.low != row.live.high:
        live += f" ({row.live.low * 1e3:.2f} to {row.live.high * 1e3:.2f})"
    off = f"{row.off:+.0%}"
    return (
        row.figure.removeprefix("fig").upper(),
        row.series,
        str(row.x),
        live,
        f"{row.emulated * 1e3:.2f}",
        off if abs(row.off) <= WITHIN else f"**{off}**",
    )
