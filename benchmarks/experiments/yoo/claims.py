"""Compares the claims of Yoo and Jette (section 3.2) with our figures. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean

from benchmarks.experiments.yoo.table import Document, places, ratio, values

#: Closer means are equal: equal runs differ by this much.
EQUAL_WITHIN = 0.05
RESPONSE = "mean_response_s"
#: The names of jobs that hardly send messages.
COMPUTES = "ep-a"


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of the paper and our result. ``holds``: None if it cannot be checked."""

    what: str
    paper: str
    ours: str
    holds: bool | None = None


def claims(document: Document) -> list[Claim]:
    """Returns the claims on the document's figure; a claim without data reports that."""
    return CLAIMS[document["figure"]](document)


def _shown(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.2f}"


def _paid(document: Document, x: str) -> float | None:
    return ratio(document, "cosched", "kernel", x)


def _fig2(document: Document) -> list[Claim]:
    one, two, three = (_paid(document, x) for x in ("1", "2", "3"))
    most = None
    if one is not None and two is not None and three is not None:
        most = two < min(one, three)
    return [
        Claim(
            "2: mean response to the kernel's, many messages (workload 2)",
            "0.50",
            _shown(two),
            _below(two, 1 - EQUAL_WITHIN),
        ),
        Claim(
            "2: mixed (workload 1)", "below 1", _shown(one), _below(one, 1 - EQUAL_WITHIN)
        ),
        Claim(
            "2: hardly any messages (workload 3)",
            "almost 1",
            _shown(three),
            None if three is None else abs(three - 1) <= EQUAL_WITHIN,
        ),
        Claim(
            "2: workload 2 gains most",
            "yes",
            ", ".join(_shown(value) for value in (one, two, three)),
            most,
        ),
        *_yardsticks(document, "2", "workload", ("gang", "yield", "block")),
        *_fair_probe(document),
    ]


def _yardsticks(
    document: Document, figure: str, by: str, others: Sequence[str]
) -> list[Claim]:
    """Compares with arms that the paper does not show there, if they ran."""

    def beside(what: str, other: str, value: str) -> list[Claim]:
        if other not in values(document, value):
            return []
        found = [ratio(document, "cosched", other, x, value) for x in places(document)]
        words = f"{figure}: {what} to {other}'s, by {by}"
        return [Claim(words, "", ", ".join(map(_shown, found)))]

    responses = [beside("mean response", other, RESPONSE) for other in others]
    return [*chain(*responses), *beside("makespan", "batch", "makespan_s")]


def _fair_probe(document: Document) -> list[Claim]:
    """Checks that the probe favours no arm: EP only computes, so the ratio of its CPU time
    to the probe's must be the same under each arm."""
    found: dict[str, list[float]] = {}
    for point in document["points"]:
        for run in point["runs"]:
            times = [j["cpu_s"] for j in run["jobs"] if j["name"].startswith(COMPUTES)]
            if times and run.get("probe_us"):
                found.setdefault(point["series"], []).append(fmean(times) / run["probe_us"])
    if "kernel" not in found:
        return []
    to_kernel = [fmean(one) / fmean(found["kernel"]) for one in found.values()]
    words = "2: EP's CPU time by that of the probe, to the kernel's, in all arms"
    return [Claim(words, "", f"{min(to_kernel):.2f} to {max(to_kernel):.2f}")]


def _fig3(document: Document) -> list[Claim]:
    by_dom = {x: _paid(document, x) for x in places(document)}
    known = [value for value in by_dom.values() if value is not None]
    text = ", ".join(_shown(value) for value in by_dom.values())
    whole = len(known) == len(by_dom)
    return [
        Claim(
            "3: mean response to the kernel's at DOM 2",
            "0.15",
            _shown(by_dom.get("2")),
            _below(by_dom.get("2"), 1 - EQUAL_WITHIN),
        ),
        Claim(
            "3: the gain falls as DOM rises",
            "yes",
            text,
            known == sorted(known) if whole else None,
        ),
        *_yardsticks(document, "3", "DOM", ("gang",)),
    ]


