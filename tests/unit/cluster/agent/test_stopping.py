"""A node stops all worlds of a suspended job before it answers."""

import pytest

from cosched.cluster.agent import stopping
from cosched.cluster.agent.stopping import Stops
from cosched.cluster.suspend_messages import (
    ContinueTasks,
    SuspendTasks,
    TasksContinued,
    TasksSuspended,
)
from cosched.linux.memory import MachineMemory

START = (7, 1)


class World:
    """A world whose steward is played. stopped: the orders that it got."""

    def __init__(self, number, has_tasks=True):
        self.identity = (*START, number)
        self.stopped = []
        self.has_tasks = has_tasks

    def stop_tasks(self, *, stopped):
        self.stopped.append(stopped)
        return self.has_tasks


@pytest.fixture
def worlds():
    return [World(0), World(1)]


@pytest.fixture
def sent():
    return []


@pytest.fixture
def lent():
    """The starts whose slots others may have, as they were lent."""
    return []


@pytest.fixture
def stops(worlds, sent, lent):
    def take_back(start):
        while start in lent:
            lent.remove(start)

    def worlds_of(start):
        return worlds if start == START else []

    return Stops(worlds_of, sent.append, lent.append, take_back)


def test_slots_are_lent_while_all_tasks_stand_still(stops, worlds, lent):
    stops.take(SuspendTasks(*START, 1))
    stops.reported(worlds[1], "", stopped=True)
    assert not lent
    stops.reported(worlds[0], "", stopped=True)
    assert lent == [START]
    stops.take(ContinueTasks(*START, 1))
    assert not lent


def test_slots_of_tasks_that_may_run_on_are_not_lent(stops, worlds, lent):
    stops.take(SuspendTasks(*START, 1))
    stops.reported(worlds[0], "process 8 does not stop", stopped=True)
    stops.reported(worlds[1], "", stopped=True)
    assert not lent


def test_node_answers_when_all_worlds_stand_still(stops, worlds, sent):
    stops.take(SuspendTasks(*START, 1))
    stops.reported(worlds[1], "", stopped=True)
    assert not sent
    stops.reported(worlds[0], "", stopped=True)
    assert sent == [TasksSuspended(*START, 1)]
    assert stops.are_stopped(START)
    stops.take(ContinueTasks(*START, 1))
    for world in worlds:
        stops.reported(world, "", stopped=False)
    assert sent[1:] == [TasksContinued(*START, 1)]
    assert not stops.are_stopped(START)
    assert worlds[0].stopped == [True, False]


def test_order_that_comes_twice_is_answered_twice(stops, worlds, sent):
    for _ in range(2):
        stops.take(SuspendTasks(*START, 1))
        for world in worlds:
            stops.reported(world, "", stopped=True)
    assert sent == [TasksSuspended(*START, 1)] * 2


def test_first_problem_is_reported(stops, worlds, sent):
    stops.take(SuspendTasks(*START, 1))
    stops.reported(worlds[0], "process 8 does not stop", stopped=True)
    stops.reported(worlds[1], "", stopped=True)
    assert sent == [TasksSuspended(*START, 1, "process 8 does not stop")]


def test_late_report_of_an_earlier_order_does_not_count(stops, worlds, sent):
    stops.take(SuspendTasks(*START, 1))
    stops.take(ContinueTasks(*START, 1))
    for world in worlds:
        stops.reported(world, "", stopped=True)
    assert not sent


def test_world_that_ends_is_not_awaited(stops, worlds, sent):
    stops.take(SuspendTasks(*START, 1))
    stops.reported(worlds[0], "", stopped=True)
    stops.world_ended(worlds[1], last=False)
    assert sent == [TasksSuspended(*START, 1)]
    stops.world_ended(worlds[0], last=True)
    assert not stops.are_stopped(START)
    assert len(sent) == 1


def test_node_without_tasks_answers_at_once(stops, worlds, sent):
    worlds[:] = [World(0, has_tasks=False)]
    stops.take(SuspendTasks(*START, 1))
    assert sent == [TasksSuspended(*START, 1)]


def test_node_refuses_jobs_whose_memory_does_not_fit(stops, worlds, sent, monkeypatch):
    monkeypatch.setattr(stopping, "machine_memory", lambda: MachineMemory(4 << 20, 0, 0))
    stops.take(SuspendTasks(*START, 1, 5 << 20))
    assert sent[0].problem == "both jobs need 5 MiB of memory; it has 4 MiB"
    assert worlds[0].stopped == []
    stops.take(SuspendTasks(*START, 1, 4 << 20))
    assert worlds[0].stopped == [True]


def test_node_whose_memory_is_unknown_refuses_none(stops, worlds, monkeypatch):
    monkeypatch.setattr(stopping, "machine_memory", lambda: MachineMemory(0, 0, 0))
    stops.take(SuspendTasks(*START, 1, 5 << 20))
    assert worlds[0].stopped == [True]
