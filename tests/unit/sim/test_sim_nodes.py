"""Simulated nodes: how ranks progress, what the kernel alone does, and what core.node does
on many nodes."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.cli.sim.nodes import render
from cosched.core.errors import CoschedError
from cosched.core.node.settings import USUAL, Settings
from cosched.core.units import NS_PER_MS, NS_PER_S
from cosched.sim.nodes.driver import Coscheduled
from cosched.sim.nodes.expected import exact, read_lengths
from cosched.sim.nodes.model import (
    BLOCKS,
    Cluster,
    Pattern,
    Program,
    diagonals,
    grid,
    rounds,
    senders,
)
from cosched.sim.nodes.node_runs import NodesRun, alone_s, carry_out
from cosched.sim.nodes.ranks import Meeting, Wave, make_ranks
from tests.tools.commands import run_command

MEETING = [Pattern.BULK, Pattern.ALLTOALL]
COMMUNICATING = [*MEETING, Pattern.WAVEFRONT]


def jobs(count, pattern=Pattern.BULK, grain_ns=NS_PER_MS, work_s=1.0, **more):
    return tuple(
        Program(f"job{number}", pattern, grain_ns, round(work_s * NS_PER_S), **more)
        for number in range(count)
    )


def outcome(arm, programs, cluster, *, seed=1, **more):
    return carry_out(NodesRun(arm, programs, cluster, Settings(**more), seed))


# -- the model ------------------------------------------------------------------------


def test_senders_match_the_pattern():
    for peers in senders(Pattern.BULK, 8):
        assert (peers[peers] == np.arange(8)).all()
    assert sorted(peers[5] for peers in senders(Pattern.BULK, 8)) == [1, 4, 7]
    assert grid(12) == (3, 4)
    assert sorted({int(peers[0]) for peers in senders(Pattern.WAVEFRONT, 12)}) == [0, 1, 4]
    assert diagonals(12).tolist() == [0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5]
    assert [rounds(ranks) for ranks in (1, 2, 3, 4, 5, 4096)] == [0, 1, 2, 2, 3, 12]


@pytest.mark.parametrize("ranks", [2, 9, 64])
def test_a_job_alone_takes_its_work_and_its_messages(ranks):
    cluster = Cluster(ranks)
    bulk, wave, none = (
        jobs(1, pattern)[0] for pattern in (Pattern.BULK, Pattern.WAVEFRONT, Pattern.NONE)
    )
    of_bulk = 1000 * (1e-3 + rounds(ranks) * 20e-6)
    assert alone_s(bulk, cluster) == pytest.approx(of_bulk)
    stages = int(diagonals(ranks).max())
    of_wave = wave.steps * (BLOCKS * 1e-3 + stages * 1.02e-3)
    assert alone_s(wave, cluster) == pytest.approx(of_wave)
    assert alone_s(none, cluster) == pytest.approx(1.0)


def test_invalid_input_is_refused():
    with pytest.raises(CoschedError, match="grain"):
        Program("a", Pattern.BULK, 0, 1)
    with pytest.raises(CoschedError, match="imbalance"):
        Program("a", Pattern.BULK, 1, 1, imbalance=1.0)
    with pytest.raises(CoschedError, match="its nodes 3 to 4"):
        Cluster(4).nodes_of(Program("a", Pattern.BULK, 1, 1, first=3, count=2))


# -- ranks ----------------------------------------------------------------------------

speeds = st.sampled_from([0.01, 0.25, 0.5, 0.97, 1.0])


@st.composite
def histories(draw, ranks):
    """Times between changes, and what changes then."""
    count = draw(st.integers(1, 12))
    return [
        (
            draw(st.floats(1e3, 5e7)),
            np.array(draw(st.lists(speeds, min_size=ranks, max_size=ranks))),
            np.array(draw(st.lists(st.booleans(), min_size=ranks, max_size=ranks))),
        )
        for _ in range(count)
    ]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(MEETING), st.data())
def test_meeting_waits_for_slowest_rank(pattern, data):
    ranks_n = data.draw(st.integers(2, 9))
    program = replace(jobs(1, pattern)[0], imbalance=0.3)
    ranks = make_ranks(program, ranks_n, Cluster(ranks_n), np.random.default_rng(1), 0.0)
    assert isinstance(ranks, Meeting)
    work = np.zeros(ranks_n)  # the most work that the ranks could do
    now_ns = 0.0
    for elapsed_ns, speed, on in data.draw(histories(ranks_n)):
        ranks.resume(speed, on)
        now_ns += elapsed_ns
        before = ranks.step, ranks.done.copy()
        ranks.advance(now_ns)
        work += speed * elapsed_ns
        assert (ranks.done <= ranks.need + 1e-6).all()
        did = (ranks.step - before[0]) * ranks.need + ranks.done - before[1]
        assert (did <= speed * elapsed_ns + 1.0).all()
        assert (did >= -1.0).all()
        assert (ranks.step * ranks.need <= work + 1.0).all()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_wave_no_rank_is_ahead_of_its_senders(data):
    ranks_n = data.draw(st.integers(2, 12))
    program = jobs(1, Pattern.WAVEFRONT)[0]
    ranks = make_ranks(program, ranks_n, Cluster(ranks_n), np.random.default_rng(1), 0.0)
    assert isinstance(ranks, Wave)
    now_ns, before = 0.0, 0.0
    for elapsed_ns, speed, on in data.draw(histories(ranks_n)):
        ranks.resume(speed, on)
        now_ns += elapsed_ns
        ranks.advance(now_ns)
        done = ranks.done
        behind = done[1:] <= np.maximum(0.0, done[:-1] - program.grain_ns) + 1e-3
        assert (behind | (done[:-1] >= program.step_ns - 1e-3)).all()
        whole = ranks.step * program.step_ns + float(done[-1])
        assert before - 1.0 <= whole <= now_ns
        before = whole


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(COMMUNICATING), st.integers(2, 9), st.integers(1, 400))
def test_jump_over_steps_equals_single_steps(pattern, ranks_n, pieces):
    program = jobs(1, pattern, work_s=0.5)[0]
    # Where a wave's ranks differ, the block that a change interrupts is not told exactly.
    slower = 0.97 if pattern is Pattern.WAVEFRONT else 0.5
    speed = np.where(np.arange(ranks_n) % 2, 0.97, slower)
    on = np.ones(ranks_n, dtype=bool)
    ends = []
    for steps in (1, pieces):
        ranks = make_ranks(
            program, ranks_n, Cluster(ranks_n), np.random.default_rng(1), 0.0
        )
        end_ns = ranks.resume(speed, on)
        for piece in range(1, steps + 1):
            ranks.advance(0.6 * end_ns * piece / steps)
            last = ranks.resume(speed, on)
        ends.append(last)
    # An interrupted wave starts the flights of its messages again.
    flight_ns = pieces * 20e3 * 8 if pattern is Pattern.WAVEFRONT else 1e3
    assert ends[0] == pytest.approx(ends[1], abs=flight_ns)


def test_rank_receives_from_scheduled_peers():
    cluster = Cluster(4)
    program = jobs(1)[0]
    ranks = make_ranks(program, 4, cluster, np.random.default_rng(1), 0.0)
    off = np.zeros(4, dtype=bool)
    ranks.resume(np.ones(4), off)
    assert np.isinf(ranks.receives_ns(off)).all()
    only_first = np.array([True, False, False, False])
    ranks.resume(np.ones(4), only_first)
    heard = ranks.receives_ns(only_first)
    at_ns = program.grain_ns + cluster.message_ns
    assert heard[1] == heard[2] == at_ns
    assert np.isinf(heard[3])  # 3 hears from 1 and 2
    ranks.note_received(1)
    assert ranks.receives_ns(only_first)[1] > at_ns


# -- under the kernel alone -------------------------------------------------------------


def test_without_messages_the_kernel_wastes_nothing():
    for arm in ("spin", "yield"):
        result = outcome(arm, jobs(3, Pattern.NONE), Cluster(4))
        assert result.makespan_s == pytest.approx(3.0, abs=0.02)


def test_waits_that_another_job_uses_make_the_efficiency_exceed_100_percent():
    """A step is 1 ms of CPU time and two rounds of messages of 0.3 ms, in which a job alone
    waits. Three jobs fill each other's waits; launches are CPU time, also alone."""
    programs = tuple(replace(job, message_ns=300_000) for job in jobs(3))
    batch = outcome("batch", programs, Cluster(4))
    filled = outcome("yield", programs, Cluster(4))
    assert (batch.efficiency, batch.makespan_s) == pytest.approx((1.0, 3 * 1.6))
    assert filled.efficiency == pytest.approx(batch.makespan_s / filled.makespan_s)
    assert filled.efficiency == pytest.approx(1.6, rel=0.01)
    launched = tuple(replace(job, launch_ns=NS_PER_S) for job in jobs(3, Pattern.NONE))
    assert outcome("yield", launched, Cluster(4)).efficiency == pytest.approx(1.0)


