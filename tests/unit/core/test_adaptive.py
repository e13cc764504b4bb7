"""``order=age``: turns that grow with the age of the jobs."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from cosched.core.config.limits import bounded
from cosched.core.config.schema import Limits
from cosched.core.node.knowledge import Ended, Knowledge
from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import (
    AlarmRang,
    Mode,
    Refusal,
    RefuseRequest,
    SliceEnded,
    TaskExited,
)
from cosched.core.node.settings import LONGEST, Order, Settings, gmet_of_turn_ns
from cosched.core.node.slices.adaptive import (
    ENOUGH,
    GROWTH,
    grown_ns,
    turn_by_age_ns,
)
from cosched.core.node.slices.policy import choose_policy
from cosched.core.units import NS_PER_MS, NS_PER_S
from cosched.sim.nodes.model import Cluster, Pattern, Program
from cosched.sim.nodes.node_runs import NodesRun, carry_out
from tests.unit.core.machine_node import Node
from tests.unit.core.test_wide_jobs import run_by_timer

LENGTHS = st.integers(4, 10_000 * NS_PER_S)


def auto(*, align=True):
    return Settings(
        slice_ns=NS_PER_S, align=align, slice_auto=True, gmet_auto=True, order=Order.AGE
    )


def turns(node, seconds):
    """Returns the turns as (job, seconds)."""
    found = []
    until_ns = node.now_ns + seconds * NS_PER_S
    (running,), since_ns = node.running, node.now_ns
    for _ in run_by_timer(node, until_ns):
        if node.running != {running}:
            found.append((running, (node.now_ns - since_ns) / NS_PER_S))
            (running,), since_ns = node.running, node.now_ns
    return found


@given(LENGTHS, LENGTHS, st.integers(4, 10 * NS_PER_S))
def test_grown_turn_grows_with_age_within_bounds(age_ns, other_ns, least_ns):
    young_ns, old_ns = sorted((age_ns, other_ns))
    turn_ns = grown_ns(young_ns, least_ns)
    assert least_ns <= turn_ns <= grown_ns(old_ns, least_ns) <= LONGEST * least_ns
    assert turn_ns <= max(least_ns, 2 * GROWTH * young_ns), "out of proportion to its age"


@given(LENGTHS, LENGTHS)
def test_auto_gmet_is_at_most_a_quarter_of_the_turn(turn_ns, other_ns):
    assert gmet_of_turn_ns(turn_ns) <= turn_ns // 4
    less_ns, more_ns = sorted((turn_ns, other_ns))
    assert gmet_of_turn_ns(less_ns) <= gmet_of_turn_ns(more_ns)


@pytest.mark.parametrize("align", [True, False])
def test_turns_of_long_jobs_grow(align):
    node = Node(auto(align=align), now_ns=20 * NS_PER_S)
    node.register("a")
    node.register("b")
    expected = [(job, length) for length in (1, 4, 16, 64, 64) for job in "ab"]
    assert turns(node, 300) == expected


@pytest.mark.parametrize("align", [True, False])
def test_newcomer_waits_for_short_turns_only(align):
    node = Node(auto(align=align), now_ns=20 * NS_PER_S)
    node.register("a")
    node.register("b")
    turns(node, 300)
    node.register("c", after_ns=NS_PER_S // 2)
    came_ns = node.now_ns
    for _ in run_by_timer(node, came_ns + 60 * NS_PER_S):
        if "c" in node.running:
            break
    assert node.now_ns - came_ns <= 3 * NS_PER_S
    node.send(TaskExited, job="c", task=ord("c"), after_ns=NS_PER_S // 2)
    assert max(length for _, length in turns(node, 300)) >= 64


def mean_response_s(work_s, submits_s, of=None, **how):
    """Returns the mean of the jobs submitted from ``of`` on, simulated on two nodes."""
    programs = tuple(
        Program(
            f"job{n}",
            Pattern.BULK,
            NS_PER_MS,
            round(each_s * NS_PER_S),
            submit_ns=submit_s * NS_PER_S,
        )
        for n, (each_s, submit_s) in enumerate(zip(work_s, submits_s, strict=True))
    )
    responses_s = carry_out(
        NodesRun("cosched", programs, Cluster(2), Settings(**how), 1)
    ).responses_s
    counted = [r for r, s in zip(responses_s, submits_s, strict=True) if s >= (of or 0)]
    return sum(counted) / len(counted)


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize(
    ("work_s", "submits_s"),
    [
        ([5.5] * 3, [0] * 3),
        ([7] * 5, [0] * 5),
        ([6] * 6, [0, 1, 2, 12, 14, 16]),
        ([4, 6, 2, 5, 3, 2], [0] * 6),
        ([1, 20, 1, 20], [0] * 4),
        ([0.5, 0.5, 9], [0] * 3),
        ([6] * 5 + [0.7] * 3, [0] * 8),
        ([20, 20, 1, 1, 1, 1], [0, 0, 5, 10, 15, 20]),
        ([30, 30, 5, 5], [0, 0, 10, 30]),
    ],
)
def test_adaptive_slice_matches_the_best_fixed_slice(work_s, submits_s, align):
    fixed_s = [
        mean_response_s(work_s, submits_s, slice_ns=ms * NS_PER_MS, align=align)
        for ms in (500, 1000, 2000, 4000, 8000)
    ]
    later_s = [400 + submit_s for submit_s in submits_s]
    adapted_s = mean_response_s(
        work_s * 2,
        submits_s + later_s,
        400,
        slice_ns=NS_PER_S,
        slice_auto=True,
        gmet_auto=True,
        order=Order.AGE,
        align=align,
    )
    assert adapted_s < 1.05 * min(fixed_s)


@given(LENGTHS, st.lists(LENGTHS, max_size=8), st.integers(4, 10 * NS_PER_S))
def test_guessed_turn_is_within_bounds(age_ns, ended_ns, least_ns):
    most_ns = max(least_ns, age_ns // 2)
    found_ns = turn_by_age_ns(age_ns, ended_ns, least_ns, most_ns)
    assert least_ns <= found_ns <= most_ns
    older = [end_ns for end_ns in ended_ns if end_ns > age_ns]
    if len(older) < ENOUGH:
        assert found_ns == min(grown_ns(age_ns, least_ns), most_ns)


def test_guessed_turn_is_the_rest_of_most_jobs():
    s = NS_PER_S
    alike = [20 * s, 20 * s + 1, 20 * s + 2]
    assert turn_by_age_ns(0, alike, s, 64 * s) == (20 * s + 2) * 5 // 4
    assert turn_by_age_ns(15 * s, alike, s, 64 * s) == (5 * s + 2) * 5 // 4
    assert turn_by_age_ns(20 * s + 1, alike, s, 64 * s) == 16 * s, "as if none was seen"
    few_long = [2 * s] * 6 + [40 * s] * 2
    assert turn_by_age_ns(0, few_long, s, 64 * s) == 2 * s * 5 // 4
    assert turn_by_age_ns(3 * s, few_long, s, 64 * s) == 37 * s * 5 // 4
    assert turn_by_age_ns(3 * s, few_long, s, 10 * s) == 10 * s


def test_one_very_short_job_does_not_shorten_turns():
    """Workload 1 of the lab: a turn of one slice would end one job of seven."""
    ends_ns = [round(s * NS_PER_S) for s in (0.2, 1.6, 1.6, 2.1, 3.0, 3.5, 3.5)]
    turn_ns = turn_by_age_ns(0, ends_ns, NS_PER_S, 64 * NS_PER_S)
    assert turn_ns == ends_ns[-1] + ends_ns[-1] // 4
    many_short_ns = [NS_PER_S // 5] * 4 + ends_ns
    assert turn_by_age_ns(0, many_short_ns, NS_PER_S, 64 * NS_PER_S) == NS_PER_S


@given(
    st.lists(st.integers(1, 100), min_size=ENOUGH, max_size=8),
    st.integers(1, 100),
)
def test_guessed_turn_has_the_best_rate_of_ends(ends, least):
    def rate(turn):
        return Fraction(
            sum(end <= turn for end in ends), sum(min(end, turn) for end in ends)
        )

    best = max(rate(max(end, least)) for end in ends)
    scale = 1000  # so that the margin is not rounded away
    turn = turn_by_age_ns(0, [end * scale for end in ends], least * scale, 10**9)
    guesses = [end for end in ends if max(end * scale * 5 // 4, least * scale) == turn]
    assert any(rate(max(end, least)) == best for end in guesses)


def test_snapshot_has_the_ages_of_ended_jobs():
    node = Node(auto())
    for number in range(3):
        job = "abc"[number]
        node.register(job)
        node.send(TaskExited, job=job, task=ord(job), after_ns=(7 + number) * NS_PER_S)
    restored = NodeScheduler.restored(node.machine.snapshot())
    assert restored.snapshot() == node.machine.snapshot()
    assert restored.snapshot().ended == tuple(Ended(s * NS_PER_S) for s in (7, 8, 9))


def test_auto_gmet_and_lead_follow_the_turn():
    node = Node(auto(), now_ns=20 * NS_PER_S)
    node.register("a")
    node.register("b")
    turns(node, 300)
    turn_ns = node.machine.slice_ns("a")
    assert turn_ns == 64 * NS_PER_S
    (ran,) = node.running
    for _ in run_by_timer(node, node.now_ns + 2 * turn_ns):
        if ran not in node.running:
            break
    refused = [c for c in node.trap(ran) if isinstance(c, RefuseRequest)]
    assert [(c.reason, c.by_ns) for c in refused] == [(Refusal.GMET, 500 * NS_PER_MS)]
    node.now_ns += 500 * NS_PER_MS
    node.send(AlarmRang)
    node.trap(ran)
    assert ran in node.running, "a turn ahead of the other is no reason to refuse it"


def crowd(node, until_ns, running_for):
    """Ends slices as the machine orders; returns the longest wait of each job in seconds.

    running_for: how many seconds each job takes, by its first letter. A job that ends is
    submitted again.
    """
    jobs = node.machine.jobs
    waits = Counter()
    seen_ns = dict.fromkeys(jobs, node.now_ns)
    while node.now_ns < until_ns:
        slice_ns = node.machine.settings.slice_ns
        boundary_ns = (node.now_ns // slice_ns + 1) * slice_ns
        slice_end_ns = boundary_ns if node.orders.align else node.orders.deadline_ns
        ends = {
            key: node.now_ns
            + running_for[key[0]] * NS_PER_S
            - job.received_ns
            - job.ran_ns(node.now_ns)
            for key, job in jobs.items()
            if job.scheduled and key[0] in running_for
        }
        first = min(ends, key=lambda key: (ends[key], key), default=None)
        if first is not None and ends[first] <= slice_end_ns:
            node.now_ns = max(node.now_ns, ends[first])
            tasks = dict(jobs[first].tasks)
            for task in tasks:
                node.send(TaskExited, job=first, task=task)
            again = f"{first[0]}{int(first[1:] or 0) + 4}"
            for task, cpus in tasks.items():
                node.register(again, task, cpus)
            seen_ns[again] = node.now_ns
        else:
            node.now_ns = max(node.now_ns, slice_end_ns)
            node.send(SliceEnded)
        for key in jobs:
            if key in node.running:
                seen_ns[key] = node.now_ns
            waits[key[0]] = max(waits[key[0]], node.now_ns - seen_ns[key])
    return {key: wait_ns / NS_PER_S for key, wait_ns in waits.items()}


@pytest.mark.parametrize("align", [True, False])
def test_wide_job_runs_beside_long_narrow_jobs(align):
    node = Node(auto(align=align), now_ns=20 * NS_PER_S)
    for job, cpu in (("a", 0), ("b", 1), ("c", 0)):
        node.register(job, cpus=frozenset({cpu}))
    node.register("w", 1, frozenset({0}))
    node.register("w", 2, frozenset({1}))
    for _ in run_by_timer(node, node.now_ns + 700 * NS_PER_S):
        pass
    node.send(TaskExited, job="a", task=ord("a"), after_ns=NS_PER_S // 3)
    waits_s = crowd(node, node.now_ns + 4000 * NS_PER_S, {})
    assert max(waits_s.values()) <= 4 * LONGEST


@pytest.mark.parametrize("align", [True, False])
def test_wide_job_runs_in_a_stream_of_narrow_jobs(align):
    node = Node(auto(align=align), now_ns=20 * NS_PER_S)
    node.machine.remember([Ended(10 * NS_PER_S)] * 8)
    both = frozenset({0, 1})
    for number in range(4):
        node.register(f"n{number}", number + 10, both)
    node.register("w", 1, both)
    node.register("w", 2, both)
    waits_s = crowd(node, node.now_ns + 1500 * NS_PER_S, {"n": 10})
    assert waits_s["w"] <= 4 * LONGEST


@pytest.mark.parametrize("align", [True, False])
def test_job_keeps_its_cpus_while_its_ranks_end(align):
    node = Node(auto(align=align), now_ns=20 * NS_PER_S)
    both = frozenset({0, 1})
    for job in ("a", "b"):
        node.register(job, ord(job), both)
        node.register(job, ord(job) + 1000, both)
    turns(node, 100)
    (running,) = node.running
    node.send(TaskExited, job=running, task=ord(running), after_ns=2 * NS_PER_S)
    assert node.running == {running}
    node.send(TaskExited, job=running, task=ord(running) + 1000, after_ns=NS_PER_MS)
    assert node.running == {"a", "b"} - {running}


@pytest.mark.parametrize("settings", [auto(), auto(align=False), Settings(align=False)])
def test_job_that_ran_alone_waits_little_after_a_merge(settings):
    node = Node(settings, now_ns=20 * NS_PER_S)
    node.register("a", cpus=frozenset({0}))
    node.register("b", cpus=frozenset({1}), after_ns=3600 * NS_PER_S)
    node.register("w", 1, frozenset({0}), after_ns=100 * NS_PER_S)
    node.register("w", 2, frozenset({1}))
    node.register("d", cpus=frozenset({0}))
    waits_s = crowd(node, node.now_ns + 4000 * NS_PER_S, {})
    assert waits_s["a"] <= 5 * choose_policy(settings, Knowledge()).longest_ns / NS_PER_S


def test_incomplete_ages_are_not_remembered():
    node = Node(auto())
    node.register("a", adopted=True)
    node.send(TaskExited, job="a", task=ord("a"), after_ns=NS_PER_S)
    node.register("b")
    node.choose("b", Mode.RELEASED, after_ns=NS_PER_S)
    node.choose("b", Mode.COSCHEDULED, after_ns=NS_PER_S)
    node.send(TaskExited, job="b", task=ord("b"), after_ns=NS_PER_S)
    assert node.machine.snapshot().ended == ()


def test_adaptive_lengths_stay_within_the_limits():
    limits = Limits(
        slice_min_ns=2 * NS_PER_S, slice_max_ns=5 * NS_PER_S, gmet_max_ns=30 * NS_PER_MS
    )
    settings = bounded(limits, auto())
    policy = choose_policy(settings, Knowledge())
    assert (policy.slice_ns, policy.longest_ns) == (2 * NS_PER_S, 5 * NS_PER_S)
    assert settings.gmet_within_ns(5 * NS_PER_S) == 30 * NS_PER_MS
    node = Node(settings, now_ns=20 * NS_PER_S)
    node.register("a")
    node.register("b")
    assert {length for _, length in turns(node, 60)} == {2.0, 4.0}, "at boundaries"
    fixed = Settings(slice_ns=NS_PER_S)
    assert choose_policy(bounded(limits, fixed), Knowledge()).longest_ns == NS_PER_S


@pytest.mark.parametrize("pattern", [Pattern.BULK, Pattern.WAVEFRONT, Pattern.ALLTOALL])
@pytest.mark.parametrize("align", [True, False])
def test_nodes_agree_while_turns_grow(pattern, align):
    programs = tuple(Program(f"j{n}", pattern, NS_PER_MS, 6 * NS_PER_S) for n in range(4))
    run = NodesRun("cosched", programs, Cluster(32), auto(align=align), 1)
    assert carry_out(run).efficiency > 0.95


@given_settings(max_examples=15)
@given(st.integers(0, 2**16), st.integers(2, 5), st.sampled_from([2, 8, 16]))
def test_nodes_agree_on_random_jobs(seed, dom, nodes):
    programs = tuple(
        Program(f"j{n}", Pattern.BULK, NS_PER_MS, (1 + (seed >> n) % 7) * NS_PER_S)
        for n in range(dom)
    )
    run = NodesRun("cosched", programs, Cluster(nodes), auto(), seed)
    assert carry_out(run).efficiency > 0.9


def test_slice_can_be_read_at_any_time():
    node = Node(auto())
    node.register("a")
    assert node.machine.slice_ns("a") == NS_PER_S
    node.send(SliceEnded)
    assert node.machine.slice_ns("a") == NS_PER_S
