"""What Weinberg and Snavely say of BTIO in Tables 1 and 2, and what was found. Pure.

BTIO is measured itself; the kernels stream and gups stand for CG and IS. The paper gives DT
no figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.experiments.claims import Claim, near
from benchmarks.experiments.symbiosis.measured import PAPER_1, PAPER_2
from benchmarks.experiments.symbiosis.reasons import (
    DISK_WHY,
    MEMORY_WHY,
    NO_EFFECT,
    median,
)
from benchmarks.experiments.verdicts import Near
from benchmarks.kernels.build import JOBS


def in_table1(document: Mapping[str, Any]) -> list[Claim]:
    """Returns the claims about each way of BTIO that was measured."""
    result = []
    for name, found in document["speedups"].items():
        if name in PAPER_1 and name in JOBS:
            title, paper = PAPER_1[name]
            what = f"{title} gains from a free other half"
            result.append(_speedup("Table 1", what, document, paper, found, DISK_WHY))
    return result


def in_table2(document: Mapping[str, Any]) -> list[Claim]:
    """Returns the claims about each way of BTIO beside CG and IS, and about these."""
    rows, result = document["applications"], []
    for (kernel, job), (of_kernel, of_job) in PAPER_2.items():
        if kernel not in rows or job not in rows:
            continue
        one, other = PAPER_1[kernel][0], PAPER_1[job][0]
        for paper, what, found, why in (
            (of_kernel, f"{one} beside {other}", rows[kernel]["beside"][job], MEMORY_WHY),
            (of_job, f"{other} beside {one}", rows[job]["beside"][kernel], DISK_WHY),
        ):
            result.append(_speedup("Table 2", what, document, paper, found, why))
    return result


def _speedup(
    source: str,
    what: str,
    document: Mapping[str, Any],
    paper: float,
    found: float,
    why: str,
) -> Claim:
    return Claim(
        source,
        what,
        f"{paper:.2f}",
        f"{found:.2f}",
        median(document, found),
        _judge_of(paper),
        why=why,
    )


def _judge_of(paper: float) -> Near:
    """Returns the judge of a speedup. A large one is on one side of 1. A small one counts
    as no effect, and has no side."""
    if abs(paper - 1) < NO_EFFECT:
        return near(paper)
    return near(paper, no_effect=1)
