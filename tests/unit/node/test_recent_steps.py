"""The last steps of a machine, kept in few bytes: nothing about a job is lost."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import MessageTrapped, TaskExited, TaskRegistered
from cosched.core.node.settings import Settings
from cosched.core.trace.codec import TaskNote, encode
from cosched.core.trace.story import notes_about
from cosched.core.trace.task_tracker import TaskTracker
from cosched.node.records import recent_steps
from cosched.node.records.recent_steps import RecentSteps
from tests.unit.core.trace_histories import CHOICES, JOBS, SETTINGS, run_choices


class Filled:
    """Some recent steps, as the recorder fills them."""

    def __init__(self):
        self.recent = RecentSteps(0)
        self.machine = NodeScheduler(Settings())
        self.tracker = TaskTracker({})
        self.now_ns = 0

    def add(self, step):
        ended = self.tracker.take(step[0])
        self.recent.add(step, encode((step,)), ends_job=ended is not None)

    def feed(self, kind, job, task, **more):
        self.now_ns += 1000
        when = {"now_ns": self.now_ns, "wall_ns": self.now_ns}
        event = kind(**when, job=job, task=task, **more)
        self.add((event, tuple(self.machine.handle(event))))

    def come(self, job, task, rank=0, **more):
        self.recent.introduce(TaskNote(job, task, job, 0, rank, 4, "none"))
        self.feed(TaskRegistered, job, task, cpus=frozenset({0}), **more)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(recent_steps, "RECENT", 20)
    monkeypatch.setattr(recent_steps, "BLOCK_BYTES", 3000)


@given(SETTINGS, CHOICES, st.sampled_from(JOBS), st.integers(0, 40))
def test_notes_are_those_of_all_last_steps(settings, choices, job, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recent_steps, "RECENT", 20)
        patch.setattr(recent_steps, "BLOCK_BYTES", 3000)
        filled, steps = Filled(), list(run_choices(NodeScheduler(settings), choices))
        for step in steps:
            filled.add(step)
    notes = list(notes_about(job, steps))
    began_ns = filled.recent.began_wall_ns
    expected = [note for note in notes if note.wall_ns >= began_ns]
    found = filled.recent.notes_about(job, began_ns, 1000)
    assert found[-len(expected) :] == expected or not expected
    assert [note for note in found if note.wall_ns > began_ns] == [
        note for note in notes if note.wall_ns > began_ns
    ]
    assert (
        filled.recent.notes_about(job, began_ns, most) == found[max(0, len(found) - most) :]
    )
    assert len([None for event, _ in steps if event.wall_ns >= began_ns]) >= min(
        20, len(steps)
    )


def test_old_steps_are_dropped_and_the_rest_has_a_beginning(small):
    filled = Filled()
    filled.come("0.a", 1)
    for _ in range(200):
        filled.feed(MessageTrapped, "0.a", 1, epoch=0)
    began_ns = filled.recent.began_wall_ns
    assert 150_000 < began_ns < filled.now_ns - 19_000
    notes = filled.recent.notes_about("0.a", 0, 1000)
    assert [note.wall_ns for note in notes] == list(
        range(began_ns, filled.now_ns + 1, 1000)
    )
    assert filled.recent.notes_about("0.a", filled.now_ns - 500, 1000) == notes[-1:]
    assert filled.recent.notes_about("0.a", 0, 5) == notes[-5:]
    assert filled.recent.notes_about("0.b", 0, 5) == []


def test_ranks_last_as_long_as_the_steps_of_their_tasks(small):
    filled = Filled()
    filled.come("0.a", 1, rank=7)
    filled.come("0.b", 2, rank=5)
    for _ in range(100):
        filled.feed(MessageTrapped, "0.a", 1, epoch=0)
    filled.come("0.a", 3, rank=7, replaces=1)
    asked = {("0.a", 1), ("0.a", 3), ("0.b", 2), ("0.b", 1)}
    ranks = {1: 7, 2: 5, 3: 7}
    assert filled.recent.ranks_of(asked) == ranks
    filled.feed(TaskExited, "0.a", 3)
    filled.feed(TaskExited, "0.b", 2)
    assert filled.recent.ranks_of(asked) == ranks
    assert filled.recent.ranks_of({("0.b", 1)}) == {}
    for _ in range(100):
        filled.feed(MessageTrapped, "0.a", 3, epoch=0)
    assert filled.recent.ranks_of(asked) == {}


def test_memory_does_not_grow_after_a_thousand_jobs():
    filled = Filled()
    tracemalloc.start()
    try:
        kept = []
        for count in (1000, 3000):
            for number in range(count):
                job = f"1000.job-{count}-{number}"
                filled.come(job, number + 1)
                filled.feed(TaskExited, job, number + 1)
            kept.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert kept[1] - kept[0] < 400_000
