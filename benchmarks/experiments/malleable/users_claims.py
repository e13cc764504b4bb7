"""The claims of Weissman et al. (2003) about streams of users' jobs: Figs. 15 and 16, and
Table 3."""

from __future__ import annotations

from itertools import pairwise, product

import msgspec

from benchmarks.experiments.claims import TUNED, Claim, near
from benchmarks.experiments.malleable.findings import Findings
from benchmarks.experiments.malleable.points import (
    BASELINES,
    BEST,
    BETAS,
    PERCENTS,
    QUEUES,
    USERS,
    users,
)
from benchmarks.experiments.malleable.reasons import (
    NO_FACTORS_15,
    NO_RATES_3,
    TUNED_3,
)
from benchmarks.experiments.malleable.tables import (
    COLUMNS_3,
    PERCENTS_3,
    TABLE_3,
    throughput,
)

#: Jobs with a shorter mean wait are taken not to wait.
NO_WAIT_S = 60
WAIT, TOTAL = "mean_wait_s", "mean_total_s"


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

    def claim(whose: str, ratios: list[float], paper: tuple[float, float]) -> Claim:
        what = f"{whose} {name} / Low-Imp-FR's"
        theirs = "{:g} to {:g} times".format(*paper)
        one = found.ratios(figure, what, theirs, ratios, near(*paper, 1), NO_FACTORS_15)
        return msgspec.structs.replace(one, ours=one.ours + at)

    rest = against("ideal-backfill") + against("moldable")
    return [
        claim("IDEAL-ONLY's", against("ideal-only"), ideal),
        claim("the others'", rest, others),
    ]


def fig15(found: Findings) -> list[Claim]:
    grows = [
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
    ]
    claims = _users_claims(found, "15", WAIT, (2, 20), (1.1, 5))
    return [
        *claims,
        found.count("15", "the gain is greater at beta 1 than at 0.25", "yes", grows),
    ]


def fig16(found: Findings) -> list[Claim]:
    return _users_claims(found, "16", TOTAL, (2, 10), (1.1, 3))


def table3(found: Findings) -> list[Claim]:
    measured = found.measured
    cells = list(product(BETAS, PERCENTS_3))
    best = [
        throughput(measured, beta, BEST, percent)
        > max(throughput(measured, beta, policy, percent) for policy in BASELINES)
        for beta, percent in cells
    ]
    grows = [
        throughput(measured, beta, BEST, less) > throughput(measured, beta, BEST, more)
        for beta in (0.25, 0.5, 0.75)
        for more, less in pairwise(PERCENTS_3)
    ]
    suffers = [
        throughput(measured, beta, "moldable", 10)
        < throughput(measured, beta, "moldable", 30)
        for beta in BETAS
    ]
    to_theirs = {
        (policy, beta, percent): throughput(measured, beta, policy, percent) / theirs
        for beta in BETAS
        for percent, paper in zip(PERCENTS_3, TABLE_3[beta], strict=True)
        for policy, theirs in zip(COLUMNS_3, paper, strict=True)
    }

    def fitted(policy: str, beta: float) -> bool:
        return policy in QUEUES or (policy == BEST and beta == 1)

    chosen = [one for at, one in to_theirs.items() if fitted(*at[:2])]
    others = [one for at, one in to_theirs.items() if not fitted(*at[:2])]
    tuned = found.ratios("T3", "jobs an hour, ours / the paper's: IDEAL-ONLY, "
                         "IDEAL-BACKFILL, and Low-Imp-FR at beta 1",
                         f"{len(chosen)} figures", chosen, near(1.0), TUNED_3)  # fmt: skip
    return [
        msgspec.structs.replace(tuned, apart=TUNED),
        found.ratios(
            "T3",
            "the same: MOLDABLE, and Low-Imp-FR at beta below 1",
            f"{len(others)} figures",
            others,
            near(1.0),
            NO_RATES_3,
        ),
        found.count("T3", "Low-Imp-FR gets most jobs through", "always", best),
        found.count(
            "T3", "the more the smaller the minimum, at beta below 1", "yes", grows
        ),
        found.count(
            "T3",
            "MOLDABLE gets fewer through at 10% than at 30%",
            "always",
            suffers,
            NO_RATES_3,
        ),
    ]
