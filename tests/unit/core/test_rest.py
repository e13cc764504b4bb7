"""``order=rest``: the job that probably ends soonest has the CPUs."""

from __future__ import annotations

from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st
from msgspec.structs import replace

from benchmarks.sim.one_node import OneNode, StreamJob
from cosched.core.node.knowledge import UNKNOWN, Expectation
from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import AlarmRang, SliceEnded, TaskExited
from cosched.core.node.prospect import Reason
from cosched.core.node.settings import USUAL, gmet_of_turn_ns
from cosched.core.node.slices.rest import (
    ENDING_PART,
    HOLD_PERCENT,
    PATIENCE,
    PATIENCE_FIRST,
)
from cosched.core.units import NS_PER_MS, NS_PER_S
from cosched.sim.nodes.model import Cluster, Pattern, Program
from cosched.sim.nodes.node_runs import NodesRun, carry_out
from tests.unit.core.machine_node import Node

S = NS_PER_S
GMET_NS = gmet_of_turn_ns(USUAL.slice_ns)


def expected(*lengths_s, kind=0):
    return Expectation(kind, tuple(round(length_s * S) for length_s in lengths_s))


def node_of(**jobs):
    """Registers jobs, each with its expectation, in this order at one moment."""
    node = Node(USUAL, now_ns=20 * S)
    for number, (job, expectation) in enumerate(jobs.items()):
        submitted_ns = node.now_ns + number
        node.register(job, expectation=expectation, submitted_ns=submitted_ns)
    return node


def tick(node, after_ns=0):
    """Ends the slice when the machine ordered it, or after a time."""
    if not after_ns:
        after_ns = node.orders.next_tick_ns(node.now_ns, node.now_ns, 0) - node.now_ns
    node.send(SliceEnded, after_ns=after_ns)


def ends(lengths_s, submits_s=None, *, seen=True, kinds=True):
    """Returns the ends in seconds of jobs that compute, on one node."""
    jobs = [
        StreamJob(
            round(submit_s * S),
            round(length_s * S),
            0,
            Expectation(number + 1 if kinds else 1, (round(length_s * S),) if seen else ()),
        )
        for number, (length_s, submit_s) in enumerate(
            zip(lengths_s, submits_s or [0] * len(lengths_s), strict=True)
        )
    ]
    run = OneNode(jobs, USUAL)
    return run, [run.ends_ns[n] / S - 1 for n in range(len(jobs))]


