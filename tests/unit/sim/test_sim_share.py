"""Logs on machines whose nodes several jobs share."""

from __future__ import annotations

import json
from array import array

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from cosched.cli.commands import cosched
from cosched.core.cluster.queue.places.least_stopped import bits, least_stopped
from cosched.core.node.settings import USUAL
from cosched.core.units import NS_PER_S
from cosched.sim.logs.swf import write_swf
from cosched.sim.logs.workload import Estimates, Workload
from cosched.sim.queue.metrics import summarise
from cosched.sim.queue.queue_runs import simulate
from cosched.sim.share.driver import SharedMachine, Sharing
from cosched.sim.share.turns import Costs, SharingRun, Turns
from cosched.sim.virtual_time import VirtualTime

S = NS_PER_S
FREE = Costs(switch_ns=0, beside=0.0)
HOUR_NS = 3600 * S


def workload(*jobs, machine=4):
    """Returns a log; each job is (submit, run, size), in seconds, with its user."""
    log = Workload("test", machine)
    for number, (submit_s, run_s, size) in enumerate(sorted(jobs)):
        log.append(number, submit_s * S, run_s * S, size, max(1, run_s) * S, number % 3)
    return log


def run(log, *short_ns, costs=FREE, queue="easy"):
    engine = VirtualTime()
    machine = SharedMachine(engine, log, Sharing(queue, short_ns, USUAL, costs))
    engine.run(lambda: None)
    return machine


def ends_s(machine):
    return [end_ns / S for end_ns in machine.end_ns]


def test_short_job_runs_first_on_shared_nodes():
    log = workload((0, 1000, 4), (100, 10, 4))
    alone = run(log)
    assert ends_s(alone) == [1000, 1010], "the second job waits in the queue"
    shared = run(log, HOUR_NS)
    # Both are unknown, and the newcomer is younger. The long job keeps an eighth.
    assert ends_s(shared)[1] == pytest.approx(100 + 10 / 0.875, abs=0.1)
    assert ends_s(shared)[0] == pytest.approx(1010, abs=0.1), "no time is lost"


def test_jobs_on_different_nodes_do_not_share():
    log = workload((0, 100, 2), (0, 100, 2))
    assert ends_s(run(log, HOUR_NS, HOUR_NS)) == [100, 100]


def test_place_for_short_jobs_refuses_long_ones():
    log = workload((0, 1000, 4), (100, 500, 4))
    assert run(log, 499 * S).start_ns[1] == 1000 * S
    assert run(log, 500 * S).start_ns[1] == 100 * S


def test_interference_slows_jobs_that_share():
    log = workload((0, 100, 4), (0, 100, 4))
    slowed = run(log, HOUR_NS, costs=Costs(0, 0.1))
    assert max(ends_s(slowed)) == pytest.approx(200 / 0.9, rel=0.1)


def test_switches_cost_time():
    log = workload((0, 1000, 4), *((n, 1, 4) for n in range(10, 500, 10)))
    free, dear = run(log, HOUR_NS), run(log, HOUR_NS, costs=Costs(S, 0.0))
    assert dear.switches > 40
    assert max(dear.end_ns) > max(free.end_ns) + 40 * S


JOBS = st.lists(
    st.tuples(st.integers(0, 500), st.integers(0, 300), st.integers(1, 4)),
    min_size=2,
    max_size=25,
)


@given_settings(max_examples=60, deadline=None)
@given(JOBS, st.sampled_from(["easy", "fcfs"]))
def test_one_job_a_node_is_the_plain_queue(jobs, queue):
    log = workload(*jobs)
    schedule, _ = simulate(log, queue, Estimates.LOG)
    machine = run(log, queue=queue)
    for index in range(len(log)):
        assert abs(machine.start_ns[index] - schedule.start_ns[index]) <= 2 * len(log)


@given_settings(max_examples=60, deadline=None)
@given(JOBS)
def test_all_jobs_end_and_take_at_least_their_run_time(jobs):
    log = workload(*jobs)
    machine = run(log, HOUR_NS, HOUR_NS, costs=Costs(S // 100, 0.01))
    for index in range(len(log)):
        assert log.submit_ns[index] <= machine.start_ns[index]
        took_ns = machine.end_ns[index] - machine.start_ns[index]
        assert took_ns >= log.run_ns[index] - 1


@given(
    st.lists(st.tuples(st.integers(1, 15), st.integers(0, 10**6)), min_size=1, max_size=8)
)
def test_rates_never_exceed_a_node(jobs):
    running = [
        SharingRun(index, nodes, (), 100.0 * S, age_ns=float(age * S))
        for index, (nodes, age) in enumerate(jobs)
    ]
    for job in running:
        job.rivals = max(
            sum(other.nodes >> node & 1 for other in running) for node in bits(job.nodes)
        )
    Turns(USUAL, FREE).allot(running)
    for node in range(4):
        here = [job.rate for job in running if job.nodes >> node & 1]
        assert sum(here) <= 1 + 1e-9
    assert all(job.rate > 0 for job in running)


def test_job_gets_nodes_where_it_stops_few_others():
    everything = 0b1111
    assert least_stopped(everything, 2, [0b0011]) == 0b1100, "free nodes come first"
    assert least_stopped(0b1100, 1, [0b0011, 0b1100]) == 0b0100
    assert least_stopped(everything, 1, [0b0111, 0b1000]) == 0b1000, "narrow jobs are next"


def test_slowdown_is_bounded_by_ten_seconds():
    log = workload((0, 1, 1), (0, 100, 1))
    figures = summarise(log, array("q", [0, 0]), array("q", [20 * S, 200 * S]))
    assert figures["mean_bounded_slowdown"] == 2.0
    assert (figures["mean_response_s"], figures["max_response_s"]) == (110.0, 200.0)


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "log.swf"
    log = workload((0, 1000, 4), *((n, 5, 2) for n in range(10, 300, 10)))
    with path.open("w") as stream:
        write_swf(log, stream, [])
    return str(path)


def test_command_prints_a_row_for_each_machine(trace):
    result = CliRunner().invoke(cosched, ["sim", "share", trace, "--dom", "2"])
    assert result.exit_code == 0, result.output
    assert "easy, 1 a node" in result.output
    assert "shared: slowdown better" in result.output
    assert "no memory figures" in result.output
    assert max(map(len, result.output.splitlines())) <= 80


def test_command_writes_json(trace):
    result = CliRunner().invoke(
        cosched, ["sim", "share", trace, "--short", "1h,10m", "--first", "9", "--json"]
    )
    first, shared = json.loads(result.stdout)["runs"]
    assert (first["dom"], shared["dom"], shared["jobs"]) == (1, 3, 9)
    assert shared["short_s"] == [3600.0, 600.0]


def test_first_jobs_count_also_if_they_came_at_once(tmp_path):
    path = tmp_path / "log.swf"
    with path.open("w") as stream:
        write_swf(workload(*[(0, 10, 1)] * 9), stream, [])
    for jobs in (2, 9, 20):
        result = CliRunner().invoke(
            cosched, ["sim", "share", str(path), "--first", str(jobs), "--json"]
        )
        assert result.exit_code == 0, result.output
        assert {run["jobs"] for run in json.loads(result.stdout)["runs"]} == {min(jobs, 9)}


def test_number_of_short_times_must_fit(trace):
    result = CliRunner().invoke(cosched, ["sim", "share", trace, "--short", "1h"])
    assert result.exit_code != 0
    assert "--dom 3 needs 2 times" in str(result.exception) + result.output
