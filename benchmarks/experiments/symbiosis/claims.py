"""What Weinberg and Snavely (2006) say of each figure and table, and what was found. Pure.

A measured figure is the median of several rounds; that of a single round decides nothing.
Where others used the machine, this is the likely reason of each "no".

That one kernel does not slow another one down says something only where the latter can be
slowed: by itself, or by any other kernel. Where nothing slows it, the claim is not
measurable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from statistics import fmean
from typing import Any, TypeAlias

import msgspec

from benchmarks.experiments.claims import NOT_HERE, RECOMPUTED, Claim, near
from benchmarks.experiments.symbiosis.nas_claims import in_table1, in_table2
from benchmarks.experiments.symbiosis.reasons import (
    CPU_WHY,
    DISK_WHY,
    EMULATED_WHY,
    EMULATED_WHYS,
    MEMORY_WHY,
    NO_EFFECT,
    NOTHING_SLOWS,
    ONE_NODE,
    QUIET,
    median,
)
from benchmarks.experiments.verdicts import (
    Above,
    Below,
    Order,
    Points,
    cases,
    exact,
)
from benchmarks.kernels.build import KERNELS

Documents: TypeAlias = "Mapping[str, Mapping[str, Any]]"


def _shown(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in values.items())


def _others(document: Mapping[str, Any], *left_out: str) -> dict[str, float]:
    return {
        name: value for name, value in document["impact"].items() if name not in left_out
    }


def _recomputed(source: str, what: str, paper: str, ours: str) -> Claim:
    """Returns a claim whose figure is calculated from the paper's own numbers."""
    return Claim(source, what, paper, ours, apart=RECOMPUTED)


def _slows(source: str, what: str, document: Mapping[str, Any]) -> Claim:
    """Returns a claim that a kernel slows itself down for lack of memory bandwidth."""
    slowdown, by = document["itself"], Above(NO_EFFECT)
    found = median(document, slowdown)
    return Claim(source, what, "yes", f"{slowdown:.2f}", found, by, why=MEMORY_WHY)


def _little(
    part: str,
    what: str,
    document: Mapping[str, Any],
    impact: Mapping[str, float],
    why: str,
) -> Claim:
    """Returns a claim that these kernels do not slow the document's kernel down."""
    found = Points(tuple(median(document, one) for one in impact.values()))
    return Claim(part, what, "none", _shown(impact), found, Below(NO_EFFECT), why=why)


def _unless_nothing_slows(claim: Claim, document: Mapping[str, Any]) -> Claim:
    """Returns the claim, apart if no kernel slows the document's kernel down."""
    if max(document["itself"], *document["impact"].values()) > NO_EFFECT:
        return claim
    return msgspec.structs.replace(claim, apart=NOT_HERE, why=NOTHING_SLOWS)


def _fig1(documents: Documents) -> list[Claim]:
    own = documents["fig1"]
    worst = {**own["impact"], "itself": own["itself"]}
    what = "no kernel slows EP down, itself included"
    return [_little("Fig. 1", what, own, worst, CPU_WHY)]


def _fig2(documents: Documents) -> list[Claim]:
    own = documents["fig2"]
    little = _little(
        "Fig. 2", "no other kernel slows I/O Bench down", own, _others(own), DISK_WHY
    )
    return [
        Claim(
            "Fig. 2",
            f"I/O Bench beside itself slows down more than in proportion ({own['cpus']} "
            "at once)",
            f"above {own['cpus'] - 1}",
            f"{own['itself']:.2f}",
            median(own, own["itself"]),
            Above(own["cpus"] - 1),
            why=DISK_WHY,
        ),
        _unless_nothing_slows(little, own),
    ]


def _fig3(documents: Documents) -> list[Claim]:
    own = documents["fig3"]
    what = "GUPS has little effect on STREAM; EP and I/O Bench have none"
    little = _little("Fig. 3", what, own, _others(own), MEMORY_WHY)
    return [
        _slows("Fig. 3", "STREAM beside itself slows down", own),
        _unless_nothing_slows(little, own),
    ]


