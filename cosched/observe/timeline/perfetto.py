"""Converts timelines to the trace event format of Perfetto and Chrome. Pure.

A node becomes a process, a job a thread, and a span a complete event. Refused requests and
switches that a message pulled are instants on the job's thread. If only one node can have
sent the message, a flow leads from that node's span to the pulled one. Times are
microseconds since the earliest one, whose wall clock is in ``otherData``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cosched.core.node.messages import Cause, Job
from cosched.core.units import NS_PER_US
from cosched.observe.timeline.agreement import Follow, follows
from cosched.observe.timeline.timeline import NodeTimeline

Event = dict[str, Any]


def perfetto(nodes: Sequence[NodeTimeline]) -> dict[str, Any]:
    """Returns the whole document, ready for ``json.dumps``."""
    origin_ns = min((node.begin_ns for node in nodes), default=0)
    return _Writer(nodes, origin_ns).document()


class _Writer:
    def __init__(self, nodes: Sequence[NodeTimeline], origin_ns: int) -> None:
        self._nodes = nodes
        self._origin_ns = origin_ns
        self._pids = {node.node: pid for pid, node in enumerate(nodes, 1)}
        jobs = sorted({job for node in nodes for job, _, _ in node.present})
        self._tids = {job: tid for tid, job in enumerate(jobs, 1)}

    def document(self) -> dict[str, Any]:
        events: list[Event] = []
        for node in self._nodes:
            events += self._names(node)
            events += self._spans(node)
            events += self._pulls(node)
            events += self._refusals(node)
        events += self._flows()
        events.sort(key=lambda event: (event["ph"] != "M", event.get("ts", 0.0)))
        return {
            "traceEvents": events,
            "displayTimeUnit": "ms",
            "otherData": {"writer": "cosched", "origin_wall_ns": self._origin_ns},
        }

    def _us(self, at_ns: int) -> float:
        return (at_ns - self._origin_ns) / NS_PER_US

    def _names(self, node: NodeTimeline) -> list[Event]:
        pid = self._pids[node.node]
        named = {job for job, _, _ in node.present}
        process = {"name": "process_name", "ph": "M", "pid": pid}
        return [
            {**process, "args": {"name": f"node {node.node}"}},
            *(
                {
                    "name": "thread_name",
                    "ph": "M",
                    "pid": pid,
                    "tid": self._tids[job],
                    "args": {"name": f"job {job}"},
                }
                for job in sorted(named)
            ),
        ]

    def _spans(self, node: NodeTimeline) -> list[Event]:
        events = []
        for span in node.spans:
            where = {"pid": self._pids[node.node], "tid": self._tids[span.job]}
            events.append(
                {
                    "name": span.job,
                    "cat": span.cause.value,
                    "ph": "X",
                    "ts": self._us(span.begin_ns),
                    "dur": (span.end_ns - span.begin_ns) / NS_PER_US,
                    "args": {"cause": span.cause.value, "cut": span.cut},
                    **where,
                }
            )
        return events

    def _refusals(self, node: NodeTimeline) -> list[Event]:
        return [
            {
                **self._instant(node, refused.job, refused.at_ns, "refused"),
                "name": f"refused: {refused.reason.value}",
                "args": {"task": refused.task},
            }
            for refused in node.refused
            if refused.job in self._tids
        ]

    def _pulls(self, node: NodeTimeline) -> list[Event]:
        return [
            {
                **self._instant(node, span.job, span.begin_ns, "pulled"),
                "name": "pulled by a message",
            }
            for span in node.spans
            if span.cause is Cause.PULLED
        ]

    def _instant(self, node: NodeTimeline, job: Job, at_ns: int, category: str) -> Event:
        return {
            "name": category,
            "cat": category,
            "ph": "i",
            "s": "t",
            "ts": self._us(at_ns),
            "pid": self._pids[node.node],
            "tid": self._tids[job],
        }

    def _flows(self) -> list[Event]:
        events: list[Event] = []
        for number, follow in enumerate(follows(self._nodes), 1):
            if follow.pulled and follow.leader is not None:
                events += self._flow(follow, follow.leader, number)
        return events

    def _flow(self, follow: Follow, leader: str, number: int) -> list[Event]:
        tid = self._tids[follow.span.job]
        same = {"name": "message", "cat": "pulled", "id": number, "tid": tid}
        begin, end = follow.leader_span.begin_ns, follow.span.begin_ns
        return [
            {**same, "ph": "s", "pid": self._pids[leader], "ts": self._us(begin)},
            {
                **same,
                "ph": "f",
                "bp": "e",
                "pid": self._pids[follow.node],
                "ts": self._us(end),
            },
        ]
