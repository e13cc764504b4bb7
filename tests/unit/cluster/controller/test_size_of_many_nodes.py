"""The size of a job of many nodes: each step costs about as much as the job has nodes."""

from __future__ import annotations

from cosched.cluster.job_size import JobSize, OpenChange

NODES, MORE = 400, 40


class Place(int):
    """A place that counts how often it is compared with another one."""

    compared = 0

    def __eq__(self, other):
        Place.compared += 1
        return int(self) == int(other)

    def __lt__(self, other):
        Place.compared += 1
        return int(self) < int(other)

    __hash__ = int.__hash__


def test_places_that_leave_and_come_are_found_without_comparing_all_pairs():
    places = [Place(at) for at in range(NODES + MORE)]
    size = JobSize((tuple(places[:NODES]),))
    change = OpenChange(1, 0, None, tuple(Place(at) for at in range(1, NODES + MORE)), "")
    size = size.ordered(change)
    Place.compared = 0
    assert size.leaving == (0,)
    assert size.arriving == tuple(range(NODES, NODES + MORE))
    assert size.done(2, 1).places == tuple(range(1, NODES + MORE))
    assert Place.compared < 20 * NODES
