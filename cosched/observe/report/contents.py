"""Computes the data of a report from timelines and bench results. Pure.

Times are microseconds since the first job arrived. A list of start times holds the
difference to the previous one, so a page with a hundred thousand switches stays small.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import accumulate
from typing import Any

from cosched.core.node.division import format_cpus
from cosched.core.node.messages import Cause, Job, Refusal
from cosched.core.units import NS_PER_S, NS_PER_US
from cosched.observe.report.simulations import simulation_data
from cosched.observe.timeline.agreement import (
    Agreement,
    agreements,
    length_ns,
)
from cosched.observe.timeline.overlap import Interval, time_by_depth
from cosched.observe.timeline.timeline import NodeTimeline, Refused, Span
from cosched.rundir.paths import name_for

Json = dict[str, Any]
#: The causes that made a job run, in words.
CAUSES = {
    Cause.FIRST: "nothing kept it from running",
    Cause.FREED: "another job made room",
    Cause.SLICE: "its turn: the slice was over",
    Cause.PULLED: "pulled by a message",
    Cause.GIVEN: "an outside command gave it its turn",
    Cause.CROWDED: "a neighbour grew",
    Cause.RESUMED: "resumed by its owner",
    Cause.RAISED: "boosted by its owner",
    Cause.RESTED: "its rest was over",
}
REFUSALS = {
    Refusal.GMET: "the running job had not had its guaranteed time",
    Refusal.PRECEDED: "a job submitted before it had come in",
    Refusal.AHEAD: "another waiting job has had less CPU time",
    Refusal.SCHEDULED: "it ran already",
    Refusal.STALE: "asked before the last switch",
    Refusal.SUSPENDED: "suspended by its owner",
    Refusal.BARRED: "a boosted job has the CPUs",
    Refusal.UNKNOWN: "no such task",
}


def report_data(
    nodes: Sequence[NodeTimeline],
    benches: Sequence[Mapping[str, Any]],
    simulations: Sequence[Mapping[str, Any]] = (),
) -> Json:
    """Returns all data that the page draws. benches, simulations: the results."""
    return {
        "timeline": _timeline(nodes) if nodes else None,
        "benches": [_bench(bench) for bench in benches],
        "simulations": [
            section for content in simulations for section in simulation_data(content)
        ],
    }


def _timeline(nodes: Sequence[NodeTimeline]) -> Json:
    stays = [stay for node in nodes for stay in node.present]
    origin_ns = min((begin for _, begin, _ in stays), default=nodes[0].begin_ns)
    end_ns = max((end for _, _, end in stays), default=origin_ns)
    by_job = _by_job(nodes)
    jobs = list(by_job)
    number = {job: index for index, job in enumerate(jobs)}
    agreed = {agreement.job: agreement for agreement in agreements(nodes)}
    return {
        "begin": f"{datetime.fromtimestamp(origin_ns // NS_PER_S, timezone.utc):%F %T} UTC",
        "length_us": (end_ns - origin_ns) // NS_PER_US,
        "jobs": _names(jobs),
        "keyed": len(_users(jobs)) > 1,
        "causes": [[cause.value, CAUSES.get(cause, cause.value)] for cause in Cause],
        "reasons": [[reason.value, REFUSALS[reason]] for reason in Refusal],
        "nodes": [_node(node, number, origin_ns) for node in nodes],
        "together": _together(agreed.values(), number, origin_ns),
        "sizes": [_sizes(own.stays, origin_ns) for own in by_job.values()],
        "per_job": [_job(own, agreed.get(job)) for job, own in by_job.items()],
        "totals": _totals(nodes, agreed.values()),
    }


@dataclass(slots=True)
class _OfJob:
    """One job on all nodes."""

    #: When it was on a node, in ns since 1970; one interval for each stay on each node.
    stays: list[Interval] = field(default_factory=list)
    nodes: set[str] = field(default_factory=set)  #: the nodes that it was on
    causes: Counter[Cause] = field(default_factory=Counter)  #: of its spans
    #: How long each node ran it, in ns: about its time alone there.
    scheduled_ns: Counter[str] = field(default_factory=Counter)
    refused: int = 0  #: its messages that caused no switch


def _by_job(nodes: Sequence[NodeTimeline]) -> dict[Job, _OfJob]:
    """Returns all jobs that were on a node, by key."""
    found = {job: _OfJob() for job in sorted({j for n in nodes for j, _, _ in n.present})}
    for node in nodes:
        for job, begin, end in node.present:
            found[job].stays.append((begin, end))
            found[job].nodes.add(node.node)
        for span in node.spans:
            if own := found.get(span.job):
                own.causes[span.cause] += 1
                own.scheduled_ns[node.node] += span.end_ns - span.begin_ns
        for refused in node.refused:
            if own := found.get(refused.job):
                own.refused += 1
    return found


def _names(jobs: Sequence[Job]) -> list[str]:
    """Returns the names of jobs without the uid of their user; with it, if several users
    have jobs."""
    if len(_users(jobs)) > 1:
        return list(jobs)
    return [name_for(jobs[0], job) for job in jobs]


def _users(jobs: Iterable[Job]) -> set[str]:
    """Returns the uids of the users whose jobs these are."""
    return {job.partition(".")[0] for job in jobs}


def _node(node: NodeTimeline, number: Mapping[Job, int], origin_ns: int) -> Json:
    # A part on which no job ran has its lane, too.
    lanes = max([1, len(node.parts), *(1 + span.lane for span in node.spans)])
    return {
        "name": node.node,
        "parts": [format_cpus(cpus) for cpus in node.parts],
        "lanes": [
            _spans([span for span in node.spans if span.lane == lane], number, origin_ns)
            for lane in range(lanes)
        ],
        "refused": _refused(
            [refused for refused in node.refused if refused.job in number],
            number,
            origin_ns,
        ),
    }


def _spans(spans: Sequence[Span], number: Mapping[Job, int], origin_ns: int) -> Json:
    causes = list(Cause)
    return {
        "begin": _differences(span.begin_ns - origin_ns for span in spans),
        "length": [span.end_ns // NS_PER_US - span.begin_ns // NS_PER_US for span in spans],
        "job": [number[span.job] for span in spans],
        "cause": [causes.index(span.cause) for span in spans],
    }


def _refused(refused: Sequence[Refused], number: Mapping[Job, int], origin_ns: int) -> Json:
    reasons = list(Refusal)
    return {
        "at": _differences(item.at_ns - origin_ns for item in refused),
        "job": [number[item.job] for item in refused],
        "reason": [reasons.index(item.reason) for item in refused],
    }


def _together(
    agreed: Iterable[Agreement], number: Mapping[Job, int], origin_ns: int
) -> Json:
    """Returns the times when a job ran on all its nodes, as spans of one more row."""
    found = sorted(
        (begin, end, number[agreement.job])
        for agreement in agreed
        for begin, end in agreement.together
    )
    return {
        "begin": _differences(begin - origin_ns for begin, _, _ in found),
        "length": [(end - begin) // NS_PER_US for begin, end, _ in found],
        "job": [job for _, _, job in found],
    }


def _differences(times_ns: Iterable[int]) -> list[int]:
    before = 0
    found = []
    for time_ns in times_ns:
        at = time_ns // NS_PER_US
        found.append(at - before)
        before = at
    return found


def _job(own: _OfJob, agreement: Agreement | None) -> Json:
    present_ns = length_ns(own.stays)
    return {
        "nodes": sorted(own.nodes),
        "here_s": _here_ns(own.stays) / NS_PER_S,
        "alone_s": max(own.scheduled_ns.values(), default=0) / NS_PER_S,
        "share": own.scheduled_ns.total() / present_ns if present_ns else None,
        "together": agreement.fraction if agreement else None,
        "switches": own.causes.total(),
        "pulled": own.causes[Cause.PULLED],
        "refused": own.refused,
    }


def _here_ns(stays: Sequence[Interval]) -> int:
    """Returns how long a job was on at least one node: the sum of the runs of its name."""
    return sum(time_by_depth([stay] for stay in stays).values())


def _sizes(stays: Sequence[Interval], origin_ns: int) -> Json:
    """Returns how many nodes a job had from each of these times on."""
    steps: Counter[int] = Counter()
    for begin_ns, end_ns in stays:
        steps[begin_ns] += 1
        steps[end_ns] -= 1
    times = sorted(at_ns for at_ns, by in steps.items() if by)
    return {
        "at": _differences(at_ns - origin_ns for at_ns in times),
        "nodes": list(accumulate(steps[at_ns] for at_ns in times)),
    }


def _totals(nodes: Sequence[NodeTimeline], agreed: Collection[Agreement]) -> Json:
    together_ns = sum(length_ns(agreement.together) for agreement in agreed)
    apart_ns = sum(length_ns(agreement.apart) for agreement in agreed)
    causes = Counter(span.cause for node in nodes for span in node.spans)
    return {
        "switches": causes.total(),
        "pulled": causes[Cause.PULLED],
        "refused": sum(len(node.refused) for node in nodes),
        "together": together_ns / (together_ns + apart_ns)
        if together_ns + apart_ns
        else None,
    }


def _bench(bench: Mapping[str, Any]) -> Json:
    """Returns the part of a bench result (docs/json.md) that the page shows."""
    return {
        "title": bench["workload"]["title"],
        "facts": _facts(bench),
        "void": [name for name, arm in bench["arms"].items() if _is_void(arm)],
        "about": bench["workload"].get("description") or "",
        "ratios": bench.get("ratios", {}),
        "level_ratios": bench.get("level_ratios"),
        "alone_s": (bench.get("slowdown") or {}).get("lengths_s", {}),
        "arms": [
            {
                "name": name,
                "mean_response_s": arm["mean_response_s"],
                "makespan_s": arm["makespan_s"],
                "mean_slowdown": arm.get("mean_slowdown"),
                "worst_slowdown": arm.get("worst_slowdown"),
                "jobs": [[job["name"], job["response_s"]] for job in arm["jobs"]],
                "runs": [
                    [run["mean_response_s"], run["makespan_s"], _is_good(run)]
                    for run in arm["repeats"]
                    if run["failure"] is None
                ],
            }
            for name, arm in bench["arms"].items()
        ],
    }


def _is_good(run: Mapping[str, Any]) -> bool:
    return bool(run["counted"] and not run["discarded"])


def _is_void(arm: Mapping[str, Any]) -> bool:
    """Returns whether only disturbed runs of an arm are left, so that it shows nothing."""
    counted = [run for run in arm["repeats"] if run["counted"]]
    return bool(counted) and all(run["discarded"] for run in counted)


def _facts(bench: Mapping[str, Any]) -> list[list[str]]:
    """Returns the conditions of a bench, as far as its result has them: name, text."""
    shown = {
        "date": bench.get("started"),
        "command": shlex.join(map(str, bench.get("command_line") or ())),
        "MPI": bench.get("mpi"),
        "kernel": bench.get("kernel"),
        "cosched": bench.get("cosched"),
        "nodes": ", ".join(map(str, bench.get("hosts") or ())),
        "settings": bench.get("settings"),
    }
    return [[name, _fact(value)] for name, value in shown.items() if value]


def _fact(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {text}" for name, text in value.items())
    return str(value)
