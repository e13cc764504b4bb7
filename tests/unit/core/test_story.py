"""The story of a job's switches and refusals, from real steps of a machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.node.knowledge import Expectation
from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import (
    AlarmRang,
    Cause,
    MessageTrapped,
    Mode,
    ModeChosen,
    PublishStatus,
    RefuseRequest,
    ShutdownRequested,
    SliceEnded,
    TaskExited,
    TaskRegistered,
    TurnGiven,
)
from cosched.core.node.settings import Settings
from cosched.core.trace.story import ENDED, notes_about
from cosched.core.trace.task_tracker import TaskTracker
from cosched.core.units import NS_PER_MS, NS_PER_S
from cosched.observe.why.reasons import Explainer, explain_all
from tests.unit.core.trace_histories import CHOICES, JOBS, SETTINGS, run_choices

RANKS = {11: 0, 21: 3}
NAMES = {"0.a": "a", "0.b": "b", "0.c": "c"}
EXPLAINERS = {key: Explainer(RANKS.get, NAMES.__getitem__, key) for key in NAMES}


class Node:
    """A machine on one CPU and its steps."""

    def __init__(self, **settings):
        values = {"slice_ns": NS_PER_S, "gmet_ns": 100 * NS_PER_MS, "align": False}
        self.machine = NodeScheduler(Settings(**{**values, **settings}))
        self.now_ns = NS_PER_S
        self.steps = []

    def send(self, kind, after_ms=0, **fields):
        self.now_ns += after_ms * NS_PER_MS
        event = kind(now_ns=self.now_ns, wall_ns=self.now_ns, **fields)
        self.steps.append((event, self.machine.handle(event)))

    def register(self, job, task, cpus=(0,), after_ms=0, **fields):
        cpus = frozenset(cpus)
        self.send(TaskRegistered, after_ms, job=job, task=task, cpus=cpus, **fields)

    def trap(self, job, task, after_ms=0):
        epoch = self.machine.jobs[job].epoch
        self.send(MessageTrapped, after_ms, job=job, task=task, epoch=epoch)

    def last(self, job):
        told = explain_all(EXPLAINERS[job], list(notes_about(job, self.steps)))
        return told[-1].text


@pytest.fixture
def node():
    node = Node()
    node.register("0.a", 11)
    node.register("0.b", 21)
    return node


def test_story_of_newcomers(node):
    assert node.last("0.a") == "scheduled: it is new, and nothing keeps it from running"
    assert node.last("0.b") == "new; it waits for its turn"


def test_story_of_a_slice_end(node):
    node.send(SliceEnded, 1000)
    assert node.last("0.b") == "scheduled: its turn; the slice of a was over"
    assert node.last("0.a") == "its slice was over; now b"


def test_story_of_a_pull_names_the_trapping_rank(node):
    node.trap("0.b", 21, after_ms=500)
    assert node.last("0.b") == (
        "scheduled: rank 3 trapped a message of a peer that runs; a gave way"
    )
    assert node.last("0.a") == "displaced by b: rank 3 trapped a message there; now b"


def test_story_of_a_gmet_refusal_has_the_time_left(node):
    node.send(SliceEnded, 1000)
    node.trap("0.a", 11, after_ms=40)
    assert node.last("0.a") == (
        "refused, rank 0 trapped a message: b had 0.06 s of its guaranteed time left"
    )
    node.send(AlarmRang, 60)
    assert node.last("0.a") == ("may ask again: the guaranteed time of what runs is over")


def test_story_of_precedence_names_the_first_job(node):
    node.trap("0.b", 21, after_ms=40)
    assert node.last("0.b") == (
        "refused, rank 3 trapped a message: a comes first and keeps its CPUs for another "
        "0.46 s"
    )


def test_story_of_a_newcomer_that_was_submitted_first():
    node = Node()
    node.register("0.b", 21)
    node.register("0.a", 11)  # at the same time, so far as is known: names decide
    assert node.last("0.a") == "scheduled: it is new, and was submitted before b"
    assert node.last("0.b") == "tasks came, and it no longer fits beside them; now a"


def test_story_of_an_ahead_refusal_names_the_waiting_job():
    node = Node(gmet_ns=0)
    node.register("0.a", 11)
    node.send(SliceEnded, 5000)
    node.register("0.b", 21)
    node.register("0.c", 31)
    node.send(TurnGiven, job="0.b")
    node.send(TurnGiven, 4000, job="0.c")
    node.trap("0.b", 21)
    assert node.last("0.b") == (
        "refused, rank 3 trapped a message: it has had 4.00 s more CPU time than a, which "
        "waits too"
    )


def ordered_node(*lengths_s):
    """A node that orders jobs by what is left of them, with jobs a, b, ... Each is expected
    to run as long as said; None: nothing is known."""
    node = Node(slice_auto=True)
    for number, length_s in enumerate(lengths_s):
        known = () if length_s is None else (length_s * NS_PER_S,)
        expectation = Expectation(number + 1, known)
        key, task = JOBS[number], 11 + 10 * number
        node.register(key, task, expectation=expectation, after_ms=400)
    return node


def test_story_of_a_newcomer_with_less_left():
    node = ordered_node(60, 2)
    assert node.last("0.b") == (
        "scheduled: it is new: about 2.0 s left, of 2.0 s expected; a gave way: about 60 s "
        "left, of 60 s expected"
    )
    assert node.last("0.a") == (
        "displaced: about 60 s left, of 60 s expected; now b: about 2.0 s left, of 2.0 s "
        "expected"
    )


def test_story_of_a_job_that_comes_first_at_a_look():
    node = ordered_node(3, 8)
    assert node.last("0.b") == "new; it waits for its turn"
    node.send(SliceEnded, 9000)
    assert node.last("0.b") == (
        "scheduled: about 8.0 s left, of 8.0 s expected; a gave way: it has outlived its "
        "expectation of 3.0 s by 6.4 s and may take 13 s more"
    )


def test_story_of_a_guaranteed_part():
    node = ordered_node(60, 100)
    for _ in range(29):
        node.send(SliceEnded, 1000)
    assert node.last("0.b") == (
        "scheduled: it must get its guaranteed part of the time; a gave way: about 34 s "
        "left, of 60 s expected"
    )


def test_story_of_an_unknown_length():
    node = ordered_node(None, 1)
    node.send(SliceEnded, 900)
    assert node.last("0.a") == (
        "displaced: it has run for 1.3 s and may take 2.0 s more; now b: about 1.0 s left, "
        "of 1.0 s expected"
    )


def test_message_and_owner_are_named_instead_of_the_order():
    node = ordered_node(60, 70)
    node.trap("0.b", 21, after_ms=20_000)
    assert "rank 3 trapped a message of a peer" in node.last("0.b")
    assert node.last("0.a") == "displaced by b: rank 3 trapped a message there; now b"
    node.send(ModeChosen, 10, job="0.a", mode=Mode.RAISED)
    assert node.last("0.b") == "displaced: the owner of a boosted it; now a"


def test_repeated_refusals_become_one(node):
    for _ in range(3):
        node.trap("0.b", 21, after_ms=10)
    told = explain_all(EXPLAINERS["0.b"], list(notes_about("0.b", node.steps)))
    assert [t.times for t in told] == [1, 3]
    assert "0.47 s" in told[-1].text  # the last of them


@pytest.mark.parametrize(
    ("mode", "own", "other"),
    [
        (Mode.SUSPENDED, "its owner suspended it", "what it waited for ended or shrank"),
        (Mode.RELEASED, "its owner detached it", "what it waited for ended or shrank"),
    ],
)
def test_story_of_owners_choices(node, mode, own, other):
    node.send(ModeChosen, 10, job="0.a", mode=mode)
    assert own in node.last("0.a")
    assert other in node.last("0.b")
    node.send(ModeChosen, 10, job="0.a", mode=Mode.COSCHEDULED)
    assert "resumed" in node.last("0.a")


def test_story_of_a_raised_job(node):
    node.send(ModeChosen, 10, job="0.b", mode=Mode.RAISED)
    assert "has its CPUs alone; a gave way" in node.last("0.b")
    node.trap("0.a", 11, after_ms=500)
    assert node.last("0.a") == (
        "refused, rank 0 trapped a message: a boosted job has these CPUs alone"
    )


def test_displaced_job_names_the_raised_job(node):
    node.send(ModeChosen, 10, job="0.b", mode=Mode.RAISED)
    assert node.last("0.a") == "displaced: the owner of b boosted it; now b"


def test_displaced_job_names_a_raised_job_that_ran_beside_it():
    node = Node()
    for job, task in (("0.a", 11), ("0.b", 21)):
        node.register(job, task, cpus={0, 1})
    node.send(ModeChosen, 10, job="0.b", mode=Mode.RAISED)
    assert node.last("0.a") == "displaced: the owner of b boosted it"


def test_job_beside_a_raised_one_names_it():
    node = Node()
    node.register("0.a", 11, cpus={0, 1})
    node.register("0.a", 12, cpus={0, 1})
    node.register("0.b", 21, cpus={0})
    node.register("0.c", 31, cpus={1})
    node.send(ModeChosen, 10, job="0.b", mode=Mode.RAISED)
    assert node.last("0.c") == (
        "scheduled: it fits beside b, which its owner boosted; a gave way"
    )


def test_job_refused_as_ahead_may_ask_again_after_a_switch():
    node = Node(gmet_ns=0)
    for job, task in (("0.a", 11), ("0.b", 21), ("0.c", 31)):
        node.register(job, task)
    node.trap("0.b", 21, after_ms=5000)
    node.trap("0.a", 11, after_ms=200)
    assert "more CPU time than c" in node.last("0.a")
    node.send(SliceEnded, 1000)
    assert node.last("0.a") == "may ask again: other jobs run or wait now"


def test_story_of_an_end(node):
    node.send(TaskExited, 10, job="0.a", task=11)
    assert node.last("0.a") == "ended: its last task left"
    assert node.last("0.b") == "scheduled: what it waited for ended or shrank"


def test_story_of_the_end_of_a_released_job(node):
    """It has no class, so no command reports its end."""
    node.register("0.a", 12)
    node.send(ModeChosen, 10, job="0.a", mode=Mode.RELEASED)
    node.send(TaskExited, 10, job="0.a", task=11)
    assert node.last("0.a") == "scheduled: its owner detached it: it runs at normal shares"
    node.send(TaskExited, 10, job="0.a", task=12)
    assert node.last("0.a") == "ended: its last task left"


def test_unknown_rank_is_named_by_its_process():
    node = Node()
    node.register("0.a", 77)
    node.register("0.b", 78)
    node.trap("0.b", 78)
    assert "task 78 trapped" in node.last("0.b")


@given(SETTINGS, CHOICES, st.sampled_from(JOBS))
def test_each_change_and_refusal_has_one_note(settings, choices, job):
    steps = list(run_choices(NodeScheduler(settings), choices))
    notes = list(notes_about(job, steps))
    expected = [
        (event.now_ns, getattr(c, "scheduled", None))
        for event, commands in steps
        for c in commands
        if isinstance(c, (PublishStatus, RefuseRequest)) and c.job == job
    ]
    changes = [n for n in notes if n.why != ENDED]
    assert [(n.now_ns, n.scheduled) for n in changes] == expected
    explainer = Explainer(lambda task: None, lambda key: key, job)
    for note in notes:
        text = explainer.explain(note)
        assert "\n" not in text
        assert text not in (*Cause._value2member_map_,)  # a sentence, not a code word


@given(SETTINGS, CHOICES, st.sampled_from(JOBS), st.integers(0, 60))
def test_end_is_noted_wherever_the_steps_begin(settings, choices, job, cut):
    machine, tracker = NodeScheduler(settings), TaskTracker({})
    choices = [choice for choice in choices if choice[0] is not ShutdownRequested]
    steps, ends, had_tasks = [], [], False
    for event, commands in run_choices(machine, choices):
        steps.append((event, commands))
        if had_tasks and job not in machine.jobs and len(steps) > cut:
            ends.append(event.now_ns)
        had_tasks = job in machine.jobs
    for event, _ in steps[:cut]:
        tracker.take(event)
    notes = notes_about(job, steps[cut:], tracker.tasks_of(job))
    assert [note.now_ns for note in notes if note.why == ENDED] == ends
