"""Compares the claims of Yoo and Jette (section 3.2) with our figures. Pure.

The claims are about the paper's policy, so they are judged by the arm ``paper``. A value
that even one central driver cannot reach on these nodes is not measurable on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, pairwise
from statistics import fmean

import msgspec

from benchmarks.experiments.claims import (
    MISSING,
    NOT_HERE,
    Claim,
    judged,
    near,
    shown,
)
from benchmarks.experiments.verdicts import (
    BOUNDS,
    EQUAL_WITHIN,
    Above,
    Below,
    Cases,
    Measured,
    Near,
    Order,
    cases,
)
from benchmarks.experiments.yoo.yoo_table import Document, measured, places, ratio, values

RESPONSE = "mean_response_s"
#: The names of jobs that hardly send messages.
COMPUTES = ("coarse", "half", "ep-a")
#: Why the paper's policy loses time with two nodes, which the simulation shows as well.
SWAPS = "two nodes that run different jobs pull each other's job, and still differ"
#: Why a longer slice is not worse here, which is likely.
TICKS = (
    "each tick of a node's timer begins a disagreement, and a longer slice has fewer; in a "
    "simulation where a switch costs 1 ms it has 0.81, too"
)


def claims(document: Document) -> list[Claim]:
    """Returns the claims on the document's figure; a claim without data reports that."""
    return CLAIMS[document["figure"]](document)


def _paid(document: Document, x: str) -> Measured | None:
    return ratio(document, "paper", "kernel", x)


def _ordered(found: Sequence[Measured | None]) -> Cases | None:
    """Counts in how many steps each figure is less than the next; None without figures."""
    known = [one for one in found if one is not None]
    if len(known) < 2 or len(known) < len(found):
        return None
    return cases(one.less_than(other) for one, other in pairwise(known))


def _reachable(claim: Claim, document: Document, x: str) -> Claim:
    """Returns the claim, apart if neither one job after the other nor one central driver
    comes so near to the paper's ratio to the kernel."""
    if not isinstance(claim.by, Near) or claim.finding is None:
        return claim
    most = claim.by.low * (1 + BOUNDS[-1] / 100)
    best = {arm: ratio(document, arm, "kernel", x) for arm in ("batch", "gang")}
    known = {arm: one for arm, one in best.items() if one is not None}
    if len(known) < 2 or any(one.low <= most for one in known.values()):
        return claim
    words = " and ".join(f"{arm} has {one.middle:.2f}" for arm, one in known.items())
    return msgspec.structs.replace(
        claim, apart=NOT_HERE, why=f"two nodes of one CPU leave less to gain: {words}"
    )


def _fig2(document: Document) -> list[Claim]:
    one, two, three = (_paid(document, x) for x in ("1", "2", "3"))
    most = None
    if one is not None and two is not None and three is not None:
        most = cases([two.less_than(one), two.less_than(three)])
    many = "mean response to the kernel's, many messages (workload 2)"
    all_three = ", ".join(map(shown, (one, two, three)))
    half = judged("2", many, "0.50", two, near(0.50, no_effect=1), why=SWAPS)
    return [
        _reachable(half, document, "2"),
        judged(
            "2", "mixed (workload 1)", "at most 1", one, Below(1.0, EQUAL_WITHIN), why=SWAPS
        ),
        judged("2", "hardly any messages (workload 3)", "almost 1", three, near(1.0)),
        Claim("2", "workload 2 gains most", "yes", all_three, most, Order(), why=SWAPS),
        *_yardsticks(document, "2", "workload"),
        *_fair_probe(document),
    ]


def _yardsticks(document: Document, figure: str, by: str) -> list[Claim]:
    """Compares the paper's policy and cosched with arms that the paper does not show."""

    def beside(one: str, other: str, what: str, value: str) -> list[Claim]:
        found = [ratio(document, one, other, x, value) for x in places(document)]
        if not any(found):
            return []
        words = f"{one}'s {what} to {other}'s, by {by}"
        return [Claim(figure, words, "", ", ".join(map(_middle, found)))]

    pairs = (
        ("paper", "gang"),
        ("cosched", "kernel"),
        ("cosched", "batch"),
        ("cosched", "paper"),
    )
    responses = [beside(one, other, "mean response", RESPONSE) for one, other in pairs]
    makespans = [
        beside(one, "batch", "makespan", "makespan_s") for one in ("paper", "cosched")
    ]
    return [*chain(*responses, *makespans)]


def _middle(found: Measured | None) -> str:
    return MISSING if found is None else f"{found.middle:.2f}"


def _fair_probe(document: Document) -> list[Claim]:
    """Checks that the probe favours no arm: some jobs only compute, so the ratio of their
    CPU time to the probe's must be the same under each arm."""
    found: dict[str, list[float]] = {}
    for point in document["points"]:
        for run in point["runs"]:
            times = [j["cpu_s"] for j in run["jobs"] if j["name"].startswith(COMPUTES)]
            if times and run.get("probe_us"):
                found.setdefault(point["series"], []).append(fmean(times) / run["probe_us"])
    if "kernel" not in found:
        return []
    to_kernel = [fmean(one) / fmean(found["kernel"]) for one in found.values()]
    words = "CPU time of jobs that compute by the probe's, to the kernel's, in all arms"
    return [Claim("2", words, "", f"{min(to_kernel):.2f} to {max(to_kernel):.2f}")]


