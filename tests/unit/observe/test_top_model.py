"""Checks what cosched top computes from two samples."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.units import NS_PER_S
from cosched.observe.timeline.overlap import Shared, clipped, shared, time_by_depth
from cosched.observe.top.job_columns import COLUMNS, header, rate, sort_jobs, sparkline
from cosched.observe.top.model import view
from cosched.observe.top.recent import Recent, Trends
from cosched.observe.top.text import page, summary
from tests.unit.observe.top_samples import filling, job, sample, status, task

S = NS_PER_S


def two_nodes():
    """Returns samples of two seconds; job a has both nodes for 1 s, half a second apart."""
    before = sample(
        10.0,
        status(
            "n2", [job("a", [task(3, 1)], scheduled_s=4.0), job("b", [task(4)])], cpu_s=1.0
        ),
        status("n1", [job("a", [task(1)], scheduled_s=5.0), job("b", [task(2)])]),
    )
    a2 = task(3, 1, waited_ns=S, paused_ns=S // 2, sent=100)
    now = sample(
        12.0,
        status(
            "n2",
            [job("a", [a2], scheduled_s=5.0, switches=3), job("b", [task(4)])],
            scheduled={"7.a": [[10 * S, 11 * S]], "7.b": [[11 * S, None]]},
            counters={"csw_switched": 4, "sch_refused_gmet": 6, "reg_new_job": 9},
            cpu_s=1.1,
        ),
        status(
            "n1",
            [job("a", [task(1, sent=20)], scheduled_s=6.0), job("b", [task(2)])],
            scheduled={"7.a": [[S * 21 // 2, S * 23 // 2]], "7.b": [[S * 23 // 2, None]]},
        ),
    )
    return before, now


def test_job_on_two_nodes_is_one_row():
    seen = view(*two_nodes())
    assert [j.name for j in seen.jobs] == ["a", "b"]
    a = seen.jobs[0]
    assert a.nodes == ("n1", "n2")
    assert a.tasks == 2
    assert a.scheduled == pytest.approx(0.5)
    assert a.entitled == pytest.approx(0.5)
    # One of two tasks waits for half a second of the two seconds.
    assert a.waiting == pytest.approx(0.125)
    assert a.useful == pytest.approx(0.375)
    assert a.agreement == pytest.approx(0.5 / 1.5)
    assert a.switches_rate == pytest.approx(1.5)
    assert a.messages_rate == pytest.approx(60)
    assert seen.agreement == pytest.approx((0.5 + 0.5) / (1.5 + 1.0))


def test_row_has_how_waits_were_filled_between_the_samples():
    def node(name, waits_s, filled_s, began_after_s):
        figures = filling(waits_s, [("7.b", filled_s)] if filled_s else [])
        a = job("a", [task(1)], filling=figures, began_after_s=began_after_s)
        return status(name, [a, job("b", [task(2)])])

    before = sample(1.0, node("n1", 1.0, 1.0, 0.5), node("n2", 0.0, 0.0, 0.25))
    now = sample(2.0, node("n1", 2.0, 1.5, 0.5), node("n2", 1.0, 0.0, 0.25))
    a, b = view(before, now).jobs
    assert (a.filled, a.began_after_s) == (0.25, 0.25)
    assert (b.filled, b.began_after_s) == (None, None)


def test_daemon_of_an_earlier_version_has_no_filled_waits():
    old = job("a", [task(1)])
    del old["filling"], old["began_after_s"]
    now = status("n1", [old])
    (row,) = view(sample(1.0, now), sample(2.0, now)).jobs
    assert (row.filled, row.began_after_s) == (None, None)


def test_node_row_has_rates():
    n1, n2 = view(*two_nodes()).nodes
    assert (n1.name, n2.name) == ("n1", "n2")
    assert n2.switches_rate == pytest.approx(2)
    assert n2.refused_rate == pytest.approx(3)
    assert n2.daemon_cpu == pytest.approx(0.05)
    assert n2.running == ("a", "b")


def test_new_or_restarted_job_has_no_rates():
    old = status("n", [job("a", [task(1, sent=9)], scheduled_s=9.0)], cpu_s=9.0)
    again = status("n", [job("a", [task(1)], scheduled_s=1.0)], pid=200, cpu_s=0.1)
    seen = view(sample(1.0, old), sample(2.0, again))
    assert seen.nodes[0].daemon_cpu == 0
    assert seen.jobs[0].scheduled == seen.jobs[0].messages_rate == 0
    namesake = status("n", [job("a", [task(2, sent=5)], scheduled_s=1.0)])
    seen = view(sample(1.0, old), sample(2.0, namesake))
    assert seen.jobs[0].scheduled == seen.jobs[0].messages_rate == 0


def test_entitlement_counts_jobs_on_same_cpus():
    jobs = [
        job("a", [task(1)], cpus=(0,)),
        job("b", [task(2)], cpus=(0, 1)),
        job("c", [task(3)], cpus=(1,)),
        job("d", [task(4)], cpus=(2,)),
    ]
    now = status("n", jobs)
    rows = view(sample(1.0, now), sample(2.0, now)).jobs
    assert [row.entitled for row in rows] == pytest.approx([1 / 2, 1 / 3, 1 / 2, 1])


def test_view_of_unordered_samples_raises():
    now = status("n", [])
    with pytest.raises(ValueError, match="not later"):
        view(sample(1.0, now), sample(1.0, now))


NUMBERS = st.integers(0, 10**10)
JOBS = st.lists(
    st.builds(
        lambda name, uid, on, ran, waited, paused: job(
            name,
            [task(1, waited_ns=waited, paused_ns=paused)],
            uid=uid,
            scheduled=on,
            scheduled_s=ran,
        ),
        st.sampled_from(["a", "b"]),
        st.integers(0, 1),
        st.booleans(),
        st.floats(0, 100),
        NUMBERS,
        NUMBERS,
    ),
    unique_by=lambda j: j["key"],
)


@given(JOBS, JOBS, st.floats(0.001, 100))
def test_any_samples_give_fractions_and_lines_that_fit(before, now, later_s):
    seen = view(sample(1.0, status("n", before)), sample(1.0 + later_s, status("n", now)))
    trends = Trends()
    trends.add(seen)
    for row in seen.jobs:
        for fraction in (row.scheduled, row.entitled, row.useful, row.waiting):
            assert 0 <= fraction <= 1
        assert row.useful + row.waiting <= row.scheduled + 1e-9
        assert min(row.switches_rate, row.refused_rate, row.messages_rate) >= 0
    assert max(len(line) for line in page(seen, trends).splitlines()) <= 80


def test_figures_cover_window_and_trends_intervals():
    recent = Recent(window_s=4)
    seen = []
    for second in range(9):  # scheduled in every other second
        a = job("a", [task(1)], scheduled_s=(second + 1) // 2)
        seen.append(recent.add(sample(float(second), status("n", [a]))))
    assert seen[0] is None
    assert [view.elapsed_s for view in seen[1:]] == [1, 2, 3, 4, 4, 4, 4, 4]
    assert [view.jobs[0].scheduled for view in seen[4:]] == [0.5] * 5
    assert recent.trends.of("7.a") == (1, 0) * 4
    recent.forget()
    assert recent.add(sample(20.0, status("n", []))) is None


def test_unfinished_wait_does_not_decrease_waiting():
    """One task waits for 1 s of its own 2 s, and for all of the other job's 2 s."""
    recent = Recent(window_s=8)
    for second in range(17):
        round_, phase = divmod(second, 4)
        own, others = min(phase, 2), max(0, phase - 2)
        # Scheduled for 2 s; the second one is a wait that ends with the next turn.
        waited = S * (3 * round_)
        paused = S * (2 * round_ + others)
        a = job(
            "a", [task(1, waited_ns=waited, paused_ns=paused)], scheduled_s=2 * round_ + own
        )
        seen = recent.add(sample(float(second), status("n", [a])))
    assert seen.jobs[0].scheduled == pytest.approx(0.5)
    assert seen.jobs[0].waiting == pytest.approx(0.25)
    assert seen.jobs[0].useful == pytest.approx(0.25)