def _fig4(documents: Documents) -> list[Claim]:
    own, stream = documents["fig4"], documents.get("fig3")
    by_stream = own["impact"]["STREAM"]
    what = "EP and I/O Bench have no effect on GUPS"
    little = _little("Fig. 4", what, own, _others(own, "STREAM"), MEMORY_WHY)
    result = [
        _slows("Fig. 4", "GUPS beside itself slows down", own),
        _unless_nothing_slows(little, own),
    ]
    if stream is not None:
        back = stream["impact"]["GUPS"]
        result.append(
            Claim(
                "Figs. 3, 4",
                "interference is one-way: STREAM slows GUPS down, not the converse",
                "yes",
                f"{by_stream:.2f}, and back {back:.2f}",
                cases([by_stream > NO_EFFECT, back <= NO_EFFECT]),
                Order(),
                why=MEMORY_WHY,
            )
        )
    return result


def _table1(documents: Documents) -> list[Claim]:
    own = documents["table1"]
    speedups = own["speedups"]
    result = [
        Claim(
            "Table 1",
            "spread over twice as many nodes, no job is slower",
            "1.00 to 4.97",
            _shown(speedups),
            apart=NOT_HERE,
            why=ONE_NODE,
        )
    ]
    memory = [speedups[name] for name in ("stream", "gups") if name in speedups]
    if memory and "cpu" in speedups:
        result += [
            Claim(
                "Table 1",
                "codes limited by memory gain from a free other half",
                "1.12 to 1.55",
                f"{min(memory):.2f} to {max(memory):.2f}",
                Points(tuple(median(own, one) for one in memory)),
                near(1.12, 1.55, 1),
                why=MEMORY_WHY,
            ),
            Claim(
                "Table 1",
                "EP does not",
                "1.00",
                f"{speedups['cpu']:.2f}",
                median(own, speedups["cpu"]),
                near(1.0),
                why=CPU_WHY,
            ),
        ]
    return [*result, *in_table1(own)]


def _table2(documents: Documents) -> list[Claim]:
    own = documents["table2"]
    rows = {name: row for name, row in own["applications"].items() if name in KERNELS}
    others = [name for name in rows if name != "io"]
    pairs = [rows[one]["beside"][other] for one, other in permutations(others, 2)]
    pairs += [rows[one]["beside"]["io"] for one in others if "io" in rows]
    mean = fmean(pairs)
    of_all = fmean(rows[one]["beside"][other] for one, other in permutations(rows, 2))
    result = [
        Claim(
            "Table 2",
            "sharing with another code gains, on average",
            "1.15",
            f"{of_all:.2f}, without the I/O kernel's own gain {mean:.2f}",
            median(own, mean),
            near(1.15, no_effect=1),
            why=MEMORY_WHY,
        )
    ]
    if {"cpu", "stream"} <= set(rows):
        gain, cost = rows["stream"]["beside"]["cpu"], rows["cpu"]["beside"]["stream"]
        result += [
            Claim(
                "Table 2",
                "memory beside CPU (CG, EP): the one gains",
                "1.36",
                f"{gain:.2f}",
                median(own, gain),
                near(1.36, no_effect=1),
                why=MEMORY_WHY,
            ),
            Claim(
                "Table 2",
                "the other loses nothing",
                "1.03",
                f"{cost:.2f}",
                median(own, cost),
                near(1.03),
                why=CPU_WHY,
            ),
        ]
    return [*result, *in_table2(own)]


def _table3(documents: Documents) -> list[Claim]:
    own = documents["table3"]
    said = own["said"]
    users = [name for name in said if name != "BTIO"]  # whose label is the authors'
    by_kind = [
        sum(kind in said[name] for name in users)
        for kind in ("cpu", "memory", "io", "network")
    ]
    right = sum(check["right"] for check in own["labels"])
    judged = right + sum(check["wrong"] for check in own["labels"])
    return [
        _recomputed(
            "Table 3",
            "bottlenecks are evenly distributed, the interconnect's common: FLOP, memory, "
            "I/O, communication",
            "2, 2, 1, 4 of 5",
            ", ".join(map(str, by_kind)),
        ),
        _recomputed(
            "Table 3",
            "labels say what happens beside others",
            "in general",
            f"{right} of {judged}",
        ),
    ]


