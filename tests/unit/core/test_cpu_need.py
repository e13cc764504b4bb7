"""The part of the CPU time that a job needs, and work in the waits of others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.node.cpu_need import (
    LEAST_PERCENT,
    Reading,
    Use,
    measured_percent,
    mostly_waits,
    next_percent,
    weighted_ns,
)
from cosched.core.node.groups import FILLING_PERCENT
from cosched.core.node.knowledge import Expectation
from cosched.core.node.messages import SliceEnded, TaskExited, UseRead
from cosched.core.node.settings import USUAL
from cosched.core.units import NS_PER_S
from tests.unit.core.machine_node import Node

S = NS_PER_S


class Waiting(Node):
    """A node with jobs, and how long each has waited."""

    def __init__(self, **expected_s):
        super().__init__(USUAL, now_ns=20 * S)
        self.waited_s = dict.fromkeys(expected_s, 0.0)
        self.cpu_s = dict(self.waited_s)
        self.liars = set()
        for number, (job, length_s) in enumerate(expected_s.items()):
            lengths_ns = (round(length_s * S),) if length_s else ()
            expectation = Expectation(number + 1, lengths_ns)
            submitted_ns = self.now_ns + number
            self.register(job, expectation=expectation, submitted_ns=submitted_ns)
        self.read()

    def read(self, after_s=0.0, **waited_s):
        """Lets jobs wait in this time, reports it, and ends the slice. A job that does not
        wait uses its CPU while it is scheduled, as far as it is not ``idle``."""
        for job in self.waited_s:
            waits_s = waited_s.get(job, 0.0)
            self.waited_s[job] += waits_s
            uses = job in self.running and job not in self.liars
            self.cpu_s[job] += (after_s - waits_s) * uses + after_s * (
                job in self.running and job in self.liars
            )
        read = tuple(
            (job, Use(round(s * S), round(self.cpu_s[job] * S)))
            for job, s in self.waited_s.items()
        )
        self.send(UseRead, after_ns=round(after_s * S), uses=read)
        self.send(SliceEnded)

    def need(self, key):
        return self.machine.jobs[key].need


def test_need_is_the_part_of_own_slices_without_waits():
    node = Waiting(first=5, second=10)
    for _ in range(40):
        node.read(0.1, first=0.06, second=0.1)
    assert node.need("first") == 40
    assert node.need("second") == 0, "it had no slice"


def test_need_of_a_job_alone_is_measured():
    node = Waiting(alone=5)
    node.read(1, alone=0.2)
    assert node.need("alone") == 90, "halfway from all to 80"


def test_a_job_that_reports_false_waits_needs_what_it_uses():
    node = Waiting(liar=5, other=10)
    node.liars.add("liar")
    node.machine.jobs["liar"].need = LEAST_PERCENT
    for _ in range(6):
        node.read(1, liar=1)
    assert not mostly_waits(node.need("liar"))


def test_tasks_that_sleep_do_not_hide_those_that_compute():
    before = Reading(0, 0, True, Use(0, 0))
    after = Reading(S, S, True, Use(56 * S, 8 * S))
    assert measured_percent(before, after, tasks=64, cpus=8) == 100


def between(contended, **second):
    """Returns what is measured in one second of a task whose first reading is all 0."""
    first = Use(0, 0, None if second["wanted_ns"] is None else 0)
    before, after = (
        Reading(t, t, contended, use) for t, use in ((0, first), (S, Use(**second)))
    )
    return measured_percent(before, after, tasks=1, cpus=1)


@pytest.mark.parametrize("contended", [True, False])
def test_waits_outside_of_messages_are_waits(contended):
    reads = {"waited_ns": 0, "cpu_ns": 30 * S // 100, "wanted_ns": 40 * S // 100}
    assert between(contended, **reads) == 40
    assert between(contended, **reads | {"wanted_ns": None}) == 100, "they are not known"


def test_a_job_alone_that_spins_waits_for_messages():
    reads = {"waited_ns": S * 3 // 4, "cpu_ns": S, "wanted_ns": S}
    assert between(False, **reads) == LEAST_PERCENT
    assert between(True, **reads) == 100


def test_time_in_the_queue_for_a_cpu_is_no_wait():
    reads = {"waited_ns": 0, "cpu_ns": S // 2, "wanted_ns": S}
    assert between(True, **reads) == 100


def test_threads_that_compute_count_beside_a_first_thread_that_sleeps():
    reads = {"waited_ns": 0, "cpu_ns": S, "wanted_ns": S // 10}
    assert between(True, **reads) == 100


def test_no_need_is_measured_when_a_task_leaves_with_its_account():
    before = Reading(0, 0, True, Use(0, 0, S))
    after = Reading(S, S, True, Use(0, S, S // 2))
    assert measured_percent(before, after, tasks=1, cpus=1) is None


def test_competing_jobs_of_unknown_cpu_time_are_not_measured():
    before, after = (Reading(t, t, True, Use(t, None)) for t in (0, S))
    assert measured_percent(before, after, tasks=1, cpus=1) is None
    before, after = (Reading(t, t, False, Use(t, None)) for t in (0, S))
    assert measured_percent(before, after, tasks=1, cpus=1) == LEAST_PERCENT


def test_mixed_times_are_not_measured():
    node = Waiting(first=5, second=10)
    node.read(0.5)
    node.send(TaskExited, after_ns=S, job="first", task=ord("f"))
    node.waited_s.pop("first")
    node.read(1, second=1)
    assert node.need("second") == 0
    node.read(1, second=0.4)
    assert node.need("second") == 80


def test_a_time_in_which_a_task_left_is_not_measured():
    node = Waiting(first=5)
    node.waited_s["first"] = 3
    node.read(1)
    before = node.need("first")
    node.waited_s["first"] = 1
    node.read(1)
    assert node.need("first") == before


def test_a_job_that_waits_comes_before_one_that_computes_in_its_waits():
    node = Waiting(computes=9, waits=20)
    node.read(1)
    assert node.running == {"computes"}, "nothing is known of the other one"
    node.machine.jobs["waits"].need = 30
    node.read(1)
    assert node.running == {"waits"}, "0.09 of 20 s is less than 4/5 of 7 s"
    for _ in range(6):
        node.read(1)
    assert node.running == {"computes"}, "it does not wait any more"


def test_jobs_that_compute_fill_the_waits_before_others_that_wait():
    node = Waiting(waits=5, waits_too=6, computes=60)
    for job in ("waits", "waits_too"):
        node.machine.jobs[job].need = 40
    node.machine.jobs["computes"].need = 100
    node.read(1, waits=0.6)
    assert node.shares == {
        "waits": 100 - FILLING_PERCENT,
        "waits_too": 0,
        "computes": FILLING_PERCENT,
    }


def test_many_jobs_that_fill_have_no_more_together():
    node = Waiting(waits=5, **{f"computes{n}": 60 for n in range(4)})
    node.machine.jobs["waits"].need = 40
    node.read(1, waits=0.6)
    assert node.shares["waits"] == 100 - 4 * (FILLING_PERCENT // 4)


def test_no_job_fills_one_that_computes():
    node = Waiting(computes=5, other=60)
    node.machine.jobs["computes"].need = node.machine.jobs["other"].need = 100
    node.read(1)
    assert node.shares == {"computes": 100, "other": 0}


def test_like_jobs_share_a_need():
    node = Waiting(first=5)
    node.register("like", expectation=Expectation(1, (5 * S,)))
    node.register("other", expectation=Expectation(2, (9 * S,)))
    node.register("foreign", user=7, expectation=Expectation(1, (9 * S,)))
    node.read(1, first=1)
    needs = [node.need(key) for key in ("first", "like", "other", "foreign")]
    assert needs == [62, 62, 0, 0]


def test_like_jobs_keep_their_order_while_one_begins_with_work():
    node = Waiting(first=5)
    node.register("like", expectation=Expectation(1, (5 * S,)))
    node.waited_s["like"] = node.cpu_s["like"] = 0.0
    node.machine.jobs["first"].need = node.machine.jobs["like"].need = 40
    for _ in range(3):
        node.read(1)
        assert node.running == {"first"}
    assert node.need("first") > 70


def test_need_is_remembered_for_the_next_job_of_its_kind():
    node = Waiting(first=5)
    node.read(1, first=1)
    node.send(TaskExited, job="first", task=ord("f"))
    node.register("again", expectation=Expectation(1, (5 * S,)))
    node.register("other", expectation=Expectation(7, (5 * S,)))
    node.register("foreign", user=7, expectation=Expectation(1, (5 * S,)))
    assert [node.need(key) for key in ("again", "other", "foreign")] == [62, 0, 0]


@given(st.integers(1, 100), st.integers(LEAST_PERCENT, 100))
def test_a_need_approaches_what_is_measured(before, measured):
    need = before
    for _ in range(40):
        need = next_percent(need, measured)
    assert abs(need - measured) < 4


@pytest.mark.parametrize(
    ("percent", "cost_ns"),
    [(0, 1000), (100, 1000), (85, 1000), (77, 728), (70, 490), (50, 250), (25, 62)],
)
def test_weighted_cost(percent, cost_ns):
    assert weighted_ns(1000, percent) == cost_ns
    assert mostly_waits(percent) == (cost_ns < 500)


@given(st.integers(1, 99))
def test_weighted_costs_never_fall_with_the_need(percent):
    assert weighted_ns(S, percent) <= weighted_ns(S, percent + 1)
