"""The claims of section 4.4 of Weissman et al. (2003), and whether they hold here.

Each claim is an ordering or a value (``verdicts``). A comparison of two means allows for a
hundredth: streams are random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise, product

from benchmarks.experiments.claims import Claim
from benchmarks.experiments.malleable.findings import Findings, times
from benchmarks.experiments.malleable.points import (
    BASELINES,
    BEST,
    BETAS,
    DEGREES,
    EXAMINED,
    EXECUTIONS,
    PERCENTS,
    USERS,
    system,
    users,
)
from benchmarks.experiments.malleable.points import Measured as Points
from benchmarks.experiments.malleable.tables import (
    COLUMNS_3,
    NO_WORSE,
    PERCENTS_3,
    TABLE_2,
    TABLE_3,
    average,
    throughput,
)
from benchmarks.experiments.verdicts import (
    judge_above,
    judge_amount,
    judge_cases,
    judge_value,
)

SLACK = 1.01
WITHOUT_LIMIT = float("inf")
LIMITED = tuple(degree for degree in DEGREES if degree is not None)
#: Jobs with a shorter mean wait are taken not to wait.
NO_WAIT_S = 60
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
    less = found.count(
        found.at(WAIT, "even-fq", None, percent, execution)
        < found.at(WAIT, baseline, None, percent, execution)
        for (percent, execution), baseline in product(cells, BASELINES)
    )
    slower = found.count(
        found.at(EXECUTION, "even-fq", None, percent, execution)
        > found.at(EXECUTION, "ideal-backfill", None, percent, execution)
        for percent, execution in cells
    )

    def less_total(percent: int) -> bool:
        return all(
            found.at(TOTAL, "even-fq", None, percent, execution)
            < found.at(TOTAL, baseline, None, percent, execution)
            for execution, baseline in product(EXECUTIONS, BASELINES)
        )

    won = {percent: less_total(percent) for percent in PERCENTS}
    large = found.count(won[percent] for percent in (50, 40))
    all_won = sum(won.values())
    return [
        Claim("9", "IDEAL-ONLY waits far longer than IDEAL-BACKFILL", "far",
              times(ideal), judge_above(found.over(ideal), 2)),
        Claim("9", "Even-H-FQ waits less than each baseline", "always", *less),
        Claim("9", "its execution takes longer than with the ideal", "yes", *slower),
        Claim("9", "its total is less than each baseline's at minima of 50% and 40%",
              "yes", *large),
        Claim("9", "it is not so at all minima", "yes", f"{all_won} of {len(won)}",
              judge_cases([all_won < len(won)])),
    ]  # fmt: skip


def fig10(found: Findings) -> list[Claim]:
    falls = found.count(
        found.at(WAIT, policy, more, percent)
        <= SLACK * found.at(WAIT, policy, fewer, percent)
        for policy, percent in product(EXAMINED, PERCENTS)
        for fewer, more in pairwise(DEGREES)
    )
    same = found.over(
        found.ratio(
            WAIT,
            system(f"{harvest}-fr", None, percent, "linear"),
            system(f"{harvest}-fq", None, percent, "linear"),
        )
        for harvest, percent in product(("even", "low-impact"), PERCENTS)
    )
    first = found.count(
        found.at(WAIT, f"{harvest}-fq", degree, percent)
        <= SLACK * found.at(WAIT, f"{harvest}-fr", degree, percent)
        for harvest, (percent, last) in product(("even", "low-impact"), TURNS)
        for degree in LIMITED
        if degree <= last
    )
    then = found.count(
        found.at(WAIT, f"{harvest}-fr", degree, percent)
        <= SLACK * found.at(WAIT, f"{harvest}-fq", degree, percent)
        for harvest, (percent, last) in product(("even", "low-impact"), TURNS)
        for degree in LIMITED
        if degree > last
    )
    gaps = {
        percent: found.at(WAIT, "even-fr", 9, percent)
        / found.at(WAIT, "even-fq", 9, percent)
        for percent in (50, 10)
    }
    _, gaps_verdict = found.count([gaps[10] > gaps[50]])
    better = found.count(
        found.at(WAIT, f"low-impact-{favoured}", degree, percent)
        <= SLACK * found.at(WAIT, f"even-{favoured}", degree, percent)
        for favoured, degree, percent in product(("fr", "fq"), DEGREES, PERCENTS)
    )
    return [
        Claim("10", "the wait falls as M grows", "always", *falls),
        Claim("10", "without a limit FR and FQ are the same", "essentially",
              f"FR/FQ {same.low:.2f} to {same.high:.2f}", judge_value(same, 1.0)),
        Claim("10", "FQ waits less than FR to M=6 at 50%, 9 at 40%, 12 at 30%", "yes",
              *first),
        Claim("10", "from there on FR waits less (50%, 40%)", "yes", *then),
        Claim("10", "the smaller the minimum, the more FQ gains (M=9; 50%, 10%)", "yes",
              f"FR/FQ {gaps[50]:.2f}, {gaps[10]:.2f}", gaps_verdict),
        Claim("10", "Low-Imp waits slightly less than Even-H", "yes", *better),
    ]  # fmt: skip


def fig11(found: Findings) -> list[Claim]:
    pairs = list(product(("even", "low-impact"), PERCENTS))
    low = found.count(
        found.at(TOTAL, f"{harvest}-fq", 3, percent)
        < found.at(TOTAL, f"{harvest}-fr", 3, percent)
        for harvest, percent in pairs
    )
    high = found.count(
        found.at(TOTAL, f"{harvest}-fr", degree, percent)
        < found.at(TOTAL, f"{harvest}-fq", degree, percent)
        for (harvest, percent), degree in product(pairs, (9, 12))
    )
    turns = found.count(
        min(found.at(TOTAL, f"{harvest}-fq", degree, percent) for degree in LIMITED) * SLACK
        < found.at(TOTAL, f"{harvest}-fq", None, percent)
        for harvest, percent in pairs
    )
    falls = found.count(
        found.at(TOTAL, policy, None, percent)
        < min(found.at(TOTAL, policy, degree, percent) for degree in LIMITED)
        for policy, percent in product(("even-fr", "low-impact-fr"), PERCENTS)
    )
    return [
        Claim("11", "at M=3 the total is less with FQ", "always", *low),
        Claim("11", "at M of 9 and 12 it is less with FR", "yes", *high),
        Claim("11", "with FQ it rises again as M grows on", "yes", *turns),
        Claim("11", "with FR a high M is best: least total without a limit", "yes", *falls),
    ]  # fmt: skip


def fig12(found: Findings) -> list[Claim]:
    def falls(favoured: str, degrees: Iterable[int | None]) -> tuple[str, str]:
        return found.count(
            found.at(WAIT, f"{harvest}-{favoured}", degree, less)
            <= SLACK * found.at(WAIT, f"{harvest}-{favoured}", degree, more)
            for harvest, degree in product(("even", "low-impact"), degrees)
            for more, less in pairwise(PERCENTS)
        )

    queued = falls("fq", DEGREES)
    low = falls("fr", (3,))
    rises = found.count(
        found.at(WAIT, f"{harvest}-fr", degree, 10)
        > found.at(WAIT, f"{harvest}-fr", degree, 50)
        for harvest, degree in product(("even", "low-impact"), (9, 12))
    )
    return [
        Claim("12", "with FQ the wait falls with the minimum", "in general", *queued),
        Claim("12", "so it does with FR at M=3", "yes", *low),
        Claim("12", "with FR at M of 9 and 12 it is longer at 10% than at 50%", "yes",
              *rises),
    ]  # fmt: skip


def fig13(found: Findings) -> list[Claim]:
    best = found.count(
        found.at(TOTAL, BEST, degree, percent)
        <= SLACK * min(found.at(TOTAL, policy, degree, percent) for policy in EXAMINED)
        for degree, percent in product((9, 12, None), PERCENTS)
    )
    unlimited = found.count(
        found.at(TOTAL, BEST, None, percent)
        <= min(
            found.at(TOTAL, policy, degree, percent)
            for policy, degree in product(EXAMINED, DEGREES)
        )
        for percent in PERCENTS
    )
    queued = found.count(
        found.at(TOTAL, "low-impact-fq", 3, percent)
        <= SLACK * min(found.at(TOTAL, policy, 3, percent) for policy in EXAMINED)
        for percent in PERCENTS
    )
    turns = found.count(
        found.at(TOTAL, f"low-impact-{better}", 6, percent)
        <= SLACK * found.at(TOTAL, f"low-impact-{worse}", 6, percent)
        for percent in PERCENTS
        for better, worse in [("fq", "fr") if percent > 10 else ("fr", "fq")]
    )
    return [
        Claim("13", "Low-Imp-FR is best from M=9 on", "always", *best),
        Claim("13", "Low-Imp-FR without a limit is best of all M", "(chosen)", *unlimited),
        Claim("13", "at M=3 Low-Imp-FQ is best", "always", *queued),
        Claim("13", "at M=6 it is better than Low-Imp-FR until the minimum is 10%", "yes",
              *turns),
    ]  # fmt: skip


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
    return [
        Claim("14", "IDEAL-ONLY's wait / Low-Imp-FR's", "over 70 times", times(wait),
              judge_value(found.over(wait), 70, WITHOUT_LIMIT)),
        Claim("14", "the others' wait / Low-Imp-FR's", "5 times or more", times(waits),
              judge_value(found.over(waits), 5, WITHOUT_LIMIT)),
        Claim("14", "IDEAL-ONLY's total is a multiple of its", "7 times", times(total),
              judge_value(found.over(total), 7)),
        Claim("14", "less total than the others", "about 20%",
              f"{min(gains):.0%} to {max(gains):.0%}",
              judge_amount(found.over(gains), 0.2, 0.2)),
    ]  # fmt: skip


def table2(found: Findings) -> list[Claim]:
    cells = list(product(EXAMINED, EXECUTIONS))

    def averages(column: str) -> list[float]:
        return [average(found.measured, *cell, column) for cell in cells]

    def rate(what: str, paper: tuple[float, float], column: str) -> Claim:
        """Judges a rate near 1 by its complement, in which a difference shows."""
        low, high = paper
        rates = averages(column)
        verdict = judge_amount(found.over(1 - one for one in rates), 1 - high, 1 - low)
        shown = f"{min(rates):.1%} to {max(rates):.1%}"
        return Claim("T2", what, f"{low:.1%} to {high:.1%}", shown, verdict)

    harvests = averages("of_harvested")
    to_theirs = found.over(
        ours / TABLE_2[policy][EXECUTIONS.index(execution)][1]
        for ours, (policy, execution) in zip(harvests, cells, strict=True)
    )
    more = found.over(
        average(found.measured, f"{harvest}-fr", execution, "of_harvested")
        / average(found.measured, f"{harvest}-fq", execution, "of_harvested")
        for harvest, execution in product(("even", "low-impact"), EXECUTIONS)
    )
    no_worse = (0.864, 0.928)
    return [
        rate("harvests that bring enough", (0.967, 0.995), "success"),
        Claim("T2", "harvests a harvested job, each beside the paper's", "1.5 to 3.6",
              f"{min(harvests):.1f} to {max(harvests):.1f}", judge_value(to_theirs, 1.0)),
        Claim("T2", "FR harvests about twice as often as FQ", "yes",
              f"{more.low:.1f} to {more.high:.1f} times", judge_value(more, 2)),
        rate("jobs done no later than under IDEAL-ONLY", no_worse, NO_WORSE["ideal-only"]),
        rate("jobs done no later than under IDEAL-BACKFILL", no_worse,
             NO_WORSE["ideal-backfill"]),
    ]  # fmt: skip


def _users_claims(
    found: Findings,
    figure: str,
    column: str,
    ideal: tuple[float, float],
    others: tuple[float, float],
) -> list[Claim]:
    """Compares with the baselines. ideal, others: the paper's least and greatest ratios.
    A ratio to a wait below ``NO_WAIT_S`` is a matter of chance, and left out."""
    name = {WAIT: "wait", TOTAL: "total"}[column]
    cells = list(product(USERS, BETAS, PERCENTS))
    measured = found.measured
    kept = [at for at in cells if measured[users(*at[:2], BEST, at[2])][column] > NO_WAIT_S]
    at = f" ({len(kept)} of {len(cells)} points)" if len(kept) < len(cells) else ""

    def against(baseline: str) -> list[float]:
        return [
            found.ratio(
                column,
                users(source, beta, baseline, percent),
                users(source, beta, BEST, percent),
            )
            for source, beta, percent in kept
        ]

    first = against("ideal-only")
    rest = against("ideal-backfill") + against("moldable")
    return [
        Claim(figure, f"IDEAL-ONLY's {name} / Low-Imp-FR's", "{:g} to {:g} times".format(
              *ideal), times(first) + at, judge_value(found.over(first), *ideal)),
        Claim(figure, f"the others' {name} / Low-Imp-FR's", "{:g} to {:g} times".format(
              *others), times(rest) + at, judge_value(found.over(rest), *others)),
    ]  # fmt: skip


def fig15(found: Findings) -> list[Claim]:
    grows = found.count(
        found.ratio(
            WAIT,
            users(source, 1.0, "ideal-only", percent),
            users(source, 1.0, BEST, percent),
        )
        > found.ratio(
            WAIT,
            users(source, 0.25, "ideal-only", percent),
            users(source, 0.25, BEST, percent),
        )
        for source, percent in product(USERS, PERCENTS)
    )
    claims = _users_claims(found, "15", WAIT, (2, 20), (1.1, 5))
    return [
        *claims,
        Claim("15", "the gain is greater at beta 1 than at 0.25", "yes", *grows),
    ]


def fig16(found: Findings) -> list[Claim]:
    return _users_claims(found, "16", TOTAL, (2, 10), (1.1, 3))


def table3(found: Findings) -> list[Claim]:
    measured = found.measured
    cells = list(product(BETAS, PERCENTS_3))
    best = found.count(
        throughput(measured, beta, BEST, percent)
        > max(throughput(measured, beta, policy, percent) for policy in BASELINES)
        for beta, percent in cells
    )
    grows = found.count(
        throughput(measured, beta, BEST, less) > throughput(measured, beta, BEST, more)
        for beta in (0.25, 0.5, 0.75)
        for more, less in pairwise(PERCENTS_3)
    )
    suffers = found.count(
        throughput(measured, beta, "moldable", 10)
        < throughput(measured, beta, "moldable", 30)
        for beta in BETAS
    )
    to_theirs = [
        throughput(measured, beta, policy, percent) / theirs
        for beta in BETAS
        for percent, paper in zip(PERCENTS_3, TABLE_3[beta], strict=True)
        for policy, theirs in zip(COLUMNS_3, paper, strict=True)
    ]
    near = sum(abs(ratio - 1) <= 0.1 for ratio in to_theirs)
    return [
        Claim("T3", "jobs an hour, ours / the paper's", "48 figures",
              f"{times(to_theirs)}, {near} of them within a tenth",
              judge_value(found.over(to_theirs), 1.0)),
        Claim("T3", "Low-Imp-FR gets most jobs through", "always", *best),
        Claim("T3", "the more the smaller the minimum, at beta below 1", "yes", *grows),
        Claim("T3", "MOLDABLE gets fewer through at 10% than at 30%", "always", *suffers),
    ]  # fmt: skip


CLAIMS: Mapping[str, Callable[[Findings], list[Claim]]] = {
    "fig9": fig9, "fig10": fig10, "fig11": fig11, "fig12": fig12, "fig13": fig13,
    "fig14": fig14, "table2": table2, "fig15": fig15, "fig16": fig16, "table3": table3,
}  # fmt: skip


def claims_of(figures: Iterable[str], measured: Points) -> list[Claim]:
    """All claims about these figures."""
    found = Findings(measured)
    return [claim for figure in figures for claim in CLAIMS[figure](found)]
