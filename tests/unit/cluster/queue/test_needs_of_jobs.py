"""Jobs that need features, counts of nodes or licences besides CPUs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.nodes import numbers
from cosched.core.cluster.queue.places.cpu_board import CpuJob
from cosched.core.cluster.queue.places.cpus import Cpus
from cosched.core.cluster.queue.places.matching import NodeOffer, Request
from cosched.core.cluster.queue.places.needs import MEMORY, lacking_now
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.cluster.queue.queue_commands import StartJob
from cosched.core.cluster.queue.queue_events import (
    JobEnded,
    JobRecovered,
    JobSubmitted,
    NodeOffered,
    NodesDrained,
    NodesJoined,
    Ticked,
)
from cosched.core.errors import CoschedError

HOUR = 3600
GIB = 1 << 30
BIG = frozenset({"bigmem"})
OFFERS = (
    NodeOffer(0, {MEMORY: 8 * GIB, "gpu": 2}),
    NodeOffer(1, {MEMORY: 8 * GIB, "gpu": 0}),
    NodeOffer(2, {MEMORY: 64 * GIB, "gpu": 1}, BIG),
)


def domain(offers=OFFERS, policy="easy", licences=2):
    nodes = ((0, len(offers) - 1),)
    queue = QueueMachine(Cpus(nodes, 4, 1, {"matlab": licences}), POLICIES[policy], 10)
    for offer in offers:
        queue.handle(NodeOffered(0, offer))
    return queue


def needs(nodes=1, features=frozenset(), licences=0, **counts):
    shared = (("matlab", licences),) if licences else ()
    return Request(nodes, 1, tuple(sorted(counts.items())), features, in_domain=shared)


def submit(queue, number, request=None, nodes=1, cpus=1, walltime=HOUR, now=0):
    size = nodes * cpus
    job = CpuJob(number, size, walltime, now, nodes=nodes, cpus=cpus, needs=request)
    queue.handle(JobSubmitted(now, job))


def starts(queue, now=0):
    commands = queue.handle(Ticked(now))
    return {c.job.number: numbers(c.nodes) for c in commands if isinstance(c, StartJob)}


def test_a_job_gets_nodes_with_what_it_needs():
    queue = domain()
    submit(queue, 1, needs(features=BIG))
    submit(queue, 2, needs(gpu=2))
    submit(queue, 3, needs(memory=32 * GIB))
    assert starts(queue) == {1: [2], 2: [0], 3: [2]}


def test_jobs_do_not_share_the_memory_of_a_node():
    queue = domain(OFFERS[:1])
    for number in (1, 2):
        submit(queue, number, needs(memory=5 * GIB))
    submit(queue, 3, needs(memory=3 * GIB))
    assert starts(queue) == {1: [0], 3: [0]}
    queue.handle(JobEnded(5, 1))
    assert starts(queue, 5) == {2: [0]}


def test_a_job_without_needs_passes_one_that_waits_for_a_licence():
    queue = domain()
    submit(queue, 1, needs(licences=2), walltime=100)
    submit(queue, 2, needs(licences=1), walltime=50)
    submit(queue, 3, walltime=HOUR)
    assert starts(queue).keys() == {1, 3}
    queue.handle(JobEnded(10, 1))
    assert starts(queue, 10).keys() == {2}


def test_a_later_job_takes_no_licence_that_the_first_one_will_need():
    queue = domain()
    submit(queue, 1, needs(licences=1), walltime=100)
    submit(queue, 2, needs(licences=2), walltime=HOUR)
    submit(queue, 3, needs(licences=1), walltime=HOUR)
    submit(queue, 4, needs(licences=1), walltime=60)
    assert starts(queue).keys() == {1, 4}
    queue.handle(JobEnded(60, 4))
    queue.handle(JobEnded(60, 1))
    assert starts(queue, 60).keys() == {2}


def test_others_pass_a_job_whose_capable_nodes_are_out_of_service():
    queue = domain(policy="fcfs")
    queue.handle(NodesDrained(0, ((2, 2),)))
    submit(queue, 1, needs(features=BIG))
    submit(queue, 2)
    assert starts(queue).keys() == {2}
    queue.handle(NodesJoined(1, ((2, 2),)))
    assert starts(queue, 1) == {1: [2]}


@pytest.mark.parametrize("policy", ["fcfs", "easy"])
def test_others_pass_a_job_that_needs_more_than_a_node_turned_out_to_have(policy):
    unknown = NodeOffer(0, {MEMORY: 1 << 62})
    queue = domain((unknown,), policy)
    submit(queue, 1, needs(memory=16 * GIB))
    queue.handle(NodeOffered(1, NodeOffer(0, {MEMORY: 8 * GIB})))
    submit(queue, 2, now=1)
    assert starts(queue, 1).keys() == {2}


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (needs(2, BIG), "needs 2 nodes with bigmem, the domain has 1"),
        (needs(1, BIG, gpu=2), "needs 1 node with bigmem, gpu:2, the domain has 0"),
        (needs(memory=99 * GIB), "needs 1 node with 99.0 GiB of memory, the domain has 0"),
        (needs(licences=3), "needs matlab:3, the domain has 2"),
    ],
)
def test_a_job_that_no_node_can_run_is_refused(request_, says):
    queue = domain()
    with pytest.raises(CoschedError, match=f"^infeasible: {says}$"):
        submit(queue, 1, request_, nodes=request_.nodes)


def test_a_running_job_keeps_what_its_node_offers_no_more():
    queue = domain()
    more = needs(memory=16 * GIB, licences=2)
    job = CpuJob(7, 1, HOUR, 0, nodes=1, cpus=1, needs=more)
    queue.handle(JobRecovered(0, job, ((1, 1),), 0))
    submit(queue, 8, needs(memory=1 * GIB))
    submit(queue, 9, needs(licences=1))
    assert starts(queue) == {8: [0]}
    queue.handle(JobEnded(1, 7))
    assert starts(queue, 1).keys() == {9}


def test_a_waiting_job_names_what_it_lacks():
    queue = domain()
    submit(queue, 1, needs(features=BIG, gpu=1, licences=1))
    assert starts(queue) == {1: [2]}
    matcher, service = queue.place.board.matcher, {0, 1, 2}
    assert lacking_now(matcher, needs(gpu=2), service) is None
    gpu = needs(features=BIG, gpu=1)
    lack = lacking_now(matcher, gpu, service)
    assert lack.line == "0 nodes have bigmem, gpu:1 free, needs 1"
    assert (lack.needed, lack.free) == ("1 node with bigmem, gpu:1", 0)
    two = needs(licences=2)
    lack = lacking_now(matcher, two, service)
    assert lack == ("matlab:2", 1, "matlab: 1 of 2 free, needs 2")


REQUESTS = st.builds(
    lambda features, gpus, licences: needs(1, features, licences, gpu=gpus),
    st.sampled_from([frozenset(), BIG]),
    st.integers(0, 1),
    st.integers(0, 2),
)


@given(
    st.lists(
        st.tuples(st.none() | REQUESTS, st.integers(1, 4), st.integers(1, 50)), max_size=25
    ),
    st.sampled_from(["fcfs", "easy"]),
)
def test_each_job_runs_and_none_beyond_what_there_is(jobs, policy):
    queue = domain(policy=policy)
    for number, (request, cpus, walltime) in enumerate(jobs, 1):
        submit(queue, number, request, cpus=cpus, walltime=walltime)
    wanted = dict(enumerate(jobs, 1))
    running: dict[int, tuple[int, int]] = {}
    seen: set[int] = set()
    now = 0
    while True:
        for number, (node,) in starts(queue, now).items():
            running[number] = (node, now + wanted[number][2])
            seen.add(number)
        licences = 0
        for node in range(3):
            here = [wanted[n] for n, (at, _) in running.items() if at == node]
            requests = [request for request, _, _ in here if request is not None]
            assert sum(cpus for _, cpus, _ in here) <= 4
            assert sum(dict(each.per_task)["gpu"] for each in requests) <= (2, 0, 1)[node]
            assert all(each.features <= OFFERS[node].features for each in requests)
            licences += sum(dict(each.in_domain).get("matlab", 0) for each in requests)
        assert licences <= 2
        if not running:
            break
        now = min(end for _, end in running.values())
        for number in [n for n, (_, end) in running.items() if end == now]:
            del running[number]
            queue.handle(JobEnded(now, number))
    assert seen == set(wanted)