def test_newcomer_with_less_left_takes_the_cpus_after_gmet():
    node = node_of(long=expected(60))
    node.register("short", expectation=expected(1), after_ns=GMET_NS // 2)
    assert node.running == {"long"}, "it keeps its guaranteed time"
    tick(node)
    assert node.now_ns == 20 * S + GMET_NS
    assert node.running == {"short"}


YEAR_NS = 365 * 86400 * S
NOW_NS = 50 * YEAR_NS  # the wall clock of nodes whose clock is right


@pytest.mark.parametrize(
    "submitted_ns",
    [0, 1, NOW_NS - YEAR_NS, NOW_NS + 60 * S, NOW_NS + YEAR_NS, 1 << 63, (1 << 64) - 1],
)
@pytest.mark.parametrize("ahead_ns", [-NOW_NS, -YEAR_NS, -S, 0, S, YEAR_NS])
def test_clock_that_jumps_does_not_break_the_order(submitted_ns, ahead_ns):
    """The launcher's clock was wrong, and the node's clock jumps after the registration."""
    for known in (True, False):
        for jobs in (("odd", "usual"), ("usual", "odd")):
            node = Node(USUAL, now_ns=20 * S, wall_ahead_ns=NOW_NS)
            for job in jobs:
                date_ns = submitted_ns if job == "odd" else NOW_NS + node.now_ns
                length = {"odd": expected(1), "usual": expected(60)}[job]
                what = length if known else UNKNOWN
                node.register(job, expectation=what, submitted_ns=date_ns)
            node.wall_ahead_ns += ahead_ns
            for number in range(90):
                tick(node, after_ns=S)
                assert number or not known or node.running == {"odd"}, "less is left of it"
            ages_s = {
                key: job.age_ns(node.now_ns) / S for key, job in node.machine.jobs.items()
            }
            assert min(ages_s.values()) >= 90 * 0.25 / 2 / 2, "both get their least share"
            assert sum(ages_s.values()) == pytest.approx(90)


@pytest.mark.parametrize("submitted_ns", [0, 1, NOW_NS + YEAR_NS, (1 << 64) - 1])
def test_nodes_agree_on_a_job_whose_date_cannot_be_true(submitted_ns):
    orders = []
    for jobs in (("odd", "usual"), ("usual", "odd")):
        node = Node(USUAL, now_ns=25 * S, wall_ahead_ns=NOW_NS)
        for job in jobs:
            date_ns = submitted_ns if job == "odd" else NOW_NS + node.now_ns
            node.register(job, submitted_ns=date_ns, after_ns=S // 100)
        by_date = sorted(node.machine.jobs.values(), key=lambda job: job.precedence)
        orders.append([job.key for job in by_date])
    assert orders[0] == orders[1]


def test_newcomer_takes_the_cpus_at_once_from_a_job_that_has_had_gmet():
    node = node_of(long=expected(60))
    node.register("short", expectation=expected(1), after_ns=5 * S)
    assert node.running == {"short"}


def test_newcomer_with_a_little_less_left_waits():
    node = node_of(a=expected(10))
    node.register("b", expectation=expected(8), after_ns=S)
    assert node.running == {"a"}, "9 s are left of it: each switch has a cost"


def test_job_near_its_end_is_not_cut():
    node = node_of(a=expected(10))
    node.register("b", expectation=expected(0.1), after_ns=9700 * NS_PER_MS)
    assert node.running == {"a"}


def test_equal_jobs_run_one_after_the_other():
    for how in ({"seen": True}, {"seen": False, "kinds": False}):
        run, ends_s = ends([8] * 4, **how)
        assert ends_s == [8, 16, 24, 32]
        assert len(run.turns) == 4, "no switch"


def test_known_jobs_run_shortest_first():
    _, ends_s = ends([16, 4, 2, 8], [0, 1, 1, 1])
    assert ends_s == pytest.approx([30, 7, 3, 15], abs=0.1), "but for a GMET"


def test_unknown_newcomer_comes_before_an_old_unknown_job():
    run, ends_s = ends([60, 1], [0, 20], seen=False)
    assert ends_s == [61, 21]
    assert len(run.turns) == 3


def test_node_learns_from_jobs_that_ended():
    node = Node(USUAL, now_ns=20 * S)
    for job, length_s in (("long", 8), ("short", 1)):
        node.register(job, expectation=expected(kind=length_s))
        node.send(TaskExited, job=job, task=ord(job[0]), after_ns=length_s * S)
    node.register("Long", expectation=expected(kind=8))
    node.register("Short", expectation=expected(kind=1), after_ns=S)
    assert node.running == {"Short"}
    assert NodeScheduler.restored(node.machine.snapshot()).snapshot() == (
        node.machine.snapshot()
    )


def refused_for_ns(asking, running):
    """Returns how long a message for ``asking`` is refused while ``running`` runs."""
    node = node_of(**{job: expected(5) for job in sorted((asking, running))})
    if running not in node.running:
        node.machine = swapped(node)
    since_ns = node.now_ns
    while asking not in node.running:
        node.trap(asking)
        if asking in node.running:
            break
        assert node.alarm_ns is not None
        node.now_ns = node.alarm_ns
        node.send(AlarmRang)
    return node.now_ns - since_ns


def swapped(node):
    """Returns the machine in the state in which the other job runs."""
    snapshot = node.machine.snapshot()
    jobs = []
    for job in snapshot.jobs:
        other = job.copy()
        other.scheduled = not job.scheduled
        other.since_ns = node.now_ns
        jobs.append(other)
    return NodeScheduler.restored(replace(snapshot, jobs=tuple(jobs)))


def test_message_of_a_job_that_comes_first_pulls_after_gmet():
    node = node_of(a=expected(60))
    node.register("b", expectation=expected(1))
    assert node.running == {"a"}
    node.now_ns += GMET_NS
    node.trap("b")
    assert node.running == {"b"}


@pytest.mark.parametrize(
    ("asking", "running", "patience"), [("b", "a", PATIENCE), ("a", "b", PATIENCE_FIRST)]
)
def test_message_of_a_later_job_pulls_too_but_later(asking, running, patience):
    waited_ns = refused_for_ns(asking, running)
    assert waited_ns <= patience * GMET_NS
    if asking == "b":
        assert waited_ns > PATIENCE_FIRST * GMET_NS


def test_prospects_give_the_order_and_its_reasons():
    node = node_of(a=expected(10, 12), b=UNKNOWN)
    for _ in range(3):
        tick(node, S)
    node.register("d", expectation=expected(2))
    prospects = node.machine.prospects(node.now_ns)
    order = sorted(prospects, key=lambda job: prospects[job].place)
    assert order == ["d", "b", "a"]
    assert prospects["d"].reason is Reason.LEFT
    assert (prospects["d"].expected_ns, prospects["d"].lengths) == (2 * S, 1)
    assert prospects["b"].reason is Reason.UNKNOWN
    assert prospects["a"].expected_ns == 11 * S


def test_prospect_of_an_outlived_job():
    node = node_of(a=expected(1))
    tick(node, 5 * S)
    (prospect,) = node.machine.prospects(node.now_ns).values()
    assert (prospect.reason, prospect.left_ns) == (Reason.OUTLIVED, 0)


def test_jobs_that_take_turns_have_no_prospects():
    node = Node()
    node.register("a")
    assert node.machine.prospects(node.now_ns) == {}


@pytest.mark.parametrize("pattern", [Pattern.BULK, Pattern.WAVEFRONT, Pattern.ALLTOALL])
@pytest.mark.parametrize("nodes", [2, 32])
def test_nodes_agree_without_expectations(pattern, nodes):
    programs = tuple(
        Program(f"j{n}", pattern, NS_PER_MS, (1 + n) * S, submit_ns=n * S // 2)
        for n in range(5)
    )
    assert (
        carry_out(NodesRun("cosched", programs, Cluster(nodes), USUAL, 1)).efficiency > 0.9
    )


JOBS = st.lists(st.tuples(st.floats(0.2, 20), st.floats(0, 20)), min_size=2, max_size=7)


@given_settings(max_examples=120)
@given(JOBS)
def test_known_jobs_respond_about_as_under_shortest_rest_first(jobs):
    lengths_s = [max(0.2, round(length_s, 2)) for length_s, _ in jobs]
    submits_s = [round(submit_s, 2) for _, submit_s in jobs]
    _, ends_s = ends(lengths_s, submits_s)
    mean_s = fmean(end - submit for end, submit in zip(ends_s, submits_s, strict=True))
    # A job that is about to end is not cut, so each newcomer may wait for one.
    ending_s = USUAL.slice_ns / S / ENDING_PART * 100 / HOLD_PERCENT
    bound_s = 1.3 * fmean(shortest_rest_first(lengths_s, submits_s)) + ending_s
    assert mean_s <= bound_s + GMET_NS / S


def shortest_rest_first(lengths_s, submits_s):
    """Returns the ideal responses, which no order improves in the mean."""
    rest_s = dict(enumerate(lengths_s))
    now_s, responses_s = 0.0, []
    while rest_s:
        here = [n for n in rest_s if submits_s[n] <= now_s]
        coming = [submits_s[n] for n in rest_s if submits_s[n] > now_s]
        if not here:
            now_s = min(coming)
            continue
        first = min(here, key=rest_s.__getitem__)
        until_s = min([now_s + rest_s[first], *coming])
        rest_s[first] -= until_s - now_s
        now_s = until_s
        if rest_s[first] < 1e-9:
            del rest_s[first]
            responses_s.append(now_s - submits_s[first])
    return responses_s


def test_clock_that_goes_back_breaks_nothing():
    node = node_of(a=expected(5), b=UNKNOWN)
    tick(node, S)
    node.now_ns -= 3 * S
    node.trap("b")
    node.send(SliceEnded)
    assert len(node.running) == 1
    tick(node, 10 * S)
    assert len(node.running) == 1