# -- intervals ---------------------------------------------------------------------------

SETS = st.lists(
    st.lists(st.integers(0, 40), max_size=8, unique=True).map(sorted),
    min_size=1,
    max_size=4,
).map(lambda sets: [list(zip(s[::2], s[1::2], strict=False)) for s in sets])


@given(SETS)
def test_time_by_depth_counts_each_instant_once(sets):
    held = [sum(any(a <= t < b for a, b in s) for s in sets) for t in range(40)]
    expected = {depth: held.count(depth) for depth in set(held) if depth}
    assert time_by_depth(sets) == expected
    whole = sum(expected.values())
    assert shared(sets) == Shared(expected.get(len(sets), 0), whole)


def test_clipped_cuts_intervals_to_bounds():
    assert clipped([[1, 4], [6, None], [0, 2]], 2, 9) == [(2, 4), (6, 9)]


# -- text --------------------------------------------------------------------------------


def test_trends_keep_last_shares_and_drop_ended_jobs():
    trends = Trends(length=3)
    for _ in range(5):
        before, now = two_nodes()
        trends.add(view(before, now))
    assert trends.of("7.a") == pytest.approx((0.5, 0.5, 0.5))
    trends.add(view(sample(1.0, status("n", [])), sample(2.0, status("n", []))))
    assert trends.of("7.a") == ()


def test_sparkline_ends_with_newest_share():
    assert sparkline([0, 0.5, 1], 5) == "  ▁▅█"
    assert sparkline([0, 0, 1, 1], 2) == "██"


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0.0"), (12.34, "12.3"), (99.6, "100"), (123456, "123k")]
)
def test_rate_has_at_most_four_characters(number, text):
    assert rate(number) == text


def test_sort_jobs_puts_largest_first_then_name():
    rows = view(*two_nodes()).jobs
    assert [r.name for r in sort_jobs(rows, 0, backwards=True)] == ["b", "a"]
    at = {column.title: number for number, column in enumerate(COLUMNS)}
    rows = [replace(rows[0], agreement=None), replace(rows[1], agreement=0.4)]
    for title, names in (("sw/s", "ab"), ("agree", "ba")):
        found = sort_jobs(reversed(rows), at[title], backwards=False)
        assert "".join(row.name for row in found) == names


def test_summary_counts_waiting_job_once():
    now = [status(node, [], waiting=[{"name": "big"}]) for node in ("n1", "n2")]
    seen = view(sample(1.0, *now), sample(2.0, *now))
    assert summary(seen) == "2 nodes, 0 jobs, 1 waiting for memory"


def test_page_lists_nodes_and_jobs():
    before, now = two_nodes()
    seen = view(before, now)
    trends = Trends()
    trends.add(seen)
    lines = page(seen, trends).splitlines()
    assert lines[0] == "2 nodes, 2 jobs, nodes agree 40%"
    assert lines[4].split() == [*header().split()[:-1], "trend"]
    assert lines[5].split()[:8] == ["a", "2", "2/2", "6.0s/?", "50%", "50%", "38%", "12%"]