def test_spinning_ranks_of_small_grain_are_hardly_ever_met():
    cluster = Cluster(16)
    spin = outcome("spin", jobs(4, work_s=0.2), cluster)
    yields = outcome("yield", jobs(4, work_s=0.2), cluster)
    assert spin.efficiency < 0.6
    assert yields.efficiency > 0.95


def test_the_kernel_is_fair():
    """Jobs that do not communicate and start together end together."""
    programs = jobs(5, Pattern.NONE, work_s=0.5)
    result = outcome("kernel", programs, Cluster(2))
    assert min(result.responses_s) > 2.5 - 5 * 0.005
    assert result.makespan_s == pytest.approx(2.5, abs=0.01)


def test_common_ticks_keep_ranks_apart():
    apart, together = (
        sum(
            outcome("kernel", jobs(4, work_s=0.2), Cluster(4, same_ticks=same), seed=seed)
            .mean_response_s
            for seed in range(4)
        )
        for same in (False, True)
    )  # fmt: skip
    assert together > apart


def test_a_large_message_takes_more_turns_of_the_kernel():
    one, three = (
        sum(
            outcome("kernel", jobs(3, work_s=0.2, legs=legs), Cluster(2), seed=seed)
            .mean_response_s
            for seed in range(6)
        )
        for legs in (1, 3)
    )  # fmt: skip
    assert three > 1.1 * one


