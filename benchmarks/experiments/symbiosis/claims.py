"""What Weinberg and Snavely (2006) say of each figure and table, and what was found. Pure.

A measured figure is the median of several rounds. A slowdown is judged as the ratio of the
times, so that no slowdown is 1. Where others used the machine, this is the likely reason of
each "no".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import truediv
from typing import Any, TypeAlias

from benchmarks.experiments.claims import Claim
from benchmarks.experiments.verdicts import (
    NO,
    exact,
    judge_above,
    judge_cases,
    judge_value,
    over_cases,
)

Documents: TypeAlias = "Mapping[str, Mapping[str, Any]]"

#: The paper's claims "need only be notional": a smaller slowdown counts as none.
NO_EFFECT = 0.10
#: The greatest median share of the machine for other work; above it is not quiet.
QUIET = 0.05
#: Means of simulated streams may differ by this and be equal.
SLACK = 0.005

MEMORY_WHY = (
    "so few CPUs do not fill this machine's memory bandwidth, and caches and memory are "
    "shared with whatever else its host runs"
)
DISK_WHY = "the disk is the host's, which caches, and divides it by its own rules"
CPU_WHY = "the host's CPUs change their clock, and may share a core between two of ours"


def _shown(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in values.items())


def _others(document: Mapping[str, Any], *left_out: str) -> dict[str, float]:
    return {
        name: value for name, value in document["impact"].items() if name not in left_out
    }


def _near(
    source: str,
    what: str,
    paper: str,
    ours: str,
    value: float,
    wanted: float,
    why: str = "",
    no_effect: float = 1.0,
) -> Claim:
    """Returns a claim that a calculated or measured value is the paper's."""
    verdict = judge_value(exact(value), wanted, no_effect=no_effect)
    return Claim(source, what, paper, ours, verdict, why)


def _slows(source: str, what: str, slowdown: float) -> Claim:
    """Returns a claim that a kernel slows down for lack of memory bandwidth."""
    verdict = judge_cases([slowdown > NO_EFFECT])
    return Claim(source, what, "yes", f"{slowdown:.2f}", verdict, MEMORY_WHY)


def _little(part: str, what: str, impact: Mapping[str, float], why: str) -> Claim:
    verdict = judge_value(exact(1 + max(impact.values(), key=abs)), 1.0)
    if max(impact.values()) > NO_EFFECT:
        verdict = NO
    return Claim(part, what, "none", _shown(impact), verdict, why)


def _fig1(documents: Documents) -> list[Claim]:
    own = documents["fig1"]
    worst = {**own["impact"], "itself": own["itself"]}
    return [_little("Fig. 1", "no kernel slows EP down, itself included", worst, CPU_WHY)]


def _fig2(documents: Documents) -> list[Claim]:
    own = documents["fig2"]
    return [
        Claim(
            "Fig. 2",
            f"I/O Bench beside itself slows down more than in proportion ({own['cpus']} "
            "at once)",
            f"above {own['cpus'] - 1}",
            f"{own['itself']:.2f}",
            judge_above(exact(own["itself"]), own["cpus"] - 1),
            DISK_WHY,
        ),
        _little("Fig. 2", "no other kernel slows I/O Bench down", _others(own), DISK_WHY),
    ]


def _fig3(documents: Documents) -> list[Claim]:
    own = documents["fig3"]
    return [
        _slows("Fig. 3", "STREAM beside itself slows down", own["itself"]),
        _little(
            "Fig. 3",
            "GUPS has little effect on STREAM; EP and I/O Bench have none",
            _others(own),
            MEMORY_WHY,
        ),
    ]


def _fig4(documents: Documents) -> list[Claim]:
    own, stream = documents["fig4"], documents.get("fig3")
    by_stream = own["impact"]["STREAM"]
    result = [
        _slows("Fig. 4", "GUPS beside itself slows down", own["itself"]),
        _little(
            "Fig. 4",
            "EP and I/O Bench have no effect on GUPS",
            _others(own, "STREAM"),
            MEMORY_WHY,
        ),
    ]
    if stream is not None:
        back = stream["impact"]["GUPS"]
        result.append(
            Claim(
                "Figs. 3, 4",
                "interference is one-way: STREAM slows GUPS down, not the converse",
                "yes",
                f"{by_stream:.2f}, and back {back:.2f}",
                judge_cases([by_stream > back, by_stream > NO_EFFECT]),
                MEMORY_WHY,
            )
        )
    return result


def _table1(documents: Documents) -> list[Claim]:
    speedups = documents["table1"]["speedups"]
    result = [
        Claim(
            "Table 1",
            "spread over twice as many nodes, no job is slower",
            "1.00 to 4.97",
            _shown(speedups),
            judge_cases([speed >= 1 - NO_EFFECT for speed in speedups.values()]),
            MEMORY_WHY,
        )
    ]
    memory = [speedups[name] for name in ("stream", "gups") if name in speedups]
    if memory and "cpu" in speedups:
        result.append(
            Claim(
                "Table 1",
                "codes limited by memory gain, EP does not",
                "1.12 to 1.55, 1.00",
                f"{min(memory):.2f} to {max(memory):.2f}, {speedups['cpu']:.2f}",
                judge_cases(
                    [min(memory) > speedups["cpu"], speedups["cpu"] <= 1 + NO_EFFECT]
                ),
                MEMORY_WHY,
            )
        )
    return result


