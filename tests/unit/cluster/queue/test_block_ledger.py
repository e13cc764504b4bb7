"""Live jobs on aligned blocks of nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.cluster.engines.native.domain_place import place_of
from cosched.config.domain import parse_config
from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.nodes import numbers
from cosched.core.cluster.queue.places.block_ledger import BlockLedger
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.cluster.queue.queue_commands import StartJob
from cosched.core.cluster.queue.queue_events import (
    JobEnded,
    JobRecovered,
    JobSubmitted,
    NodesAdded,
    NodesDrained,
    NodesJoined,
    Ticked,
)
from cosched.core.errors import CoschedError

ALL = ((0, 7),)


def domain(unit=1, policy="easy", nodes=ALL):
    return QueueMachine(BlockLedger(nodes, unit), POLICIES[policy], 10)


def submit(queue, number, size, walltime=100, now=0):
    queue.handle(JobSubmitted(now, Job(number, size, walltime, now)))


def starts(queue, now=0):
    commands = queue.handle(Ticked(now))
    return {c.job.number: numbers(c.nodes) for c in commands if isinstance(c, StartJob)}


def test_a_job_has_the_first_nodes_of_its_block():
    queue = domain(unit=2)
    submit(queue, 1, 3)
    submit(queue, 2, 1)
    submit(queue, 3, 1)
    submit(queue, 4, 1)
    assert starts(queue) == {1: [0, 1, 2], 2: [4], 3: [6]}
    queue.handle(JobEnded(5, 1))
    ((number, (node,)),) = starts(queue, 5).items()
    assert (number, node) in {(4, 0), (4, 2)}


def test_enough_nodes_without_a_block_are_not_enough():
    queue = domain()
    for number in range(1, 9):
        submit(queue, number, 1)
    begun = starts(queue)
    for node in (1, 2, 5, 6):
        (number,) = (job for job, nodes in begun.items() if nodes == [node])
        queue.handle(JobEnded(1, number))
    submit(queue, 20, 2, now=1)
    assert starts(queue, 1) == {}


def test_a_drained_node_takes_its_unit_out_of_service():
    queue = domain(unit=2)
    queue.handle(NodesDrained(0, ((5, 5),)))
    submit(queue, 2, 4)
    submit(queue, 3, 4)
    submit(queue, 4, 2)
    assert starts(queue) == {2: [0, 1, 2, 3], 4: [6, 7]}
    queue.handle(NodesDrained(0, ((4, 4),)))
    queue.handle(NodesJoined(1, ((5, 5),)))
    queue.handle(JobEnded(2, 4))
    assert starts(queue, 2) == {}
    queue.handle(NodesJoined(3, ((4, 4),)))
    assert starts(queue, 3) == {3: [4, 5, 6, 7]}


@pytest.mark.parametrize("policy", ["fcfs", "easy"])
def test_others_pass_a_job_that_no_block_in_service_takes(policy):
    queue = domain(policy=policy)
    queue.handle(NodesDrained(0, ((1, 1), (5, 5))))
    submit(queue, 1, 4)
    submit(queue, 2, 2)
    assert starts(queue).keys() == {2}
    queue.handle(NodesJoined(1, ((1, 1),)))
    queue.handle(JobEnded(1, 2))
    assert starts(queue, 1) == {1: [0, 1, 2, 3]}


def test_a_running_job_keeps_its_block_after_a_restart():
    queue = domain()
    queue.handle(NodesDrained(0, ALL))
    queue.handle(JobRecovered(0, Job(7, 3, 100, 0), ((4, 6),), 0))
    queue.handle(NodesJoined(1, ALL))
    for number in (8, 9):
        submit(queue, number, 4, now=1)
    assert starts(queue, 1) == {8: [0, 1, 2, 3]}
    queue.handle(JobEnded(2, 7))
    assert starts(queue, 2) == {9: [4, 5, 6, 7]}


def test_restored_jobs_of_one_unit_keep_it_until_the_last_has_ended():
    queue = domain(unit=4)
    queue.handle(NodesDrained(0, ALL))
    for number, node in ((1, 0), (2, 1), (3, 6)):
        queue.handle(JobRecovered(0, Job(number, 1, 100, 0), ((node, node),), 0))
    queue.handle(NodesJoined(1, ALL))
    submit(queue, 7, 4, now=1)
    queue.handle(JobEnded(2, 1))
    assert starts(queue, 2) == {}
    queue.handle(JobEnded(3, 2))
    assert starts(queue, 3) == {7: [0, 1, 2, 3]}
    queue.handle(JobEnded(4, 3))
    assert queue.place.free == 4


def test_the_nodes_stay_the_same():
    queue = domain()
    with pytest.raises(CoschedError, match="keeps its nodes"):
        queue.handle(NodesAdded(0, ((8, 8),)))
    with pytest.raises(CoschedError, match="wants 9 nodes"):
        submit(queue, 1, 9)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(1, 8), st.integers(1, 60)),
        st.tuples(st.just("drain"), st.integers(0, 7), st.just(0)),
        st.tuples(st.just("join"), st.integers(0, 7), st.just(0)),
        st.tuples(st.just("end"), st.integers(0, 7), st.just(0)),
    ),
    max_size=40,
)


@given(STEPS, st.sampled_from([1, 2, 4]), st.sampled_from(["fcfs", "easy", "wfp"]))
def test_no_two_jobs_have_one_block_and_all_run_in_the_end(steps, unit, policy):
    queue = domain(unit, policy)
    running: dict[int, list[int]] = {}
    out: set[int] = set()
    submitted: set[int] = set()
    seen: set[int] = set()

    def pass_at(now):
        for number, nodes in starts(queue, now).items():
            units = {node // unit for node in nodes}
            assert not units & {node // unit for used in running.values() for node in used}
            assert not units & {node // unit for node in out}
            width = 1
            while width < len(nodes):
                width *= 2
            assert nodes[0] % max(width, unit) == 0
            running[number] = nodes
            seen.add(number)

    def end(number, now):
        del running[number]
        queue.handle(JobEnded(now, number))

    for now, (what, value, walltime) in enumerate(steps, 1):
        if what == "submit":
            submit(queue, now, value, walltime, now)
            submitted.add(now)
        elif what == "drain":
            queue.handle(NodesDrained(now, ((value, value),)))
            out.add(value)
        elif what == "join":
            queue.handle(NodesJoined(now, ((value, value),)))
            out.discard(value)
        elif running:
            end(sorted(running)[value % len(running)], now)
        pass_at(now)
    now = len(steps) + 1
    queue.handle(NodesJoined(now, ALL))
    out.clear()
    pass_at(now)
    while running:
        now += 1
        end(min(running), now)
        pass_at(now)
    assert seen == submitted


NODES = {f"n{number}": f"h{number}:7571" for number in range(1, 5)}


def parse(queue, **more):
    document = {"name": "d", "controller": "h:7570", "nodes": NODES, "queue": queue}
    return parse_config({**document, **more})


def test_a_domain_has_blocks_by_its_settings():
    place = place_of(parse({"block": 2}), ((0, 3),))
    assert isinstance(place, BlockLedger)
    assert [place.taken_by(size) for size in (1, 2, 3, 4)] == [2, 2, 4, 4]


@pytest.mark.parametrize(
    ("queue", "more", "says"),
    [
        ({"block": 3}, {}, "queue.block: 4 nodes are not made of blocks of 3"),
        ({"policy": "conservative"}, {}, "queue.policy: conservative does not combine"),
        ({"unit": "cpu"}, {}, "queue.unit: cpu does not combine with block = 2"),
        ({"size": "malleable"}, {}, "queue.size: malleable does not combine with block"),
        ({"jobs_per_node": 2}, {}, "queue.jobs_per_node: write 1"),
        ({}, {"most_nodes": 8}, "most_nodes: write 0"),
        ({}, {"symbiosis": {"parts": 2}}, "queue.block: does not combine with symbiosis"),
    ],
)
def test_settings_that_do_not_combine_with_blocks(queue, more, says):
    with pytest.raises(CoschedError, match=says):
        parse({"block": 2, **queue}, **more)