def test_one_job_under_the_kernel_is_as_fast_as_alone():
    for pattern in COMMUNICATING:
        program = jobs(1, pattern, work_s=0.32)
        for arm in ("spin", "yield"):
            result = outcome(arm, program, Cluster(4))
            assert result.makespan_s == pytest.approx(result.alone_s[0], rel=0.03)


# -- under core.node ----------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    pattern=st.sampled_from(list(Pattern)),
    nodes=st.integers(1, 6),
    dom=st.integers(1, 4),
    seed=st.integers(0, 1000),
    align=st.booleans(),
    fills=st.booleans(),
)
def test_every_job_ends_and_no_node_gives_more_than_its_cpu(
    pattern, nodes, dom, seed, align, fills
):
    cluster = Cluster(nodes, fills=fills)
    programs = jobs(dom, pattern, work_s=0.4)
    result = outcome(
        "cosched", programs, cluster, seed=seed, align=align, slice_ns=NS_PER_S // 8,
        gmet_ns=10 * NS_PER_MS,
    )  # fmt: skip
    work_s = sum(program.steps * program.step_ns for program in programs) / NS_PER_S
    # A switch may leave time unused.
    assert result.makespan_s >= 0.96 * work_s
    longest = zip(result.responses_s, result.alone_s, strict=True)
    assert all(response >= alone - 1e-6 for response, alone in longest)


def test_the_same_seed_gives_the_same_run():
    first, second, other = (
        outcome("cosched", jobs(3), Cluster(8), seed=seed).document() for seed in (5, 5, 6)
    )
    assert first == second
    assert first != other


def test_gang_is_batch_and_its_switches():
    result = outcome("gang", jobs(3, work_s=3.0), Cluster(32))
    batch = outcome("batch", jobs(3, work_s=3.0), Cluster(32))
    assert batch.efficiency == pytest.approx(1.0)
    # Above 1: a job goes on while another's message is under way.
    assert 0.95 < result.efficiency < 1.001


@pytest.mark.parametrize("pattern", COMMUNICATING)
def test_two_aligned_nodes_are_nearly_as_good_as_gang(pattern):
    programs = jobs(3, pattern, work_s=5.0)
    gang = outcome("gang", programs, Cluster(2))
    cosched = outcome("cosched", programs, Cluster(2))
    assert cosched.makespan_s <= 1.05 * gang.makespan_s