def _table2(documents: Documents) -> list[Claim]:
    own = documents["table2"]
    rows = own["applications"]
    result = [
        _near(
            "Table 2",
            "sharing with another code gains, on average",
            *("1.15", f"{own['mean']:.2f}", own["mean"], 1.15, MEMORY_WHY),
        )
    ]
    if {"cpu", "stream"} <= set(rows):
        gain, cost = rows["stream"]["beside"]["cpu"], rows["cpu"]["beside"]["stream"]
        result.append(
            Claim(
                "Table 2",
                "memory beside CPU (CG, EP): the one gains, the other loses nothing",
                "1.36, 1.03",
                f"{gain:.2f}, {cost:.2f}",
                judge_value(exact(gain), 1.36) if cost >= 1 - NO_EFFECT else NO,
                MEMORY_WHY,
            )
        )
    return result


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
        Claim(
            "Table 3",
            "bottlenecks are evenly distributed, the interconnect's common: FLOP, memory, "
            "I/O, communication",
            "2, 2, 1, 4 of 5",
            ", ".join(map(str, by_kind)),
            judge_value(over_cases(map(truediv, by_kind, (2, 2, 1, 4))), 1.0),
        ),
        Claim(
            "Table 3",
            "labels say what happens beside others",
            "18 of 20",
            f"{right} of {judged}",
            judge_value(exact(right / judged), 0.9),
            "users were wrong",
        ),
    ]


def _table4(documents: Documents) -> list[Claim]:
    found = documents["table4"]["assessment"]
    best, worst = found["best_throughput"], found["worst_throughput"]
    return [
        Claim(
            "Table 4",
            "mean slowdown where users expect one",
            "16.25%",
            f"{1 - found['slow_mean']:.2%}",
            judge_value(exact(1 - found["slow_mean"]), 0.1625),
        ),
        Claim(
            "Table 4",
            "predictions of symbiosis that are right",
            "94%",
            f"{found['symbiotic_right']} of {found['symbiotic']}",
            judge_value(exact(found["symbiotic_right"] / found["symbiotic"]), 0.94),
        ),
        Claim(
            "Table 4",
            "user-guided, at random",
            "15%",
            f"{found['random'] - 1:.1%}, the mean over the combinations without a warning "
            f"({found['guided_mean'] - 1:.1%} over the schedules made of them, "
            f"{found['symbiotic_mean'] - 1:.1%} over the predicted combinations alone)",
            judge_value(exact(found["random"] - 1), 0.15, no_effect=0),
        ),
        Claim(
            "Table 4",
            "best schedule",
            "22.3%",
            f"{best - 1:.1%}, the same pairs",
            judge_value(exact(best - 1), 0.223, no_effect=0),
        ),
        Claim(
            "Table 4",
            "worst user-guided schedule",
            "7%",
            f"{worst - 1:.1%}, the same pairs",
            judge_value(exact(worst - 1), 0.07, no_effect=0),
        ),
        Claim("Table 4", "any schedule, blindly", "", f"{found['blind_mean'] - 1:.1%}", ""),
    ]


def _learner(documents: Documents) -> list[Claim]:
    own = documents["learner"]
    rounds = own["rounds"]["users' labels"]
    gains = [one["throughput"] for one in rounds]
    errors = [own["error_before"], *(one["error"] for one in rounds)]
    best = max(row["throughput"] for row in own["schedules"])
    settled = settled_at(gains, best)
    when = "never" if settled is None else f"for good after {settled} rounds"
    return [
        Claim(
            "3.3",
            "an experimenting scheduler finds the best schedule, and pays nothing",
            "expected",
            f"{when}, never below {min(gains) - 1:.1%}",
            judge_cases([settled is not None, min(gains) >= 1]),
        ),
        Claim(
            "3",
            "what was seen verifies labels: the estimates' error falls",
            "proposed",
            f"{errors[0]:.1%} before, {errors[-1]:.1%} after {len(rounds)} rounds",
            judge_cases(
                [
                    *(later <= earlier for earlier, later in pairwise(errors)),
                    errors[-1] < errors[0] / 2,
                ]
            ),
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
            judge_value(exact(split["compared_over_whole"]), 1.20),
        ),
        Claim(
            "2.4",
            "choosing by labels is no worse than halves fixed by class",
            "",
            f"{labels['over_whole']:.2f}, {split['over_whole']:.2f} to the last job",
            judge_cases([labels["over_whole"] >= split["over_whole"] - SLACK]),
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
            judge_cases(
                [row[f"mean_{figure}_over_whole"] > 1 for figure in ("wait", "response")]
            ),
            "jobs spread over twice as many nodes wait longer for them",
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
    found = CLAIMS[part](documents)
    others = documents[part].get("quiet", {}).get("outside_median", 0.0)
    if others <= QUIET:
        return found
    why = f"others used {others:.0%} of the machine meanwhile; measure on a quiet one"
    return [replace(one, why=why) for one in found]