def _fig4(document: Document) -> list[Claim]:
    found = values(document)
    batch = found.get("batch", {}).get("batch")
    cosched = found.get("cosched", {})
    if batch is None or not cosched:
        return [Claim("4: mean wait to batch's", "0.59 at best", "not measured")]
    best = min(cosched.values()) / batch
    by_slice: dict[str, list[float]] = {}
    for x, wait in cosched.items():
        by_slice.setdefault(x.partition(",")[0].strip("("), []).append(wait)
    rises = all(waits == sorted(waits) for waits in by_slice.values())
    rows = [
        f"slice {s}: {', '.join(f'{w:.1f} s' for w in ws)}" for s, ws in by_slice.items()
    ]
    return [
        Claim("4: least mean wait to batch's", "0.59", _shown(best), best < 1),
        Claim(
            "4: the wait rises with DOM, which is harder to coschedule",
            "yes",
            "; ".join(rows),
            rises,
        ),
    ]


def _fig5(document: Document) -> list[Claim]:
    result = []
    for number, arm in [(n, a) for n in "123" for a in ("messages", "cosched")]:
        line = list(values(document).get(f"{arm}, workload {number}", {}).values())
        if not line:
            continue
        change = max(line) / min(line)
        if number == "2":
            result.append(
                Claim(
                    f"5: too short a GMET harms workload 2 ({arm})",
                    "drops sharply, rises a little, stays",
                    f"shortest / best {line[0] / min(line):.2f}, longest / best "
                    f"{line[-1] / min(line):.2f}",
                    line[0] / min(line) > 1 + EQUAL_WITHIN,
                )
            )
        else:
            result.append(
                Claim(
                    f"5: GMET does not matter to workload {number} ({arm})",
                    "flat",
                    f"greatest / least {change:.2f}",
                    change <= 1 + 2 * EQUAL_WITHIN,
                )
            )
    return result


def _fig6(document: Document) -> list[Claim]:
    result = []
    for number, arm in [(n, a) for n in "123" for a in ("messages", "cosched")]:
        line = list(values(document).get(f"{arm}, workload {number}", {}).values())
        if not line:
            continue
        if number == "3":
            change = max(line) / min(line)
            words = f"6: the slice does not matter to workload 3 ({arm})"
            seen = f"greatest / least {change:.2f}"
            result.append(Claim(words, "flat", seen, change <= 1 + 2 * EQUAL_WITHIN))
        else:
            words = f"6: a longer slice is worse for workload {number} ({arm})"
            seen = f"longest / shortest {line[-1] / line[0]:.2f}"
            result.append(
                Claim(words, "rises", seen, line[-1] / line[0] > 1 + EQUAL_WITHIN)
            )
    return result


def _auto(document: Document) -> list[Claim]:
    result = []
    for series, by_x in values(document).items():
        fixed = {x: value for x, value in by_x.items() if x != "auto"}
        if "auto" not in by_x or not fixed:
            continue
        best = min(fixed, key=lambda x: fixed[x])
        to_best = by_x["auto"] / fixed[best]
        result.append(
            Claim(
                f"slice=auto to the best fixed slice ({series.partition(', ')[2]})",
                "",
                f"{to_best:.2f} (best: {best})",
                to_best <= 1 + EQUAL_WITHIN,
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
            Claim(f"fleet: {way} jobs, by grain", "", ", ".join(map(_shown, ratios)))
        )
    return result


def _below(value: float | None, bound: float) -> bool | None:
    return None if value is None else value < bound


CLAIMS: Mapping[str, Callable[[Document], list[Claim]]] = {
    "fig2": _fig2,
    "fig3": _fig3,
    "fig4": _fig4,
    "fig5": _fig5,
    "fig6": _fig6,
    "auto": _auto,
    "fleet": _fleet,
}


def rows(found: Sequence[Claim]) -> list[str]:
    """The claims as rows of a table in Markdown."""
    words = {True: "holds", False: "**does not hold**", None: ""}
    return [
        f"| {claim.what} | {claim.paper} | {claim.ours} | {words[claim.holds]} |"
        for claim in found
    ]
