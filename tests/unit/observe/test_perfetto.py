"""Checks the trace event format by the rules of its viewers."""

from __future__ import annotations

import itertools
import json

import pytest

from cosched.observe.timeline.perfetto import perfetto
from cosched.observe.timeline.timeline import timelines
from cosched.observe.timeline.trace import read_trace
from tests.places import GOLDEN
from tests.unit.observe.timeline_samples import TracedNode, two_nodes

TRACES = sorted(GOLDEN.glob("*.jsonl"))
NEEDED = {
    "M": {"name", "ph", "pid", "args"},
    "X": {"name", "cat", "ph", "ts", "dur", "pid", "tid"},
    "i": {"name", "cat", "ph", "ts", "pid", "tid", "s"},
    "s": {"name", "cat", "ph", "ts", "pid", "tid", "id"},
    "f": {"name", "cat", "ph", "ts", "pid", "tid", "id", "bp"},
}


def events_of(nodes):
    document = json.loads(json.dumps(perfetto(nodes), allow_nan=False))
    assert document["displayTimeUnit"] in ("ms", "ns")
    return document["traceEvents"]


def check(events):
    """Checks the rules for every event, and for events together."""
    threads = {}
    for event in events:
        assert NEEDED[event["ph"]] <= set(event), event
        assert isinstance(event["pid"], int)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name")
            assert isinstance(event["args"]["name"], str)
            continue
        assert event["ts"] >= 0
        assert isinstance(event["tid"], int)
        if event["ph"] == "X":
            assert event["dur"] > 0
            threads.setdefault((event["pid"], event["tid"]), []).append(event)
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert set(threads) <= named
    for slices in threads.values():
        for one, other in itertools.pairwise(slices):
            assert one["ts"] + one["dur"] <= other["ts"] + 1e-3  # complete events must nest
    for end in (event for event in events if event["ph"] == "f"):
        (start,) = [e for e in events if e["ph"] == "s" and e["id"] == end["id"]]
        assert start["ts"] <= end["ts"]
        for flow in (start, end):  # a flow binds to the slice that encloses it
            assert any(
                one["ts"] <= flow["ts"] <= one["ts"] + one["dur"]
                for one in threads[flow["pid"], flow["tid"]]
            )


def test_perfetto_of_two_nodes_has_flow(tmp_path):
    events = events_of(timelines(node.trace(tmp_path) for node in two_nodes()))
    check(events)
    names = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert names == ["node n1", "node n2"]
    slices = [e for e in events if e["ph"] == "X"]
    assert len(slices) == 6
    first = slices[0]
    assert (first["name"], first["ts"], first["dur"]) == ("0.a", 0.0, 100_000.0)
    pulled, refused = (
        [e for e in events if e["ph"] == "i" and e["cat"] == cat]
        for cat in ("pulled", "refused")
    )
    assert [e["ts"] for e in pulled] == [130_000.0]
    assert [e["name"] for e in refused] == ["refused: scheduled"]
    start, end = (next(e for e in events if e["ph"] == ph) for ph in "sf")
    assert (start["pid"], start["ts"]) == (1, 100_000.0)
    assert (end["pid"], end["ts"], end["bp"]) == (2, 130_000.0, "e")


def test_message_of_unknown_sender_has_no_flow(tmp_path):
    _, second = two_nodes()
    events = events_of(timelines([second.trace(tmp_path)]))
    check(events)
    assert [e["cat"] for e in events if e["ph"] == "i"].count("pulled") == 1
    assert not [e for e in events if e["ph"] in "sf"]


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_real_trace_makes_valid_document(path):
    check(events_of(timelines([read_trace([path])])))


def test_node_without_events_makes_valid_document(tmp_path):
    events = events_of(timelines([TracedNode("n1").trace(tmp_path)]))
    assert [event["name"] for event in events] == ["process_name"]