def test_clocks_cost_as_much_as_they_differ():
    near, far = (
        outcome("cosched", jobs(2, work_s=5.0), Cluster(2, clock_ns=clock_ns, spread_ns=0))
        for clock_ns in (0, 300 * NS_PER_MS)
    )
    assert near.makespan_s < far.makespan_s


def test_messages_bring_nodes_together_whose_timers_are_late():
    runs = [
        Coscheduled(
            Cluster(2, late_ns=200 * NS_PER_MS),
            jobs(3, work_s=3.0),
            Settings(slice_ns=NS_PER_S, gmet_ns=20 * NS_PER_MS, align=False),
            seed,
        )
        for seed in range(6)
    ]
    for run in runs:
        run.run(lambda: None)
        assert max(job.end_ns for job in run.jobs) < 1.1 * 9.36 * NS_PER_S
    assert sum(run.counters()["sch_granted"] for run in runs) > 0


LAUNCHED = jobs(2, Pattern.NONE, work_s=1.0, launch_ns=NS_PER_S // 2)


def starts_and_ends_s(programs, **more):
    run = Coscheduled(Cluster(2, spread_ns=0), programs, Settings(), seed=1, **more)
    run.run(lambda: None)
    return [(job.start_ns / NS_PER_S, job.end_ns / NS_PER_S) for job in run.jobs]


@pytest.mark.parametrize("pattern", list(Pattern))
@pytest.mark.parametrize("arm", ["gang", "cosched", "messages", "paper"])
def test_a_job_launched_alone_takes_its_launch_and_its_work(arm, pattern):
    programs = jobs(1, pattern, launch_ns=NS_PER_S // 2, imbalance=0.2)
    result = outcome(arm, programs, Cluster(2, spread_ns=0))
    not_launched = alone_s(replace(programs[0], launch_ns=0), Cluster(2))
    assert result.responses_s == pytest.approx((0.5 + not_launched,), abs=0.001)


@pytest.mark.parametrize("central", [None, 2 * NS_PER_S])
def test_a_job_is_launched_in_its_own_turn(central):
    """The first of two takes as long as alone."""
    first, second = starts_and_ends_s(LAUNCHED, gang_slice_ns=central)
    assert first == pytest.approx((0.5, 1.5), abs=0.002)
    assert second == pytest.approx((2.0, 3.0), abs=0.004)


def test_a_job_that_is_launched_later_waits_for_its_turn():
    programs = (LAUNCHED[0], replace(LAUNCHED[1], submit_ns=3 * NS_PER_S // 4))
    (_, first), (start, last) = starts_and_ends_s(programs)
    assert first == pytest.approx(1.5, abs=0.01)
    assert start == pytest.approx(first + 0.5, abs=0.01)
    assert last == pytest.approx(3.0, abs=0.004)


def test_a_launch_is_interrupted_at_the_end_of_its_turn():
    launched = jobs(2, Pattern.NONE, work_s=0.5, launch_ns=19 * NS_PER_S // 10)
    (start, _), (other, _) = starts_and_ends_s(launched, gang_slice_ns=NS_PER_S)
    # Each one's second turn begins with the rest of its launch.
    assert start == pytest.approx(2.9, abs=0.005)
    assert other == pytest.approx(3.9, abs=0.005)


def test_all_ranks_have_launched_before_the_program_begins():
    """One node is free; on the other one another job has its turn."""
    taken = Program("taken", Pattern.NONE, NS_PER_MS, NS_PER_S, first=1, count=1)
    (both,) = jobs(1, submit_ns=10 * NS_PER_MS, launch_ns=NS_PER_S // 2)
    (_, first), (start, last) = starts_and_ends_s((taken, both))
    assert first == pytest.approx(1.0, abs=0.003)
    assert start == pytest.approx(first + 0.5, abs=0.003)
    assert last == pytest.approx(start + 1.02, abs=0.003)


def test_ranks_that_launch_ask_for_no_switch():
    """Nodes whose clocks are far apart disagree for a while."""
    launched = jobs(3, work_s=0.001, launch_ns=2 * NS_PER_S)
    cluster = Cluster(4, clock_ns=500 * NS_PER_MS)
    asked = [
        sum(
            count
            for branch, count in outcome("cosched", programs, cluster).counters.items()
            if branch.startswith("sch_")
        )
        for programs in (launched, jobs(3, work_s=2.0))
    ]
    assert asked[0] == 0 < asked[1]


def halves():
    """Jobs of half of two nodes, one on each."""
    first, second = jobs(2, Pattern.NONE, work_s=4.0)
    return (
        replace(first, name="left", count=1),
        replace(second, name="right", first=1, count=1),
    )


def test_gang_runs_jobs_on_different_nodes_in_one_turn():
    programs = (*jobs(1, work_s=4.0), *halves())
    result = outcome("gang", programs, Cluster(2), slice_ns=NS_PER_S)
    assert result.makespan_s == pytest.approx(8.0, rel=0.05)


@pytest.mark.parametrize(("at_a_time", "waits_s"), [(None, (0, 4, 4)), (1, (0, 4, 8))])
def test_batch_with_a_limit_runs_jobs_strictly_one_by_one(at_a_time, waits_s):
    programs = (*jobs(1, Pattern.NONE, work_s=4.0), *halves())
    result = carry_out(
        NodesRun("batch", programs, Cluster(2), Settings(), 1, at_a_time=at_a_time)
    )
    assert result.waits_s == pytest.approx(waits_s, abs=0.01)


@pytest.mark.parametrize("arm", ["gang", "cosched", "paper"])
def test_limit_of_jobs_keeps_the_others_waiting(arm):
    programs = jobs(3, Pattern.NONE, work_s=2.0)
    run = NodesRun(arm, programs, Cluster(2), Settings(slice_ns=NS_PER_S), 1, at_a_time=2)
    result = carry_out(run)
    assert result.waits_s[:2] == (0.0, 0.0)
    first_end_s = min(result.responses_s[:2])
    assert result.waits_s[2] == pytest.approx(first_end_s, abs=0.001)
    with pytest.raises(CoschedError, match="arm kernel: cannot be simulated with a limit"):
        carry_out(replace(run, arm="kernel"))


@pytest.mark.parametrize("arm", ["messages", "paper"])
def test_paper_discards_requests_and_refuses_for_gmet_alone(arm):
    counters = outcome(arm, jobs(3, work_s=4.0), Cluster(4)).counters
    refused = {name for name, count in counters.items() if count and "refused" in name}
    assert refused == {"sch_refused_gmet"}
    assert counters["sch_granted"] > 0
    assert counters["csw_switched"] > 0
    assert counters["alarm_rearmed"] == 0


def test_paper_loses_less_the_longer_its_slice():
    """Nodes agree some looks after a switch; the looks are 100 ms apart."""
    programs = jobs(2, work_s=10.0)
    ends_s = [
        outcome("paper", programs, Cluster(2), slice_ns=ns, gmet_ns=ns // 3).makespan_s
        for ns in (NS_PER_S // 4, NS_PER_S, 4 * NS_PER_S)
    ]
    assert ends_s == sorted(ends_s, reverse=True)
    assert ends_s[-1] < 1.15 * sum(alone_s(program, Cluster(2)) for program in programs)


@settings(max_examples=20, deadline=None)
@given(
    arm=st.sampled_from(["gang", "cosched"]),
    launch_ms=st.lists(st.integers(0, 1500), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
)
def test_jobs_that_launch_use_all_of_the_cpus_and_no_more(arm, launch_ms, seed):
    programs = tuple(
        replace(job, launch_ns=ms * NS_PER_MS)
        for job, ms in zip(
            jobs(len(launch_ms), Pattern.NONE, work_s=0.3), launch_ms, strict=True
        )
    )
    result = outcome(arm, programs, Cluster(2, spread_ns=0), seed=seed)
    computed_s = sum(p.launch_ns + p.work_ns for p in programs) / NS_PER_S
    # Until a switch takes effect, the new job gets next to nothing.
    assert result.makespan_s == pytest.approx(computed_s, abs=0.03)


@settings(max_examples=25, deadline=None)
@given(
    pattern=st.sampled_from(list(Pattern)),
    arm=st.sampled_from(["gang", "cosched", "messages", "paper", "kernel", "yield"]),
    launch_ms=st.lists(st.integers(0, 300), min_size=1, max_size=4),
    legs=st.sampled_from([1, 3]),
    seed=st.integers(0, 1000),
)
def test_no_arm_launches_with_more_than_the_cpus(pattern, arm, launch_ms, legs, seed):
    """Nor with much less: nodes with something to do are busy."""
    programs = tuple(
        replace(
            jobs(1, pattern, work_s=0.3, legs=legs)[0],
            name=f"job{number}",
            launch_ns=ms * NS_PER_MS,
        )
        for number, ms in enumerate(launch_ms)
    )
    result = outcome(arm, programs, Cluster(2), seed=seed)
    computed_s = sum(p.launch_ns + p.steps * p.step_ns for p in programs) / NS_PER_S
    assert result.makespan_s >= 0.96 * computed_s
    for response, alone in zip(result.responses_s, result.alone_s, strict=True):
        assert response >= 0.99 * alone
    if arm in ("gang", "cosched"):
        assert result.makespan_s <= 1.2 * sum(result.alone_s) + 0.1


def test_a_rank_that_registers_late_keeps_its_job_from_starting():
    run = Coscheduled(Cluster(4, spread_ns=NS_PER_S), jobs(1), Settings(), seed=1)
    run.run(lambda: None)
    (job,) = run.jobs
    assert job.start_ns > 100 * NS_PER_MS
    assert job.end_ns - job.start_ns == pytest.approx(1.04e9, rel=0.01)


# -- the command ------------------------------------------------------------------------


def test_a_line_fits():
    result = outcome("cosched", jobs(2, Pattern.NONE), Cluster(4096, spread_ns=0))
    assert max(map(len, render([result]).splitlines())) <= 80


def test_the_command(tmp_path):
    words = ["sim", "nodes", "--nodes", "4", "--work", "500ms"]
    words += ["--arms", "batch,gang,cosched,spin", "--out", "out.json", "--parallel", "1"]
    result = run_command(*words, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == [
        "batch",
        "gang",
        "cosched",
        "spin",
    ]
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["command"] == " ".join(["cosched", *words])
    assert document["runs"][0]["efficiency"] == pytest.approx(1.0)
    assert document["runs"][2]["counters"]["out_job"] == 16


def test_known_lengths_order_the_jobs():
    """The longest job is submitted first; known, it ends last."""
    programs = tuple(
        Program(f"j{length_s}", Pattern.BULK, NS_PER_MS, length_s * NS_PER_S)
        for length_s in (9, 3, 1)
    )
    unknown = NodesRun("cosched", programs, Cluster(2), USUAL, 1)
    known = replace(unknown, expectations=exact(programs, Cluster(2)))
    responses_s = carry_out(known).responses_s
    assert responses_s == tuple(sorted(responses_s, reverse=True))
    assert carry_out(known).mean_response_s < 0.8 * carry_out(unknown).mean_response_s


def test_lengths_from_a_file(tmp_path):
    path = tmp_path / "lengths.json"
    path.write_text('{"lu": [9.5, 10], "sp.2": 3}')
    found = read_lengths(path, ["lu.1", "lu.2", "sp.1", "sp.2"])
    assert found["lu.1"] == found["lu.2"]
    assert found["lu.1"].lengths_ns == (9_500_000_000, 10_000_000_000)
    assert found["sp.2"].lengths_ns == (3 * NS_PER_S,)
    assert "sp.1" not in found
    assert len({expectation.kind for expectation in found.values()}) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "cannot be read: No such file or directory"),
        ("{", "not JSON"),
        ("[1]", "must be an object"),
        ('{"lu": "long"}', "'lu': 'long' is not a number of seconds"),
        ('{"lu": [true]}', "'lu': True is not a number of seconds"),
        ('{"lu": [-1]}', "'lu': -1 s is not a length of a job"),
        ('{"lu": NaN}', "not JSON"),
        ('{"mg": 1}', "no job of this run is named 'mg'"),
    ],
)
def test_wrong_file_of_lengths_is_named_in_one_line(text, says, tmp_path):
    path = tmp_path / "lengths.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(CoschedError) as caught:
        read_lengths(path, ["lu.1"])
    assert str(caught.value).startswith(f"{path}: ")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--arms", "magic"], "'magic' is none of batch, gang"),
        (["--grain", "soon"], "--grain: 'soon' is not a duration"),
        (["--grain", "0ms"], "grain and work must be above 0"),
    ],
)
def test_bad_words_are_named_in_one_line(words, says):
    result = run_command("sim", "nodes", *words)
    assert result.returncode != 0
    assert says in result.stderr
    assert "Traceback" not in result.stderr
