"""Checks the timelines of traces, and the agreement of nodes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.node.messages import Cause, Mode, ModeChosen, Refusal, ShutdownRequested
from cosched.observe.timeline.agreement import agreements, follows, length_ns
from cosched.observe.timeline.timeline import timelines
from cosched.observe.timeline.trace import read_trace
from tests.places import GOLDEN
from tests.unit.observe.timeline_samples import MS, WALL_NS, TracedNode, line, two_nodes

TRACES = sorted(GOLDEN.glob("*.jsonl"))


def ms(at_ns):
    return (at_ns - WALL_NS) / MS


def spans(node):
    return [(s.job, ms(s.begin_ns), ms(s.end_ns), s.cause) for s in node.spans]


def test_timelines_have_spans_of_two_nodes(tmp_path):
    one, two = timelines(node.trace(tmp_path) for node in two_nodes())
    assert (one.node, two.node) == ("n1", "n2")
    assert spans(one) == [
        ("0.a", 0, 100, Cause.FIRST),
        ("0.b", 100, 180, Cause.SLICE),
        ("0.a", 180, 200, Cause.FREED),
    ]
    assert spans(two) == [
        ("0.a", 0, 130, Cause.FIRST),
        ("0.b", 130, 180, Cause.PULLED),
        ("0.a", 180, 200, Cause.FREED),
    ]
    assert [(job, ms(b), ms(e)) for job, b, e in one.present] == [
        ("0.a", 0, 200),
        ("0.b", 5, 180),
    ]
    (refused,) = two.refused
    assert (refused.job, refused.reason, ms(refused.at_ns)) == (
        "0.a",
        Refusal.SCHEDULED,
        105,
    )


def test_jobs_side_by_side_get_lanes(tmp_path):
    node = TracedNode("n1")
    node.register(0, "0.a", 1, 0)
    node.register(10, "0.b", 2, 1)
    node.exit(20, "0.a", 1)
    node.register(30, "0.c", 3, 0)
    node.exit(40, "0.b", 2)
    (line_,) = timelines([node.trace(tmp_path)])
    assert [(s.job, s.lane) for s in line_.spans] == [("0.a", 0), ("0.b", 1), ("0.c", 0)]


def test_each_half_of_a_node_has_a_lane(tmp_path):
    node = TracedNode("n1")
    node.register(0, "0.whole", 1, 0, 1)
    node.exit(5, "0.whole", 1)
    node.register(10, "0.b", 2, 1)
    node.register(20, "0.a", 3, 0)
    node.exit(30, "0.b", 2)
    node.register(40, "0.d", 4, 1)
    node.exit(50, "0.a", 3)
    (line_,) = timelines([node.trace(tmp_path)])
    assert line_.parts == [frozenset({0}), frozenset({1})]
    lanes = {span.job: span.lane for span in line_.spans}
    assert lanes == {"0.whole": 0, "0.a": 0, "0.b": 1, "0.d": 1}
    shared = TracedNode("n2")
    shared.register(0, "0.a", 1, 0, 1)
    shared.register(1, "0.b", 2, 1, 2)
    assert timelines([shared.trace(tmp_path)])[0].parts == []


def test_span_continues_over_file_rotation(tmp_path):
    node = TracedNode("n1")
    node.register(0, "0.a", 1)
    node.begin(50)
    node.exit(90, "0.a", 1)
    (line_,) = timelines([node.trace(tmp_path)])
    assert spans(line_) == [("0.a", 0, 90, Cause.FIRST)]


def test_files_of_one_node_make_one_timeline(tmp_path):
    node = TracedNode("n1")
    node.register(0, "0.a", 1)
    first = node.write(tmp_path).rename(tmp_path / "first.jsonl")
    node.lines.clear()
    node.begin(50)
    node.exit(90, "0.a", 1)
    second = node.write(tmp_path)
    (line_,) = timelines(read_trace([path]) for path in (second, first))
    assert spans(line_) == [("0.a", 0, 90, Cause.FIRST)]


def test_killed_daemon_ends_spans_at_last_event(tmp_path):
    node = TracedNode("n1")
    node.register(0, "0.a", 1)
    node.register(40, "0.b", 2)
    heir = TracedNode("n1")
    heir.lines.clear()
    heir.begin(70)
    heir.register(80, "0.b", 2)
    node.lines += heir.lines
    (line_,) = timelines([node.trace(tmp_path)])
    assert spans(line_) == [("0.a", 0, 40, Cause.FIRST)]
    assert [(job, ms(b), ms(e)) for job, b, e in line_.present] == [
        ("0.a", 0, 40),
        ("0.b", 40, 40),
        ("0.b", 80, 80),
    ]


def test_free_job_has_no_span(tmp_path):
    node = TracedNode("n1")
    node.register(0, "0.a", 1)
    node.register(0, "0.b", 2)
    node.tell(ShutdownRequested, 30)
    (line_,) = timelines([node.trace(tmp_path)])
    assert spans(line_) == [("0.a", 0, 30, Cause.FIRST)]


@pytest.mark.parametrize("rotated", [False, True])
def test_detached_job_stays_until_last_task_leaves(tmp_path, rotated):
    node = TracedNode("n1")
    node.register(0, "0.a", 1)
    node.register(0, "0.a", 2)
    node.register(10, "0.b", 3)
    node.tell(ModeChosen, 20, job="0.a", mode=Mode.RELEASED)
    if rotated:
        node.begin(30)
    node.exit(40, "0.a", 1)
    node.exit(50, "0.a", 2)
    node.exit(90, "0.b", 3)
    (line_,) = timelines([node.trace(tmp_path)])
    assert spans(line_) == [("0.a", 0, 20, Cause.FIRST), ("0.b", 20, 90, Cause.FREED)]
    stays = [(job, ms(b), ms(e)) for job, b, e in line_.present]
    assert stays == [("0.a", 0, 50), ("0.b", 10, 90)]


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_real_trace_makes_valid_timeline(path):
    (node,) = timelines([read_trace([path])])
    assert node.spans
    by_lane = {}
    for span in node.spans:
        assert node.begin_ns <= span.begin_ns < span.end_ns <= node.end_ns
        assert by_lane.get(span.lane, 0) <= span.begin_ns
        by_lane[span.lane] = span.end_ns
        assert any(
            job == span.job and begin <= span.begin_ns and span.end_ns <= end
            for job, begin, end in node.present
        )


def test_agreement_of_two_nodes_is_measured(tmp_path):
    a, b = agreements(timelines(node.trace(tmp_path) for node in two_nodes()))
    assert (a.job, a.nodes, b.job) == ("0.a", ("n1", "n2"), "0.b")
    assert [(ms(x), ms(y)) for x, y in a.together] == [(0, 100), (180, 200)]
    assert [(ms(x), ms(y)) for x, y in a.apart] == [(100, 130)]
    assert a.fraction == pytest.approx(120 / 150)
    assert b.fraction == pytest.approx(50 / 80)


def test_job_on_one_node_has_no_agreement(tmp_path):
    node = TracedNode("n1")
    node.register(0, "0.a", 1)
    assert agreements(timelines([node.trace(tmp_path)])) == []


def test_follows_finds_leader_and_delay(tmp_path):
    (follow,) = follows(timelines(node.trace(tmp_path) for node in two_nodes()))
    assert (follow.node, follow.leader, follow.span.job) == ("n2", "n1", "0.b")
    assert follow.after_ns == 30 * MS
    assert follow.pulled


def test_follows_names_no_leader_of_two():
    stay = [("0.a", 0, 100)]
    nodes = [
        line("n1", [("0.a", 0, 90)], stay),
        line("n2", [("0.a", 10, 90)], stay),
        line("n3", [("0.a", 30, 90, Cause.PULLED)], stay),
    ]
    second, third = follows(nodes)
    assert (second.leader, second.after_ns) == ("n1", 10)
    assert (third.leader, third.after_ns, third.pulled) == (None, 30, True)


@st.composite
def nodes_of_a_job(draw):
    """Generates a job that arrives, leaves, runs and stops on some nodes, time 0 to 20."""
    found = []
    for number in range(draw(st.integers(2, 4))):
        times = sorted(draw(st.sets(st.integers(0, 20), min_size=2, max_size=10)))
        stays = [("0.a", times[0], times[-1])]
        runs = [
            ("0.a", begin, end)
            for begin, end in itertools.pairwise(times)
            if draw(st.booleans())
        ]
        found.append(line(f"n{number}", runs, stays))
    return found


@given(nodes_of_a_job())
def test_agreement_equals_sum_over_moments(nodes):
    (agreement,) = agreements(nodes)
    together = apart = 0
    for moment in range(20):
        here = [
            any(begin <= moment < end for _, begin, end in node.present) for node in nodes
        ]
        runs = [any(s.begin_ns <= moment < s.end_ns for s in node.spans) for node in nodes]
        if sum(here) > 1 and any(runs):
            if sum(runs) == sum(here):
                together += 1
            else:
                apart += 1
    assert length_ns(agreement.together) == together
    assert length_ns(agreement.apart) == apart
    for intervals in (agreement.together, agreement.apart):
        for (_, end), (begin, _) in itertools.pairwise(intervals):
            assert end < begin
