"""The old design of the central manager beside the new one, and the job objects of both."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.cluster.queue.nodes import count, from_numbers
from cosched.core.cluster.startup.assignment import Inventory, Units
from cosched.core.cluster.startup.central import CentralManager, PartitionedManager
from cosched.core.cluster.startup.jobobject import (
    ENTRY,
    CentralObject,
    JobObject,
    Submission,
    decode_object,
    encode_object,
    job_object,
    node_table,
)
from cosched.core.cluster.startup.matching import NodeOffer, Request
from cosched.core.errors import CoschedError

UNITS = {"cores": Units(tuple(range(16))), "windows": Units(tuple(range(100, 132)))}
NEEDS = (("cores", 1), ("windows", 2))


def submission(number, nodes, tasks, needs=NEEDS, **changes):
    return Submission(
        number,
        uid=1000,
        gid=100,
        groups=(100, 101),
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
            both.old.release(gone.number)
            both.new.release(gone.number)
            for node in nodes_of(gone):
                both.agents[node].release(gone.number)
        made, counted = both.place(submission(number, nodes, tasks, exclusive=exclusive))
        if counted is None:
            assert made is None
            continue
        assert made.job == counted
        running.append(counted)
        for place, node in enumerate(nodes_of(counted)):
            own = both.agents[node].assign(number, tasks, dict(NEEDS))
            assert made.assignment(place) == own
            windows = [task["windows"][0] for task in own]
            size = ENTRY.size * tasks
            whole = made.table[place * size : (place + 1) * size]
            assert node_table(counted, place, windows) == whole


def nodes_of(job):
    return [job.node_at(place) for place in range(count(job.nodes))]


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
    assert len(encode_object(left)) < len(encode_object(made))


def test_new_object_does_not_grow():
    sizes = set()
    for nodes, tasks in ((1, 1), (6, 1), (6, 8)):
        _, job = Both().place(submission(1, nodes, tasks, (("cores", 1),)))
        sizes.add(len(encode_object(job)))
    assert len(sizes) == 1


@pytest.mark.parametrize("which", [0, 1])
def test_objects_survive_their_encoding(which):
    made = Both().place(submission(1, 4, 3))[which]
    kind = (CentralObject, JobObject)[which]
    assert decode_object(encode_object(made), kind) == made
    with pytest.raises(CoschedError, match="not a job object"):
        decode_object(b"\xc1", kind)
    with pytest.raises(CoschedError, match="not a job object"):
        decode_object(encode_object(made)[:-3], kind)


@given(st.sets(st.integers(0, 60)))
def test_places_are_the_nodes_in_ascending_order(numbers):
    nodes = from_numbers(numbers)
    assert all(one[1] + 1 < other[0] for one, other in pairwise(nodes))
    job = job_object(submission(1, max(1, len(numbers)), 1), nodes, 2)
    for place, node in enumerate(sorted(numbers)):
        assert job.node_at(place) == node
        assert job.place_of(node) == place
    with pytest.raises(CoschedError, match="has no node"):
        job.node_at(len(numbers))
    with pytest.raises(CoschedError, match="does not have node 99"):
        job.place_of(99)
    if numbers:
        assert job.tree.size == len(numbers)
