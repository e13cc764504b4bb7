"""Compares schedules by the queue's knowledge of run times on other numbers of nodes.

It knows the true model, fits what it measures, or uses what programs predict, each time off
by up to some percent (``sim.malleable.true_times``). The decisions of these policies depend
on it. Short takes nodes from the jobs with most time left. EASY reserves nodes by expected
ends. A least benefit weighs saved time against the cost of a change. The even and
low-impact harvests alone do not depend on it.

The jobs are those of the model of SDSC's log, and the problems of Table 1 with the cost of
their changes. All run times are parabolic.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from cosched.core.cluster.queue.sizes.settings import Control
from cosched.sim.malleable.malleable_runs import (
    MalleableOutcome,
    MalleableRun,
    Source,
    cases_of,
    repeated,
)
from cosched.sim.malleable.true_times import FIT_WORD, KNOWN_WORD
from cosched.tables import markdown

HOUR = 3600
WORDS = (KNOWN_WORD, FIT_WORD, "0%", "10%", "30%")
MINIMUM = 30
LOAD, BETA = 0.7, 0.5
#: The source of jobs, the policies, and their control.
COMPARED = (
    ("sdsc", ("short-fr", "even-easy", "low-impact-easy"), Control()),
    ("mixed", ("even-fr", "low-impact-fr"), Control(least_benefit=1.0)),
)


def runs_of(repeat: int, count: int) -> list[MalleableRun]:
    """Returns the runs of all streams."""
    runs = []
    for name, policies, control in COMPARED:
        source = Source(
            name=name,
            count=count,
            seed=0,
            beta=BETA,
            machine=None,
            strict=False,
            load=None if name == "mixed" else LOAD,
        )
        cases = cases_of(policies, [None], [MINIMUM], predict=WORDS)
        runs += repeated(MalleableRun(source, "parabolic", control, cases), repeat)
    return runs


def table_of(outcomes: Sequence[MalleableOutcome]) -> str:
    """Returns mean wait and total in hours as Markdown, a row for each policy."""
    rows = []
    for name, policies, control in COMPARED:
        worth = f", benefit of {control.least_benefit:g}" if control.least_benefit else ""
        for policy in policies:
            cells = [_cell(outcomes, name, policy, word) for word in WORDS]
            rows.append((f"{name}{worth}", policy, *cells))
    head = ("jobs", "policy", "known", "fit", "exact", "off by 10%", "off by 30%")
    return "\n".join(markdown(head, rows)) + "\n"


def _cell(outcomes: Sequence[MalleableOutcome], name: str, policy: str, word: str) -> str:
    found = [
        figures
        for outcome in outcomes
        if outcome.run.source.name == name
        for case, figures in zip(outcome.run.cases, outcome.figures, strict=True)
        if (case.policy, case.predict) == (policy, word)
    ]
    means = (
        fmean(figures[column] for figures in found) / HOUR
        for column in ("mean_wait_s", "mean_total_s")
    )
    return " / ".join(f"{mean:.2f}" for mean in means)
