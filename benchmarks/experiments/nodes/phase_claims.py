"""The claims of Yoo and Jette (2001) about messages alone on eight nodes and more. Pure.

GMET is a third of the slice, as in the paper. A run in which nodes agree is one whose
efficiency is ``TOGETHER`` or more; an order is looked for in each seed. The two jobs are
equal and share the time, so the time of both stands for their mean response.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.experiments.claims import Claim, counted, judged, near
from benchmarks.experiments.nodes.phase_cases import TOGETHER, Ended, by_place
from benchmarks.experiments.verdicts import over_cases

#: The paper's GMET is a third of its slice, which is 7.5 s here.
THIRD = "2.5s"
#: A run with less efficiency counts as this: nodes that never agree may do no step at all.
LEAST_EFFICIENCY = 0.001
MINORITY = (
    "a message of one node pulls as strongly as those of seven, so a minority draws the "
    "majority as often as it follows"
)
LONG = "each tick of a node's timer begins a disagreement, and a longer slice has fewer"


def claims_of(ended: Sequence[Ended], kernel: Sequence[float]) -> list[Claim]:
    """Returns the claims. kernel: the efficiencies of the kernel alone at 8 nodes, by
    seed."""
    grid, by_slice = by_place(ended, "nodes"), by_place(ended, "slice")
    alone = over_cases(kernel, repeated=len(kernel) > 1)
    papers = [max(LEAST_EFFICIENCY, one) for one in grid["8", THIRD]]
    ratios = alone.over(over_cases(papers, repeated=len(papers) > 1))
    return [
        judged("2", "time of both jobs to the kernel's at 8 nodes, many messages", "0.50",
               ratios,
               near(0.5, None, 1), why=MINORITY),
        _together("2", "messages bring the nodes together: 2 nodes", "", grid["2", THIRD]),
        _together("2", "4 nodes", "", grid["4", THIRD]),
        _together("2", "messages bring eight nodes together", "yes", grid["8", THIRD]),
        _together("1", "messages bring many nodes together: 16 nodes", "yes",
                  grid["16", THIRD]),
        _worse("5", "at 8 nodes too short a GMET harms (500 ms)", "drops sharply",
               grid["8", "500ms"], grid["8", THIRD], MINORITY),
        _worse("5", "at 8 nodes too long a GMET harms a little (3.5 s)", "rises a little",
               grid["8", "3.5s"], grid["8", THIRD], MINORITY),
        _worse("6", "at 8 nodes a longer slice is worse (30 s to 4 s, GMET 2 s)", "rises",
               by_slice[("30s",)], by_slice[("4s",)], LONG),
        judged("2", "the kernel's efficiency at 8 nodes", "", alone),
    ]  # fmt: skip


def _together(source: str, what: str, paper: str, found: Sequence[float]) -> Claim:
    """Returns the claim that nodes agree, over the seeds."""
    return counted(source, what, paper, (one >= TOGETHER for one in found), why=MINORITY)


def _worse(
    source: str,
    what: str,
    paper: str,
    ours: Sequence[float],
    other: Sequence[float],
    why: str,
) -> Claim:
    """Returns the claim that efficiencies are less than others, seed by seed."""
    pairs = zip(ours, other, strict=True)
    return counted(source, what, paper, (one < two for one, two in pairs), why=why)