def _fig3(document: Document) -> list[Claim]:
    by_dom = [_paid(document, x) for x in places(document)]
    at_2 = "mean response to the kernel's at DOM 2"
    gains = ", ".join(map(shown, by_dom))
    value = judged("3", at_2, "0.15", by_dom[0], near(0.15, no_effect=1))
    falls = "the gain falls as DOM rises"
    return [
        _reachable(value, document, places(document)[0]),
        Claim("3", falls, "yes", gains, _ordered(by_dom), Order(), why=SWAPS),
        *_yardsticks(document, "3", "DOM"),
    ]


def _fig4(document: Document) -> list[Claim]:
    batch = measured(document, "batch", "batch")
    waits: dict[str, dict[str, list[Measured]]] = {}
    for series in ("paper", "cosched"):
        for x in values(document).get(series, {}):
            found = measured(document, series, x)
            assert found is not None
            slice_ = x.partition(",")[0].strip("(")
            waits.setdefault(series, {}).setdefault(slice_, []).append(found)
    what = "least mean wait to batch's"
    if batch is None or "paper" not in waits:
        return [Claim("4", what, "0.59 at best", MISSING)]

    def least(series: str) -> Measured:
        every = chain(*waits[series].values())
        return min(every, key=lambda found: found.middle).over(batch)

    rows = [
        f"slice {slice_}: {', '.join(f'{wait.middle:.1f} s' for wait in found)}"
        for slice_, found in waits["paper"].items()
    ]
    pairs = chain(*(pairwise(found) for found in waits["paper"].values()))
    result = [
        judged("4", what, "0.59", least("paper"), near(0.59, no_effect=1), why=SWAPS),
        Claim(
            "4",
            "the wait rises with DOM, which is harder to coschedule",
            "yes",
            "; ".join(rows),
            cases(fewer.less_than(more) for fewer, more in pairs),
            Order(),
        ),
    ]
    if "cosched" in waits:
        what = "cosched's least mean wait to batch's"
        result.append(judged("4", what, "", least("cosched")))
    return result


def _sweep(document: Document, number: str) -> list[Measured]:
    """Returns the figures of a workload under the paper's policy, along the axis."""
    series = f"paper, workload {number}"
    found = [measured(document, series, x) for x in values(document).get(series, {})]
    return [one for one in found if one is not None]


def _flat(line: Sequence[Measured], figure: str, what: str) -> Claim:
    """Claims that a setting does not matter."""
    greatest = max(line, key=lambda found: found.middle)
    change = greatest.over(min(line, key=lambda found: found.middle))
    ours = f"greatest / least {shown(change)}"
    return Claim(figure, what, "flat", ours, change, near(1.0))


def _fig5(document: Document) -> list[Claim]:
    result = []
    for number in "123":
        line = _sweep(document, number)
        if len(line) < 2:
            continue
        if number != "2":
            result.append(_flat(line, "5", f"GMET does not matter to workload {number}"))
            continue
        best = min(line[1:], key=lambda found: found.middle)
        short, long = line[0].over(best), line[-1].over(best)
        result.append(
            Claim(
                "5",
                "too short a GMET harms workload 2",
                "drops sharply, rises a little, stays",
                f"shortest / best {shown(short)}, longest / best {shown(long)}",
                short,
                Above(1.0, EQUAL_WITHIN),
            )
        )
    return result


def _fig6(document: Document) -> list[Claim]:
    result = []
    for number in "123":
        line = _sweep(document, number)
        if len(line) < 2:
            continue
        if number == "3":
            result.append(_flat(line, "6", "the slice does not matter to workload 3"))
            continue
        change = line[-1].over(line[0])
        result.append(
            Claim(
                "6",
                f"a longer slice is worse for workload {number}",
                "rises",
                f"longest / shortest {shown(change)}",
                change,
                Above(1.0, EQUAL_WITHIN),
                why=TICKS,
            )
        )
    return result


def _over_place(document: Document, series: str, x: str, other: str) -> Measured:
    """Returns the figures of a series at one place over those at another; both exist."""
    top, bottom = measured(document, series, x), measured(document, series, other)
    assert top is not None
    assert bottom is not None
    return top.over(bottom)


def _auto(document: Document) -> list[Claim]:
    result = []
    for series, by_x in values(document).items():
        fixed = {x: value for x, value in by_x.items() if x != "auto"}
        if "auto" not in by_x or not fixed:
            continue
        best = min(fixed, key=lambda x: fixed[x])
        to_best = _over_place(document, series, "auto", best)
        workload = series.partition(", ")[2]
        result.append(
            Claim(
                "auto",
                f"slice=auto, to the best fixed slice ({workload})",
                "",
                f"{to_best.middle:.2f} (best: {best})",
            )
        )
    return result


def _fleet(document: Document) -> list[Claim]:
    found = values(document)
    result = []
    for series, by_grain in found.items():
        arm, _, way = series.partition(", ")
        if arm != "cosched":
            continue
        ratios = [ratio(document, series, f"kernel, {way}", grain) for grain in by_grain]
        result.append(
            Claim("fleet", f"{way} jobs, by grain", "", ", ".join(map(_middle, ratios)))
        )
    return result


CLAIMS: Mapping[str, Callable[[Document], list[Claim]]] = {
    "fig2": _fig2,
    "fig3": _fig3,
    "fig4": _fig4,
    "fig5": _fig5,
    "fig6": _fig6,
    "auto": _auto,
    "fleet": _fleet,
}
