"""The claims of section 4.4 of Weissman et al. (2003), and whether they hold here.

Each claim is an ordering or a value (``verdicts``). A comparison of two means allows for a
hundredth: streams are random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise, product

import msgspec

from benchmarks.experiments.claims import TUNED, Claim, near
from benchmarks.experiments.malleable.findings import Findings
from benchmarks.experiments.malleable.points import (
    BASELINES,
    BEST,
    DEGREES,
    EXAMINED,
    EXECUTIONS,
    PERCENTS,
    system,
)
from benchmarks.experiments.malleable.points import Measured as Figures
from benchmarks.experiments.malleable.reasons import (
    CHOSEN_COUNT_2,
    NO_BEST_13,
    NO_FACTOR_14,
    NO_HARVESTS_2,
    NO_RISES_11,
    NO_RISES_12,
    NO_SAME_10,
    NO_SUCCESS_2,
    NO_TOTAL_9,
    NO_TURN_13,
    NO_TURNS_10,
    NO_WORSE_2,
    SINGLE_STREAM,
)
from benchmarks.experiments.malleable.tables import (
    NO_WORSE,
    TABLE_2,
    average,
)
from benchmarks.experiments.malleable.users_claims import fig15, fig16, table3
from benchmarks.experiments.verdicts import Above

SLACK = 1.01
#: Streams that were not chosen for any figure.
NOTHING_CHOSEN: Mapping[str, str] = {}
LIMITED = tuple(degree for degree in DEGREES if degree is not None)
#: Fig. 10: the minimum in %, and the last M at which FQ waits less than FR.
TURNS = ((50, 6), (40, 9), (30, 12))
WAIT, EXECUTION, TOTAL = "mean_wait_s", "mean_execution_s", "mean_total_s"


def fig9(found: Findings) -> list[Claim]:
    cells = list(product(PERCENTS, EXECUTIONS))
    ideal = [
        found.ratio(
            WAIT,
            system("ideal-only", None, percent, execution),
            system("ideal-backfill", None, percent, execution),
        )
        for percent, execution in cells
    ]
    less = [
        found.at(WAIT, "even-fq", None, percent, execution)
        < found.at(WAIT, baseline, None, percent, execution)
        for (percent, execution), baseline in product(cells, BASELINES)
    ]
    slower = [
        found.at(EXECUTION, "even-fq", None, percent, execution)
        > found.at(EXECUTION, "ideal-backfill", None, percent, execution)
        for percent, execution in cells
    ]

    def less_total(percent: int) -> bool:
        return all(
            found.at(TOTAL, "even-fq", None, percent, execution)
            < found.at(TOTAL, baseline, None, percent, execution)
            for execution, baseline in product(EXECUTIONS, BASELINES)
        )

    won = {percent: less_total(percent) for percent in PERCENTS}
    as_drawn = [won[50], won[40], not all(won.values())]
    return [
        found.ratios("9", "IDEAL-ONLY waits far longer than IDEAL-BACKFILL", "far", ideal,
                     Above(2)),
        found.count("9", "Even-H-FQ waits less than each baseline", "always", less),
        found.count("9", "its execution takes longer than with the ideal", "yes", slower),
        found.count("9", "its total is less than each baseline's at minima of 50% and 40%, "
                    "but not at all minima", "yes", as_drawn, NO_TOTAL_9),
    ]  # fmt: skip


def fig10(found: Findings) -> list[Claim]:
    falls = [
        found.at(WAIT, policy, more, percent)
        <= SLACK * found.at(WAIT, policy, fewer, percent)
        for policy, percent in product(EXAMINED, PERCENTS)
        for fewer, more in pairwise(DEGREES)
    ]
    same = [
        found.ratio(
            WAIT,
            system(f"{harvest}-fr", None, percent, "linear"),
            system(f"{harvest}-fq", None, percent, "linear"),
        )
        for harvest, percent in product(("even", "low-impact"), PERCENTS)
    ]
    first = [
        found.at(WAIT, f"{harvest}-fq", degree, percent)
        <= SLACK * found.at(WAIT, f"{harvest}-fr", degree, percent)
        for harvest, (percent, last) in product(("even", "low-impact"), TURNS)
        for degree in LIMITED
        if degree <= last
    ]
    then = [
        found.at(WAIT, f"{harvest}-fr", degree, percent)
        <= SLACK * found.at(WAIT, f"{harvest}-fq", degree, percent)
        for harvest, (percent, last) in product(("even", "low-impact"), TURNS)
        for degree in LIMITED
        if degree > last
    ]
    gaps = {
        percent: found.at(WAIT, "even-fr", 9, percent)
        / found.at(WAIT, "even-fq", 9, percent)
        for percent in (50, 10)
    }
    better = [
        found.at(WAIT, f"low-impact-{favoured}", degree, percent)
        <= SLACK * found.at(WAIT, f"even-{favoured}", degree, percent)
        for favoured, degree, percent in product(("fr", "fq"), DEGREES, PERCENTS)
    ]
    return [
        found.count("10", "the wait falls as M grows", "always", falls),
        found.ratios("10", "without a limit FR and FQ wait the same (FR/FQ)", "essentially",
                     same, near(1.0), NO_SAME_10),
        found.count("10", "FQ waits less than FR to M=6 at 50%, 9 at 40%, 12 at 30%", "yes",
                    first, NO_TURNS_10),
        found.count("10", "from there on FR waits less (50%, 40%)", "yes", then),
        msgspec.structs.replace(
            found.count("10", "the smaller the minimum, the more FQ gains (M=9; 50%, 10%)",
                        "yes", [gaps[10] > gaps[50]]),
            ours=f"FR/FQ {gaps[50]:.2f}, {gaps[10]:.2f}"),
        found.count("10", "Low-Imp waits slightly less than Even-H", "yes", better),
    ]  # fmt: skip


def fig11(found: Findings) -> list[Claim]:
    pairs = list(product(("even", "low-impact"), PERCENTS))
    low = [
        found.at(TOTAL, f"{harvest}-fq", 3, percent)
        < found.at(TOTAL, f"{harvest}-fr", 3, percent)
        for harvest, percent in pairs
    ]
    high = [
        found.at(TOTAL, f"{harvest}-fr", degree, percent)
        < found.at(TOTAL, f"{harvest}-fq", degree, percent)
        for (harvest, percent), degree in product(pairs, (9, 12))
    ]
    turns = [
        min(found.at(TOTAL, f"{harvest}-fq", degree, percent) for degree in LIMITED) * SLACK
        < found.at(TOTAL, f"{harvest}-fq", None, percent)
        for harvest, percent in pairs
    ]
    falls = [
        found.at(TOTAL, policy, None, percent)
        < min(found.at(TOTAL, policy, degree, percent) for degree in LIMITED)
        for policy, percent in product(("even-fr", "low-impact-fr"), PERCENTS)
    ]
    return [
        found.count("11", "at M=3 the total is less with FQ", "always", low),
        found.count("11", "at M of 9 and 12 it is less with FR", "yes", high, NO_BEST_13),
        found.count(
            "11", "with FQ it rises again as M grows on", "yes", turns, NO_RISES_11
        ),
        found.count(
            "11", "with FR a high M is best: least total without a limit", "yes", falls
        ),
    ]


def fig12(found: Findings) -> list[Claim]:
    def falls(favoured: str, degrees: Iterable[int | None]) -> list[bool]:
        return [
            found.at(WAIT, f"{harvest}-{favoured}", degree, less)
            <= SLACK * found.at(WAIT, f"{harvest}-{favoured}", degree, more)
            for harvest, degree in product(("even", "low-impact"), degrees)
            for more, less in pairwise(PERCENTS)
        ]

    queued = falls("fq", DEGREES)
    low = falls("fr", (3,))
    rises = [
        found.at(WAIT, f"{harvest}-fr", degree, 10)
        > found.at(WAIT, f"{harvest}-fr", degree, 50)
        for harvest, degree in product(("even", "low-impact"), (9, 12))
    ]
    return [
        found.count("12", "with FQ the wait falls with the minimum", "in general", queued),
        found.count("12", "so it does with FR at M=3", "yes", low),
        found.count(
            "12",
            "with FR at M of 9 and 12 it is longer at 10% than at 50%",
            "yes",
            rises,
            NO_RISES_12,
        ),
    ]


def fig13(found: Findings) -> list[Claim]:
    best = [
        found.at(TOTAL, BEST, degree, percent)
        <= SLACK * min(found.at(TOTAL, policy, degree, percent) for policy in EXAMINED)
        for degree, percent in product((9, 12, None), PERCENTS)
    ]
    unlimited = [
        found.at(TOTAL, BEST, None, percent)
        <= min(
            found.at(TOTAL, policy, degree, percent)
            for policy, degree in product(EXAMINED, DEGREES)
        )
        for percent in PERCENTS
    ]
    queued = [
        found.at(TOTAL, "low-impact-fq", 3, percent)
        <= SLACK * min(found.at(TOTAL, policy, 3, percent) for policy in EXAMINED)
        for percent in PERCENTS
    ]
    turns = [
        found.at(TOTAL, f"low-impact-{better}", 6, percent)
        <= SLACK * found.at(TOTAL, f"low-impact-{worse}", 6, percent)
        for percent in PERCENTS
        for better, worse in [("fq", "fr") if percent > 10 else ("fr", "fq")]
    ]
    return [
        found.count("13", "Low-Imp-FR is best from M=9 on", "always", best, NO_BEST_13),
        found.count(
            "13",
            "Low-Imp-FR without a limit is best of all M",
            "(chosen)",
            unlimited,
            NO_BEST_13,
        ),
        found.count("13", "at M=3 Low-Imp-FQ is best", "always", queued),
        found.count(
            "13",
            "at M=6 it is better than Low-Imp-FR until the minimum is 10%",
            "yes",
            turns,
            NO_TURN_13,
        ),
    ]


def fig14(found: Findings) -> list[Claim]:
    def against(column: str, baseline: str) -> list[float]:
        return [
            found.ratio(
                column,
                system(baseline, None, percent, "linear"),
                system(BEST, None, percent, "linear"),
            )
            for percent in PERCENTS
        ]

    wait, total = against(WAIT, "ideal-only"), against(TOTAL, "ideal-only")
    waits = against(WAIT, "ideal-backfill") + against(WAIT, "moldable")
    totals = against(TOTAL, "ideal-backfill") + against(TOTAL, "moldable")
    gains = [1 - 1 / ratio for ratio in totals]
    shares = f"{min(gains):.0%} to {max(gains):.0%}"
    return [
        found.ratios("14", "IDEAL-ONLY's wait / Low-Imp-FR's", "over 70 times", wait,
                     Above(70), NO_FACTOR_14),
        found.ratios("14", "the others' wait / Low-Imp-FR's", "5 times or more", waits,
                     Above(5), NO_FACTOR_14),
        found.ratios("14", "IDEAL-ONLY's total is a multiple of its", "7 times", total,
                     near(7, None, 1), NO_FACTOR_14),
        Claim("14", "less total than the others", "about 20%", shares, found.each(gains),
              near(0.2, None, 0), why=NO_FACTOR_14),
    ]  # fmt: skip


def table2(found: Findings) -> list[Claim]:
    cells = list(product(EXAMINED, EXECUTIONS))

    def averages(column: str) -> list[float]:
        return [average(found.measured, *cell, column) for cell in cells]

    def rate(what: str, paper: tuple[float, float], column: str, why: str) -> Claim:
        """Judges a rate near 1 by its complement, in which a difference shows."""
        low, high = paper
        rates = averages(column)
        shown = f"{min(rates):.1%} to {max(rates):.1%}"
        theirs = f"{low:.1%} to {high:.1%}"
        by = near(1 - high, 1 - low)
        return Claim("T2", what, theirs, shown, found.each(1 - one for one in rates), by,
                     why=why)  # fmt: skip

    harvests = averages("of_harvested")
    to_theirs = found.each(
        ours / TABLE_2[policy][EXECUTIONS.index(execution)][1]
        for ours, (policy, execution) in zip(harvests, cells, strict=True)
    )
    more = [
        average(found.measured, f"{harvest}-fr", execution, "of_harvested")
        / average(found.measured, f"{harvest}-fq", execution, "of_harvested")
        for harvest, execution in product(("even", "low-impact"), EXECUTIONS)
    ]
    no_worse = (0.864, 0.928)
    twice = found.ratios("T2", "FR harvests about twice as often as FQ", "twice", more,
                         near(2, None, 1), CHOSEN_COUNT_2)  # fmt: skip
    return [
        rate("harvests that bring enough", (0.967, 0.995), "success", NO_SUCCESS_2),
        Claim("T2", "harvests a harvested job, each beside the paper's", "1.5 to 3.6",
              f"{min(harvests):.1f} to {max(harvests):.1f}", to_theirs, near(1.0),
              why=NO_HARVESTS_2),
        msgspec.structs.replace(twice, apart=TUNED),
        rate("jobs done no later than under IDEAL-ONLY", no_worse, NO_WORSE["ideal-only"],
             NO_WORSE_2),
        rate("jobs done no later than under IDEAL-BACKFILL", no_worse,
             NO_WORSE["ideal-backfill"], NO_WORSE_2),
    ]  # fmt: skip


CLAIMS: Mapping[str, Callable[[Findings], list[Claim]]] = {
    "fig9": fig9, "fig10": fig10, "fig11": fig11, "fig12": fig12, "fig13": fig13,
    "fig14": fig14, "table2": table2, "fig15": fig15, "fig16": fig16, "table3": table3,
}  # fmt: skip


def claims_of(
    figures: Iterable[str], measured: Figures, chosen: Mapping[str, str] = NOTHING_CHOSEN
) -> list[Claim]:
    """Returns all claims about these figures.

    chosen: the figures that the streams were chosen for, with the reason; their claims are
    apart.
    """
    found = Findings(measured)
    claims: list[Claim] = []
    for figure in figures:
        own = CLAIMS[figure](found)
        if figure in chosen:
            changes = {"apart": TUNED, "why": chosen[figure]}
        else:
            changes = {} if found.repeated else {"why": SINGLE_STREAM}
        claims += [msgspec.structs.replace(claim, **changes) for claim in own]
    return claims
