"""What Weinberg and Snavely (2006) say of each figure and table, and what was found. Pure.

A measured "no effect" allows for a tenth: the paper's claims "need only be notional". What
did not hold while others used the machine is said to be so for that reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

Documents: TypeAlias = "Mapping[str, Mapping[str, Any]]"

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


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement beside the paper's. holds: None where nothing was measured, or where
    the paper says nothing. why: a likely reason, should it not hold."""

    part: str
    what: str
    paper: str
    ours: str
    holds: bool | None
    why: str = ""

    @property
    def verdict(self) -> str:
        """In words."""
        if self.holds is None:
            return ""
        return "yes" if self.holds else f"**no**: {self.why or 'see below'}"


def _shown(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in values.items())


def _others(document: Mapping[str, Any], *left_out: str) -> dict[str, float]:
    return {
        name: value for name, value in document["impact"].items() if name not in left_out
    }


def _little(part: str, what: str, impact: Mapping[str, float], why: str) -> Claim:
    return Claim(part, what, "none", _shown(impact), max(impact.values()) <= NO_EFFECT, why)


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
            own["itself"] > own["cpus"] - 1,
            DISK_WHY,
        ),
        _little("Fig. 2", "no other kernel slows I/O Bench down", _others(own), DISK_WHY),
    ]


def _fig3(documents: Documents) -> list[Claim]:
    own = documents["fig3"]
    return [
        Claim(
            "Fig. 3",
            "STREAM beside itself slows down",
            "yes",
            f"{own['itself']:.2f}",
            own["itself"] > NO_EFFECT,
            MEMORY_WHY,
        ),
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
        Claim(
            "Fig. 4",
            "GUPS beside itself slows down",
            "yes",
            f"{own['itself']:.2f}",
            own["itself"] > NO_EFFECT,
            MEMORY_WHY,
        ),
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
                by_stream > NO_EFFECT and by_stream > back,
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
            min(speedups.values()) >= 1 - NO_EFFECT,
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
                min(memory) > speedups["cpu"] and speedups["cpu"] <= 1 + NO_EFFECT,
                MEMORY_WHY,
            )
        )
    return result


def _table2(documents: Documents) -> list[Claim]:
    own = documents["table2"]
    rows = own["applications"]
    result = [
        Claim(
            "Table 2",
            "sharing with another code gains, on average",
            "1.15",
            f"{own['mean']:.2f}",
            own["mean"] > 1,
            MEMORY_WHY,
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
                gain > 1 and cost >= 1 - NO_EFFECT,
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
            by_kind == [2, 2, 1, 4],
        ),
        Claim(
            "Table 3",
            "labels say what happens beside others",
            "18 of 20",
            f"{right} of {judged}",
            right >= 0.9 * judged,
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
            abs(1 - found["slow_mean"] - 0.1625) < 0.0001,
        ),
        Claim(
            "Table 4",
            "predictions of symbiosis that are right",
            "94%",
            f"{found['symbiotic_right']} of {found['symbiotic']}",
            abs(found["symbiotic_right"] / found["symbiotic"] - 0.94) < 0.005,
        ),
        Claim(
            "Table 4",
            "user-guided, at random",
            "15%",
            f"{found['random'] - 1:.1%}, the mean over the combinations without a warning "
            f"({found['guided_mean'] - 1:.1%} over the schedules made of them, "
            f"{found['symbiotic_mean'] - 1:.1%} over the predicted combinations alone)",
            abs(found["random"] - 1.15) < 0.005,
        ),
        Claim(
            "Table 4",
            "best schedule",
            "22.3%",
            f"{best - 1:.1%}, the same pairs",
            abs(best - 1.223) < 0.0005,
        ),
        Claim(
            "Table 4",
            "worst user-guided schedule",
            "7%",
            f"{worst - 1:.1%}, the same pairs",
            abs(worst - 1.07) < 0.005,
        ),
        Claim(
            "Table 4", "any schedule, blindly", "", f"{found['blind_mean'] - 1:.1%}", None
        ),
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
            settled is not None and min(gains) >= 1,
        ),
        Claim(
            "3",
            "what was seen verifies labels: the estimates' error falls",
            "proposed",
            f"{errors[0]:.1%} before, {errors[-1]:.1%} after {len(rounds)} rounds",
            errors == sorted(errors, reverse=True) and errors[-1] < errors[0] / 2,
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
            split["compared_over_whole"] > 1.1,
        ),
        Claim(
            "2.4",
            "choosing by labels is no worse than halves fixed by class",
            "",
            f"{labels['over_whole']:.2f}, {split['over_whole']:.2f} to the last job",
            labels["over_whole"] >= split["over_whole"] - SLACK,
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
            row["mean_wait_over_whole"] > 1 and row["mean_response_over_whole"] > 1,
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