def _table4(documents: Documents) -> list[Claim]:
    found = documents["table4"]["assessment"]
    best, worst = found["best_throughput"], found["worst_throughput"]
    slow = f"{1 - found['slow_mean']:.2%}"
    right = f"{found['symbiotic_right']} of {found['symbiotic']}"
    random = (
        f"{found['random'] - 1:.1%}, the mean over the combinations without a warning "
        f"({found['guided_mean'] - 1:.1%} over the schedules made of them, "
        f"{found['symbiotic_mean'] - 1:.1%} over the predicted combinations alone)"
    )
    rows = (
        ("mean slowdown where users expect one", "16.25%", slow),
        ("predictions of symbiosis that are right", "94%", right),
        ("user-guided, at random", "15%", random),
        ("best schedule", "22.3%", f"{best - 1:.1%}, the same pairs"),
        ("worst user-guided schedule", "7%", f"{worst - 1:.1%}, the same pairs"),
        ("any schedule, blindly", "", f"{found['blind_mean'] - 1:.1%}"),
    )
    return [_recomputed("Table 4", *row) for row in rows]


def _learner(documents: Documents) -> list[Claim]:
    own = documents["learner"]
    rounds = own["rounds"]["users' labels"]
    gains = [one["throughput"] for one in rounds]
    errors = [own["error_before"], *(one["error"] for one in rounds)]
    best = max(row["throughput"] for row in own["schedules"])
    settled = settled_at(gains, best)
    when = "never" if settled is None else f"for good after {settled} rounds"
    # The scheduler sees the speeds of Table 4, exactly. No user-guided schedule of these is
    # below 1, so none could cost anything.
    return [
        _recomputed(
            "3.3",
            "an experimenting scheduler finds the best schedule, and pays nothing",
            "expected",
            f"{when}, never below {min(gains) - 1:.1%}",
        ),
        _recomputed(
            "3",
            "what was seen verifies labels: the estimates' error falls",
            "proposed",
            f"{errors[0]:.1%} before, {errors[-1]:.1%} after {len(rounds)} rounds",
        ),
    ]


def settled_at(gains: Sequence[float], best: float) -> int | None:
    """The round after which all are the best; None: the last one is not."""
    others = [count for count, gain in enumerate(gains, 1) if gain < best - 1e-9]
    last = others[-1] if others else 0
    return None if last == len(gains) else last


def _stream(documents: Documents) -> list[Claim]:
    cell = {
        (row["order"], row["queue"], row["placement"]): row
        for row in documents["stream"]["rows"]
    }
    split, labels = (cell["largest", 12, name] for name in ("split", "labels"))
    return [
        Claim(
            "2.4",
            "the prototype on the 100-job stream, over DataStar's scheduler",
            "1.20",
            f"{split['compared_over_whole']:.2f} over whole nodes for each job, "
            f"{split['compared_over_packed']:.2f} if small jobs share nodes there, too",
            exact(split["compared_over_whole"]),
            near(1.20, no_effect=1),
        ),
        Claim(
            "2.4",
            "labels, and halves fixed by class, to the last job",
            "",
            f"{labels['over_whole']:.2f}, {split['over_whole']:.2f}",
        ),
    ]


def _log(documents: Documents) -> list[Claim]:
    own = documents["log"]
    row = {entry["placement"]: entry for entry in own["rows"]}["anyhow"]
    ours = ", ".join(
        f"{row[f'mean_{figure}_over_whole']:.2f} in mean {figure}"
        for figure in ("wait", "response")
    )
    return [
        Claim(
            "5",
            f"over a real log ({own['jobs']:,} jobs, anyhow), EASY without sharing / this",
            "",
            f"{ours}, {row['makespan_over_whole']:.3f} in makespan, which arrivals bound",
        )
    ]


CLAIMS: Mapping[str, Callable[[Documents], list[Claim]]] = {
    "fig1": _fig1,
    "fig2": _fig2,
    "fig3": _fig3,
    "fig4": _fig4,
    "table1": _table1,
    "table2": _table2,
    "table3": _table3,
    "table4": _table4,
    "learner": _learner,
    "stream": _stream,
    "log": _log,
}


def claims(part: str, documents: Documents) -> list[Claim]:
    """Those of a part that is among the documents."""
    found, own = CLAIMS[part](documents), documents[part]
    others = own.get("quiet", {}).get("outside_median", 0.0)
    if others > QUIET:
        why = f"others used {others:.0%} of the machine meanwhile; measure on a quiet one"
        return [_with_reason(one, why) for one in found]
    if own.get("setting", {}).get("emulated"):
        whys = EMULATED_WHYS
        return [_with_reason(one, whys.get(one.what, EMULATED_WHY)) for one in found]
    return found


def _with_reason(claim: Claim, why: str) -> Claim:
    return claim if claim.apart else msgspec.structs.replace(claim, why=why)
