"""Admission by memory: which jobs wait before they begin, and for how long at most."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.errors import CoschedError
from cosched.core.node.admission import (
    WAIT_PRESSURE_PERCENT,
    Candidate,
    Decision,
    MemoryNeed,
    Node,
    Verdict,
    free_bytes,
    judge,
)
from cosched.core.units import NS_PER_S, format_bytes, parse_bytes

GIB = 1024**3
PATIENCE_NS = 600 * NS_PER_S


def node(gib=8.0, pressure=0.0, usable=None):
    total = int(gib * GIB)
    usable = total if usable is None else int(usable * GIB)
    return Node(total, usable, pressure, PATIENCE_NS)


def need(gib, measured=0.0):
    return MemoryNeed(int(gib * GIB), int(measured * GIB))


def candidate(job, gib, since_ns=0, measured=0.0):
    return Candidate(job, need(gib, measured), since_ns)


def verdicts(decisions):
    return {decision.job: decision.verdict for decision in decisions}


def test_job_that_fits_begins_and_the_next_waits():
    assert judge(node(), [need(4)], [candidate("a", 4)], 0) == (
        Decision("a", Verdict.ADMITTED, ""),
    )
    assert judge(node(), [need(4.9)], [candidate("a", 8)], 0) == (
        Decision("a", Verdict.WAITS, "memory: needs 8.0 GiB, 3.1 GiB free"),
    )


def test_measured_memory_counts_if_more_was_measured():
    assert free_bytes(node(), [need(1, measured=6)]) == 2 * GIB
    assert judge(node(), [need(1, measured=6)], [candidate("a", 3)], 0)[0].verdict is (
        Verdict.WAITS
    )


def test_no_job_overtakes_a_waiting_one():
    queue = [candidate("large", 6), candidate("small", 1)]
    large, small = judge(node(), [need(4)], queue, 0)
    assert large.verdict is small.verdict is Verdict.WAITS
    assert small.reason == "memory: large came first and waits"


def test_memory_of_waiting_jobs_is_not_free():
    queue = [candidate("a", 4), candidate("b", 1, measured=1)]
    assert verdicts(judge(node(), [need(4)], queue, 0))["a"] is Verdict.WAITS


def test_any_job_begins_on_an_empty_node():
    busy = node(usable=0.5, pressure=90)
    queue = [candidate("a", 8), candidate("b", 1)]
    assert verdicts(judge(busy, [], queue, 0)) == {
        "a": Verdict.ADMITTED,
        "b": Verdict.WAITS,
    }


def test_too_large_job_is_refused_and_delays_no_other():
    queue = [candidate("huge", 9), candidate("a", 1)]
    huge, a = judge(node(), [need(4)], queue, 0)
    assert huge == Decision(
        "huge", Verdict.REFUSED, "memory: needs 9.0 GiB, this node has 8.0 GiB"
    )
    assert a.verdict is Verdict.ADMITTED


def test_newcomers_wait_under_memory_pressure():
    pressed = node(pressure=WAIT_PRESSURE_PERCENT)
    (decision,) = judge(pressed, [need(1)], [candidate("a", 1)], 0)
    assert decision == Decision("a", Verdict.WAITS, "memory: pressure 20%")


def test_job_begins_after_the_longest_wait():
    queue = [candidate("a", 6, since_ns=5), candidate("b", 1, since_ns=10)]
    a, b = judge(node(), [need(4)], queue, 5 + PATIENCE_NS)
    assert a.verdict is Verdict.OVERDUE
    assert b.verdict is Verdict.WAITS


NEEDS = st.builds(MemoryNeed, st.integers(0, 12), st.integers(0, 6))


@given(
    total=st.integers(1, 10),
    taken=st.integers(0, 10),
    pressure=st.sampled_from([0.0, 50.0]),
    admitted=st.lists(NEEDS, max_size=4),
    waiting=st.lists(NEEDS, max_size=6),
    ages=st.lists(st.integers(0, 12), min_size=6, max_size=6),
)
def test_random_judgements_are_consistent(total, taken, pressure, admitted, waiting, ages):
    here = Node(total, max(0, total - taken), pressure, 10)
    queue = [
        Candidate(str(number), one, 100 - ages[number])
        for number, one in enumerate(waiting)
    ]
    decisions = judge(here, admitted, queue, 100)
    assert [d.job for d in decisions] == [c.job for c in queue]
    inside, somebody_waits = list(admitted), False
    for one, decision in zip(queue, decisions, strict=True):
        assert (decision.verdict is Verdict.REFUSED) == (one.need.bytes > total)
        if decision.verdict is Verdict.ADMITTED:
            assert not somebody_waits  # first come, first served
            if inside:
                assert pressure == 0
                assert one.need.bytes <= free_bytes(here, inside)
        if decision.verdict is Verdict.OVERDUE:
            assert 100 - one.since_ns >= here.patience_ns
        if decision.verdict is Verdict.WAITS:
            assert inside  # or it would have begun
            assert decision.reason
            somebody_waits = True
        elif decision.verdict is not Verdict.REFUSED:
            inside.append(one.need)


@given(needs=st.lists(st.integers(1, 8), min_size=1, max_size=20), data=st.data())
def test_all_jobs_begin_in_order_if_jobs_end(needs, data):
    here = Node(8, 8, 0.0, 10**9)
    queue = [Candidate(str(i), MemoryNeed(n, 0), 0) for i, n in enumerate(needs)]
    running, begun = [], []
    while queue:
        waits = []
        decisions = judge(here, [one.need for one in running], queue, 0)
        for one, decision in zip(queue, decisions, strict=True):
            if decision.verdict is Verdict.ADMITTED:
                running.append(one)
                begun.append(int(one.job))
            else:
                waits.append(one)
        assert sum(one.need.bytes for one in running) <= 8
        queue = waits
        if queue:
            running.pop(data.draw(st.integers(0, len(running) - 1)))
    assert begun == sorted(begun)


@pytest.mark.parametrize(
    ("text", "count"),
    [("8G", 8 * GIB), ("512 MiB", 512 << 20), ("1.5k", 1536), ("17", 17), ("2tb", 2 << 40)],
)
def test_parse_bytes_reads_usual_sizes(text, count):
    assert parse_bytes(text, "memory") == count


@pytest.mark.parametrize("text", ["", "G", "8X", "-1", "1e9", "8 G 1"])
def test_parse_bytes_rejects_other_texts_in_a_line(text):
    with pytest.raises(CoschedError, match=r"memory: .* is not a size"):
        parse_bytes(text, "memory")


@pytest.mark.parametrize("text", ["9" * 400, "9000000P", "20000000T"])
def test_parse_bytes_rejects_too_large_sizes(text):
    with pytest.raises(CoschedError, match=r"memory: '.{1,40}' is too large; write less"):
        parse_bytes(text, "memory")


def test_format_bytes_rounds_sizes():
    assert [format_bytes(n) for n in (0, 1024, 3 * GIB // 2)] == [
        "0 B",
        "1.0 KiB",
        "1.5 GiB",
    ]
