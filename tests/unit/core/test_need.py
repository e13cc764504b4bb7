"""The part of the CPU time that a job needs, and work in the waits of others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.node.knowledge import Expectation
from cosched.core.node.messages import CpuTimeRead, SliceEnded, TaskExited
from cosched.core.node.need import HALF_PERCENT, PARTS_MOST, need_percent, parts
from cosched.core.node.settings import USUAL
from cosched.core.units import NS_PER_S
from tests.unit.core.machine_node import Node

S = NS_PER_S


class Competing(Node):
    """A node whose jobs compete, and the CPU time that each has had."""

    def __init__(self, **expected_s):
        super().__init__(USUAL, now_ns=20 * S)
        self.cpu_s = dict.fromkeys(expected_s, 0.0)
        for number, (job, length_s) in enumerate(expected_s.items()):
            lengths_ns = (round(length_s * S),) if length_s else ()
            expectation = Expectation(number + 1, lengths_ns)
            submitted_ns = self.now_ns + number
            self.register(job, expectation=expectation, submitted_ns=submitted_ns)
        self.use()

    def use(self, after_s=0.0, **used_s):
        """Lets each job use CPU time in this time, and ends the slice."""
        for job, seconds in used_s.items():
            self.cpu_s[job] += seconds
        read = tuple((job, round(s * S)) for job, s in self.cpu_s.items())
        self.send(CpuTimeRead, after_ns=round(after_s * S), cpu_ns=read)
        self.send(SliceEnded)

    def job(self, key):
        return self.machine.jobs[key]


def test_a_job_that_waits_comes_before_one_that_computes_in_its_waits():
    node = Competing(computes=9, waits=20)
    assert node.running == {"computes"}
    node.use(1, computes=1)
    assert node.running == {"computes"}, "nothing is known of the other one"
    node.job("waits").need = 30
    node.use(1, computes=1)
    assert node.running == {"waits"}, "a quarter of 20 s is less than 4/5 of 7 s"
    node.use(1, waits=0.9, computes=0.1)
    assert node.running == {"computes"}, "it does not wait any more"


def test_need_is_the_cpu_time_of_own_slices():
    node = Competing(waits=5, computes=10)
    node.use(1, waits=0.3, computes=0.7)
    assert node.job("waits").need == 30
    assert node.job("computes").need == 0, "it had no slice"


def test_work_in_the_waits_of_others_counts_as_age():
    node = Competing(waits=5, computes=10)
    node.use(1, waits=0.3, computes=0.7)
    assert node.job("computes").age_ns(node.now_ns) == round(0.7 * S)
    assert node.job("waits").age_ns(node.now_ns) == S


def test_work_of_a_job_that_waits_counts_at_its_need():
    node = Competing(waits=5, other=10)
    node.job("other").need = 25
    node.use(1, waits=0.3, other=0.2)
    assert node.job("other").age_ns(node.now_ns) == round(0.8 * S)


def test_a_mixed_time_credits_what_its_slice_does_not_explain():
    node = Competing(first=5, second=10)
    node.use(0.5, first=0.5)
    node.send(TaskExited, job="first", task=ord("f"))
    node.register("third", expectation=Expectation(8, (20 * S,)))
    assert node.running == {"second"}
    node.use(1, second=1)
    assert node.job("second").age_ns(node.now_ns) == S


def test_a_job_alone_has_no_need():
    node = Competing(alone=5)
    node.use(1, alone=0.1)
    assert node.job("alone").need == 0


def test_a_time_without_others_is_not_measured():
    node = Competing(first=5, second=10)
    node.use(1, first=1)
    node.send(TaskExited, job="second", task=ord("s"))
    node.send(CpuTimeRead, after_ns=S, cpu_ns=(("first", S),))
    node.register("third", expectation=Expectation(8, (20 * S,)), after_ns=S)
    node.cpu_s["first"] = 2
    node.cpu_s.pop("second")
    node.use(0)
    node.use(1, first=1)
    assert node.job("first").need == 100


def test_need_is_remembered_for_the_next_job_of_its_kind():
    node = Competing(waits=5, computes=10)
    node.use(1, waits=0.2, computes=0.8)
    node.send(TaskExited, job="waits", task=ord("w"))
    node.register("again", expectation=Expectation(1, (5 * S,)))
    node.register("other", expectation=Expectation(7, (5 * S,)))
    node.register("foreign", user=7, expectation=Expectation(1, (5 * S,)))
    assert [node.job(key).need for key in ("again", "other", "foreign")] == [20, 0, 0]


def test_a_need_rises_at_once_and_falls_slowly():
    assert need_percent(30, 90, 100) == 90
    assert need_percent(90, 30, 100) == 75
    assert need_percent(0, 30, 100) == 30


@given(st.integers(1, 100), st.integers(0, 1000))
def test_a_need_falls_to_what_is_measured(before, used):
    need = before
    for _ in range(100):
        need = need_percent(need, used, 1000)
    assert need == max(1, used // 10)


@pytest.mark.parametrize(
    ("percent", "number"),
    [(0, 1), (100, 1), (HALF_PERCENT + 1, 1), (HALF_PERCENT, 2), (35, 4), (17, 8), (1, 8)],
)
def test_parts(percent, number):
    assert parts(percent) == number


@given(st.integers(1, 99))
def test_parts_never_grow_with_the_need(percent):
    assert PARTS_MOST >= parts(percent) >= parts(percent + 1) >= 1
