"""The part of the CPU time that a job needs, and work in the waits of others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.node.knowledge import Expectation
from cosched.core.node.messages import SliceEnded, TaskExited, WaitsRead
from cosched.core.node.need import LEAST_PERCENT, STEPS_PERCENT, need_percent, parts, waits
from cosched.core.node.settings import USUAL
from cosched.core.units import NS_PER_S
from tests.unit.core.machine_node import Node

S = NS_PER_S


class Waiting(Node):
    """A node with jobs, and how long each has waited."""

    def __init__(self, **expected_s):
        super().__init__(USUAL, now_ns=20 * S)
        self.waited_s = dict.fromkeys(expected_s, 0.0)
        for number, (job, length_s) in enumerate(expected_s.items()):
            lengths_ns = (round(length_s * S),) if length_s else ()
            expectation = Expectation(number + 1, lengths_ns)
            submitted_ns = self.now_ns + number
            self.register(job, expectation=expectation, submitted_ns=submitted_ns)
        self.read()

    def read(self, after_s=0.0, **waited_s):
        """Lets each job wait in this time, reports it, and ends the slice."""
        for job, seconds in waited_s.items():
            self.waited_s[job] += seconds
        read = tuple((job, round(s * S)) for job, s in self.waited_s.items())
        self.send(WaitsRead, after_ns=round(after_s * S), waited_ns=read)
        self.send(SliceEnded)

    def need(self, key):
        return self.machine.jobs[key].need


def test_need_is_the_part_of_own_slices_without_waits():
    node = Waiting(first=5, second=10)
    for _ in range(20):
        node.read(0.1, first=0.06, second=0.1)
    assert node.need("first") == 40
    assert node.need("second") == 0, "it had no slice"


def test_need_of_a_job_alone_is_measured():
    node = Waiting(alone=5)
    node.read(1, alone=0.2)
    assert node.need("alone") == 90, "halfway from all to 80"


def test_mixed_times_are_not_measured():
    node = Waiting(first=5, second=10)
    node.read(0.5)
    node.send(TaskExited, after_ns=S, job="first", task=ord("f"))
    node.waited_s.pop("first")
    node.read(1, second=1)
    assert node.need("second") == 0
    node.read(1, second=0.4)
    assert node.need("second") == 80


def test_a_job_that_waits_comes_before_one_that_computes_in_its_waits():
    node = Waiting(computes=9, waits=20)
    node.read(1)
    assert node.running == {"computes"}, "nothing is known of the other one"
    node.machine.jobs["waits"].need = 30
    node.read(1)
    assert node.running == {"waits"}, "an eighth of 20 s is less than 4/5 of 7 s"
    node.read(1)
    assert node.running == {"computes"}, "it does not wait any more"


def test_like_jobs_share_a_need():
    node = Waiting(first=5)
    node.register("like", expectation=Expectation(1, (5 * S,)))
    node.register("other", expectation=Expectation(2, (9 * S,)))
    node.register("foreign", user=7, expectation=Expectation(1, (9 * S,)))
    node.read(1, first=1)
    needs = [node.need(key) for key in ("first", "like", "other", "foreign")]
    assert needs == [62, 62, 0, 0]


def test_need_is_remembered_for_the_next_job_of_its_kind():
    node = Waiting(first=5)
    node.read(1, first=1)
    node.send(TaskExited, job="first", task=ord("f"))
    node.register("again", expectation=Expectation(1, (5 * S,)))
    node.register("other", expectation=Expectation(7, (5 * S,)))
    node.register("foreign", user=7, expectation=Expectation(1, (5 * S,)))
    assert [node.need(key) for key in ("again", "other", "foreign")] == [62, 0, 0]


def test_a_need_rises_at_once_and_falls_slowly():
    assert need_percent(30, 90, 100) == 90
    assert need_percent(90, 30, 100) == 60
    assert need_percent(0, 30, 100) == 65


@given(st.integers(1, 100), st.integers(0, 1000))
def test_a_need_falls_to_what_is_measured(before, used):
    need = before
    for _ in range(100):
        need = need_percent(need, used, 1000)
    assert need == max(LEAST_PERCENT, used // 10)


@pytest.mark.parametrize(
    ("percent", "number"), [(0, 1), (100, 1), (71, 1), (70, 2), (50, 4), (36, 4), (25, 8)]
)
def test_parts(percent, number):
    assert parts(percent) == number
    assert waits(percent) == (number > 1)


@given(st.integers(1, 99))
def test_parts_never_grow_with_the_need(percent):
    assert 1 << len(STEPS_PERCENT) >= parts(percent) >= parts(percent + 1) >= 1
