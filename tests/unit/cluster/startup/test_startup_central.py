"""The old design of the central manager beside the new one, and the job objects of both."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.experiments.startup.managers import CentralManager, PartitionedManager
from benchmarks.experiments.startup.placement import (
    ENTRY,
    Placement,
    Submission,
    encode_central,
    node_table,
)
from cosched.core.cluster.queue.nodes import count, from_numbers
from cosched.core.cluster.queue.places.matching import NodeOffer, Request
from cosched.core.cluster.startup.assignment import Inventory, Units
from cosched.core.cluster.startup.jobobject import (
    COUNT_BYTES,
    decode_object,
    encode_object,
)
from cosched.core.cluster.startup.seal import PROOF_BYTES, seal
from cosched.core.errors import CoschedError
from cosched.sim.startup.model import StartupRun

UNITS = {"cores": Units(tuple(range(16))), "windows": Units(tuple(range(100, 132)))}
NEEDS = (("cores", 1), ("windows", 2))


def submission(number, nodes, tasks, needs=NEEDS, **changes):
    return Submission(
        number,
        uid=1000,
        gid=100,
        argv=("./app", "-v"),
        environ={"PATH": "/usr/bin"},
        cwd="/home/u",
        request=Request(nodes, tasks, needs, **changes),
    )


class Both:
    """The same nodes under both managers, and the agents of the new design."""

    def __init__(self, nodes=6):
        self.old, self.new = CentralManager(), PartitionedManager()
        self.agents = [Inventory(UNITS) for _ in range(nodes)]
        for number, agent in enumerate(self.agents):
            self.old.join(number, f"n{number}", UNITS)
            self.new.join(number, NodeOffer(f"n{number}", agent.totals))

    def place(self, job):
        return self.old.place(job), self.new.place(job)


STEPS = st.lists(
    st.tuples(st.integers(1, 6), st.integers(1, 8), st.booleans(), st.booleans()),
    max_size=12,
)


@given(STEPS)
def test_central_manager_assigns_as_the_agents_do(steps):
    both = Both()
    running = []
    for number, (nodes, tasks, exclusive, ends) in enumerate(steps):
        if ends and running:
            gone = running.pop(0)
            both.old.release(gone.job.number)
            both.new.release(gone.job.number)
            for node in nodes_of(gone):
                both.agents[node].release(gone.job.number)
        made, counted = both.place(submission(number, nodes, tasks, exclusive=exclusive))
        if counted is None:
            assert made is None
            continue
        assert made.job == counted.object()
        running.append(counted)
        for place, node in enumerate(nodes_of(counted)):
            own = both.agents[node].assign(number, tasks, dict(NEEDS))
            assert made.assignment(place) == own
            windows = [task["windows"][0] for task in own]
            size = ENTRY.size * tasks
            whole = made.table[place * size : (place + 1) * size]
            assert node_table(counted, place, windows) == whole


def nodes_of(placed):
    return [placed.node_at(place) for place in range(count(placed.nodes))]


@pytest.mark.parametrize("manager", ["old", "new"])
def test_infeasible_is_not_the_same_as_busy(manager):
    tried = getattr(Both(), manager)
    assert tried.place(submission(1, 6, 8)) is not None
    assert tried.place(submission(2, 6, 16)) is None
    with pytest.raises(CoschedError, match="job 3: needs 7 capable nodes; there are 6"):
        tried.place(submission(3, 7, 1))
    with pytest.raises(CoschedError, match="there are 0"):
        tried.place(submission(4, 1, 1, (("gpus", 1),)))


def test_job_without_windows_has_no_network_table():
    made, _ = Both().place(submission(1, 3, 2, (("cores", 1), ("windows", 0))))
    assert made.table == b""
    assert made.assignment(2) == ({"cores": (0,)}, {"cores": (1,)})


def test_network_table_has_25_bytes_a_task():
    made, _ = Both().place(submission(7, 3, 4))
    assert ENTRY.size == 25
    ranks = [ENTRY.unpack_from(made.table, at) for at in range(0, len(made.table), 25)]
    assert [entry[0] for entry in ranks] == list(range(12))
    assert ranks[5] == (5, 1, 0, 102, 1, 7 << 32 | 5)


def test_part_of_the_old_object_has_the_units_of_a_subtree():
    made, _ = Both().place(submission(1, 6, 2))
    left, right = made.part(1), made.part(2)
    assert list(left.units) == [1, 3, 4]
    assert list(right.units) == [2, 5]
    assert list(left.part(4).units) == [4]
    assert left.table == right.table == made.table
    assert left.assignment(4) == made.assignment(4)
    assert len(encode_central(left)) < len(encode_central(made))


def sent(nodes, tasks):
    """Returns the bytes of a job object as a live controller sends it."""
    placed = Placement(submission(1, nodes, tasks), ((0, nodes - 1),), 2)
    return seal(encode_object(placed.object()), placed.tied, [bytes(32)] * nodes)


@pytest.mark.parametrize("nodes", [2, 31, 496, 16384])
def test_object_has_a_count_and_a_proof_for_each_node(nodes):
    """The emulator's objects have the size of live ones (``cosched.sim.startup``)."""
    sizes = {tasks: len(sent(nodes, tasks)) for tasks in (1, 32, 127)}
    assert len({*sizes.values()}) == 1
    grown = sizes[1] - len(sent(1, 1))
    each = COUNT_BYTES + PROOF_BYTES
    emulated = StartupRun("pipelined", nodes, 1).object_of(0)
    assert emulated - StartupRun("pipelined", 1, 1).object_of(0) == (nodes - 1) * each
    headers = 16  # MessagePack's lengths of the longer parts
    assert 0 <= grown - (nodes - 1) * each <= headers


def test_objects_survive_their_encoding():
    _, new = Both().place(submission(1, 4, 3))
    made = encode_object(new.object())
    assert decode_object(made) == new.object()
    for damaged in (b"\xc1", made[:-3]):
        with pytest.raises(CoschedError, match="not a job object"):
            decode_object(damaged)


@given(st.sets(st.integers(0, 60)))
def test_places_are_the_nodes_in_ascending_order(numbers):
    nodes = from_numbers(numbers)
    assert all(one[1] + 1 < other[0] for one, other in pairwise(nodes))
    job = Placement(submission(1, max(1, len(numbers)), 1), nodes, 2)
    for place, node in enumerate(sorted(numbers)):
        assert job.node_at(place) == node
        assert job.place_of(node) == place
    with pytest.raises(CoschedError, match="has no node"):
        job.node_at(len(numbers))
    with pytest.raises(CoschedError, match="does not have node 99"):
        job.place_of(99)
    if numbers:
        assert job.tree.size == len(numbers)
