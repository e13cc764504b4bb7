"""Real logs in which a part of the jobs is malleable.

Zojer, Posner and Özden (2026, ElastiSim; logs of Cori, Eagle and Theta) compare shares of 0
to 100% malleable jobs. Here a job that is malleable may have from half of its size in the
log, and at most that size, or twice as much. It may prefer its size in the log: then it
grows beyond that only while no job waits. Or it never has less. The plans are first come
first served with sizes that change (``even-fr``, as in Weissman et al.), and EASY with
sizes that change (``even-easy``). Both compare with the rigid log under fcfs and under
EASY. Run times are known and linear, and changes are free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path

from benchmarks.experiments.verdicts import Measured, over_cases
from cosched.core.cluster.queue.sizes.settings import Control
from cosched.sim.logs.opening import log_name
from cosched.sim.malleable.malleable_runs import (
    MalleableOutcome,
    MalleableRun,
    Source,
    cases_of,
    repeated,
)
from cosched.tables import markdown

HOUR = 3600
SHARES = (20, 40, 60, 80, 100)
WHOLE = 100
#: The least, the preferred and the greatest size of malleable jobs, in percent of that in
#: the log; None: the greatest one.
SIZES = ((50, None, WHOLE), (50, None, 200), (50, WHOLE, 200), (WHOLE, WHOLE, 200))
RIGID = ("ideal-only", "ideal-easy")
PLANS = ("even-fr", "even-easy")
#: Which jobs are malleable is drawn so often.
DRAWS = 3


def runs_of(logs: Iterable[Path]) -> list[MalleableRun]:
    """Returns the runs of each log: the rigid one first, then all draws."""
    runs = []
    for path in logs:
        rigid = cases_of(RIGID, [None], [WHOLE], [0])
        runs.append(MalleableRun(_source(path, WHOLE), "linear", Control(), rigid))
        for least, preferred, most in SIZES:
            cases = cases_of(PLANS, [None], [least], SHARES)
            source = _source(path, most, preferred)
            runs += repeated(MalleableRun(source, "linear", Control(), cases), DRAWS)
    return runs


def _source(path: Path, most: int, preferred: int | None = None) -> Source:
    return Source(
        name=str(path),
        count=0,
        seed=0,
        beta=0.0,
        machine=None,
        strict=False,
        most=most,
        preferred=preferred,
    )


def table_of(outcomes: Sequence[MalleableOutcome]) -> str:
    """Returns a table for each log as Markdown: hours, and changes against rigid EASY."""
    by_log: dict[str, list[MalleableOutcome]] = {}
    for outcome in outcomes:
        by_log.setdefault(outcome.run.source.name, []).append(outcome)
    return "\n".join(_table(name, each) for name, each in by_log.items())


def _table(name: str, outcomes: Sequence[MalleableOutcome]) -> str:
    rigid = outcomes[0]
    by_queue = dict(zip(RIGID, rigid.figures, strict=True))
    easy = by_queue["ideal-easy"]
    rows = [
        ("0%", "100%", "100%", "100%",
         f"rigid, {'fcfs' if queue == 'ideal-only' else 'EASY'}",
         *_cells([figures], easy))
        for queue, figures in by_queue.items()
    ]  # fmt: skip
    for (least, preferred, most), plan, share in product(SIZES, PLANS, SHARES):
        found = [
            figures
            for outcome in outcomes[1:]
            if (outcome.run.source.preferred, outcome.run.source.most) == (preferred, most)
            for case, figures in zip(outcome.run.cases, outcome.figures, strict=True)
            if (case.percent, case.policy, case.share) == (least, plan, share)
        ]
        sizes = (f"{least}%", f"{preferred or most}%", f"{most}%")
        rows.append((f"{share}%", *sizes, plan, *_cells(found, easy)))
    jobs, nodes = rigid.figures[0]["jobs"], rigid.nodes
    head = ("malleable", "least", "preferred", "most", "plan", "wait, h", "total, h")
    changes = ("wait", "total", "makespan")
    log = "-".join(log_name(Path(name)).split("-")[:3])
    title = f"{log}: {jobs:,.0f} jobs, {nodes:,} nodes"
    return "\n".join([f"{title}\n", *markdown((*head, *changes), rows)]) + "\n"


def _cells(found: Sequence[Mapping[str, float]], easy: Mapping[str, float]) -> list[str]:
    """Returns mean hours, and the least and greatest change against rigid EASY."""
    hours = [
        f"{over(found, column).middle / HOUR:.2f}"
        for column in ("mean_wait_s", "mean_total_s")
    ]
    changes = [
        _change(over(found, column), easy[column], inverse=column == "throughput_per_h")
        for column in ("mean_wait_s", "mean_total_s", "throughput_per_h")
    ]
    return [*hours, *changes]


def over(found: Sequence[Mapping[str, float]], column: str) -> Measured:
    """Returns a figure over all draws."""
    return over_cases(figures[column] for figures in found)


def _change(ours: Measured, theirs: float, *, inverse: bool) -> str:
    ratios = [end / theirs for end in (ours.low, ours.high)]
    ends = sorted((1 / ratio if inverse else ratio) - 1 for ratio in ratios)
    low, high = (f"{100 * end:+.0f}%" for end in ends)
    return low if low == high else f"{low} to {high}"
