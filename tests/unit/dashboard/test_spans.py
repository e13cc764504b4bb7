"""Spans of several samples become the spans that the node had."""

from hypothesis import given
from hypothesis import strategies as st

from cosched.core.units import NS_PER_MS, NS_PER_S
from cosched.dashboard.spans import Spans

MS = NS_PER_MS


def unpacked(steps):
    at, moments = 0, []
    for step in steps:
        at += step
        moments.append(at)
    return list(zip(moments[::2], moments[1::2], strict=True))


def reported(spans_ms, since_ms, at_ms):
    """What a daemon reports at a time, as ``Account.scheduled_since`` cuts it."""
    return [
        [max(begin, since_ms) * MS, end * MS if end <= at_ms else None]
        for begin, end in spans_ms
        if begin <= at_ms and end > since_ms
    ]


@given(
    st.lists(st.integers(1, 400), min_size=2, max_size=20),
    st.lists(st.integers(1, 900), min_size=1, max_size=8),
)
def test_samples_at_any_times_give_each_span_once(lengths, waits):
    edges = [sum(lengths[: count + 1]) for count in range(len(lengths) // 2 * 2)]
    true = list(zip(edges[::2], edges[1::2], strict=True))
    spans, at_ms, since_ms = Spans(), 0, 0
    for version, wait in enumerate([*waits, edges[-1]], 1):
        since_ms, at_ms = max(0, at_ms - 50), at_ms + wait
        spans.take(version, "n", at_ms * MS, {"a": reported(true, since_ms, at_ms)})
    assert at_ms >= edges[-1]
    found = unpacked(spans.ended_since(0).get("n", {}).get("a", []))
    assert found == true
    assert spans.open() == {}


def test_span_that_lasts_is_open_and_ends_once():
    spans = Spans()
    spans.take(1, "n", 5 * MS, {"a": [[2 * MS, None]]})
    assert spans.open() == {"n": {"a": 2}}
    assert spans.ended_since(0) == {}
    spans.take(2, "n", 9 * MS, {"a": [[4 * MS, 7 * MS]], "b": [[7 * MS, None]]})
    assert spans.ended_since(1) == {"n": {"a": [2, 5]}}
    assert spans.ended_since(2) == {}
    assert spans.open() == {"n": {"b": 7}}


def test_spans_of_a_node_whose_daemon_is_down_end():
    spans = Spans()
    spans.take(1, "n", 5 * MS, {"a": [[2 * MS, None]]})
    spans.lose(2, ["m"])
    assert spans.ended_since(1) == {"n": {"a": [2, 3]}}
    assert spans.open() == {}


def test_old_spans_and_too_many_spans_are_dropped():
    few = Spans(most=2)
    for number in range(1, 6):
        at = number * 10 * MS
        few.take(number, "n", at + MS, {"a": [[at - 5 * MS, at]]})
    assert len(unpacked(few.ended_since(0)["n"]["a"])) == 2
    short = Spans(keep_ns=NS_PER_S)
    short.take(1, "n", 10 * MS, {"a": [[MS, 2 * MS]]})
    short.take(2, "n", 2 * NS_PER_S, {})
    assert short.ended_since(0) == {}
