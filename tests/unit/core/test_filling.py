"""The filled waits of jobs against a model of CPUs whose figures are known."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.node.groups import PAPER_SHARES, Group, connected, share_percents
from cosched.core.node.job import JobState
from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import Mode, SetShares
from cosched.core.trace.filling import LEAST_NS, PARTS_MOST, REST_NS, Fillings
from cosched.core.units import NS_PER_MS, NS_PER_S
from tests.unit.core.trace_histories import CHOICES, SETTINGS, run_choices


def no_waits(_job):
    return 0


@dataclass
class Node:
    """Jobs of one task on one CPU. A job computes for a part of its turns; the waiting ones
    have 1% each, and share what it leaves."""

    computes: dict  #: for each job the part of its turns
    now_ns: int = 0
    used_ns: dict = field(default_factory=dict)
    reads: int = 0
    filled_ns: dict = field(default_factory=dict)  #: the truth: by (filler, waiting)
    waits_ns: dict = field(default_factory=dict)

    def __post_init__(self):
        self.fillings = Fillings(self._read)
        self.jobs = {}
        for job in self.computes:
            self.add(job)

    def add(self, job, cpus=frozenset({0})):
        self.jobs[job] = JobState(job, tasks={len(self.jobs): cpus}, cpus=cpus)
        self.used_ns.setdefault(job, 0)
        self.waits_ns.setdefault(job, 0)

    def _read(self, job):
        self.reads += 1
        return self.used_ns.get(job)

    def step(self):
        percents = share_percents(map(Group, connected(self._taking_part())), PAPER_SHARES)
        self.fillings.step(self.now_ns, self.jobs, SetShares(tuple(percents.items())))

    def _taking_part(self):
        return [job for job in self.jobs.values() if job.mode.takes_part]

    def give_turn(self, job, lasts_ns):
        """Lets a job run, and the others fill its waits."""
        for state in self.jobs.values():
            state.account(self.now_ns) if state.scheduled else None
            state.scheduled = state.key == job
            state.since_ns = self.now_ns
        self.step()
        self.now_ns += lasts_ns
        others = self.jobs.keys() - {job}
        unused_ns = (1 - self.computes[job]) * lasts_ns
        least_ns = min(lasts_ns / 100, unused_ns / max(1, len(others)))
        self.used_ns[job] += round(lasts_ns - unused_ns)
        self.waits_ns[job] += unused_ns
        for other in others:
            self.used_ns[other] += round(unused_ns / len(others))
            above_ns = unused_ns / len(others) - least_ns
            pair = (other, job)
            self.filled_ns[pair] = self.filled_ns.get(pair, 0) + above_ns

    def end(self, job):
        self.fillings.look(self.now_ns, self.jobs)
        del self.jobs[job]
        self.step()
        return self.fillings.end(job, self.waits_ns.__getitem__)

    def of(self, job):
        self.fillings.look(self.now_ns, self.jobs)
        return self.fillings.of(job, self.waits_ns.__getitem__)


def test_one_turn_names_filler_and_waiting_job():
    node = Node({"0.waits": 0.2, "0.fills": 1.0})
    node.give_turn("0.waits", 10 * NS_PER_S)
    waits, fills = node.of("0.waits"), node.of("0.fills")
    assert (waits.waits_s, waits.filled_s, waits.fills_s) == pytest.approx((8.0, 7.9, 0))
    assert [part.job for part in waits.filled_by] == ["0.fills"]
    (part,) = fills.fills
    assert (part.job, part.waits_s) == ("0.waits", pytest.approx(8.0))
    assert part.filled_s == fills.fills_s == pytest.approx(7.9)
    assert (fills.filled_s, fills.filled_by, waits.fills) == (0, (), ())


def test_a_long_turn_is_measured_after_a_rest():
    node = Node({"0.waits": 0.2, "0.fills": 1.0})
    node.give_turn("0.waits", 20 * NS_PER_MS)
    node.end("0.fills")
    node.add("0.fills")
    node.give_turn("0.waits", REST_NS)
    node.fillings.resume(node.now_ns, node.jobs)
    node.now_ns += 10 * NS_PER_S
    node.used_ns["0.waits"] += 2 * NS_PER_S
    node.used_ns["0.fills"] += 8 * NS_PER_S
    assert node.of("0.waits").filled_s > 7


def test_job_that_computes_is_filled_by_no_job():
    node = Node({"0.a": 0.99, "0.b": 0.99})
    for _ in range(20):
        node.give_turn("0.a", NS_PER_S)
        node.give_turn("0.b", NS_PER_S)
    assert node.of("0.a").filled_s == node.of("0.b").filled_s == 0


def test_filled_time_is_no_longer_than_the_unused_time():
    """A waiting job with a second CPU computes there, too."""
    node = Node({"0.a": 0.5})
    node.add("0.wide", frozenset({0, 1}))
    node.jobs["0.wide"].tasks = {1: frozenset({0, 1}), 2: frozenset({0, 1})}
    node.give_turn("0.a", 0)
    node.now_ns = 4 * NS_PER_S
    node.used_ns.update({"0.a": 2 * NS_PER_S, "0.wide": 6 * NS_PER_S})
    assert node.of("0.a").filled_s == pytest.approx(2.0)


def test_waits_in_no_call_of_mpi_count_as_far_as_they_were_filled():
    node = Node({"0.disk": 0.5, "0.fills": 1.0})
    node.give_turn("0.disk", 2 * NS_PER_S)
    node.fillings.look(node.now_ns, node.jobs)
    found = node.fillings.of("0.disk", no_waits)
    assert found.waits_s == found.filled_s == pytest.approx(0.98)
    assert node.fillings.of("0.fills", no_waits).fills[0].waits_s == found.waits_s


def test_time_alone_is_no_turn_that_another_one_stands_for():
    node = Node({"0.a": 0.5})
    node.give_turn("0.a", 100 * NS_PER_S)
    node.computes["0.b"] = 1.0
    node.add("0.b")
    node.give_turn("0.a", NS_PER_S)
    assert node.of("0.a").filled_s == pytest.approx(0.49)


def test_unknown_cpu_times_fill_nothing():
    node = Node({"0.a": 0.5, "0.b": 1.0, "0.c": 1.0})
    node.step()
    for job, missing in (("0.a", "0.b"), ("0.b", "0.b")):
        known = node.used_ns.pop(missing)
        node.jobs[job].scheduled = True
        node.step()
        node.now_ns += NS_PER_S
        node.used_ns["0.c"] += NS_PER_S
        node.fillings.look(node.now_ns, node.jobs)
        node.used_ns[missing] = known
        node.jobs[job].scheduled = False
    assert node.of("0.b").filled_s == 0
    assert [part.job for part in node.of("0.a").filled_by] == ["0.c"]


def test_suspended_and_released_jobs_fill_nothing():
    for mode in (Mode.SUSPENDED, Mode.RELEASED):
        node = Node({"0.a": 0.5, "0.b": 1.0})
        node.jobs["0.b"].mode = mode
        node.give_turn("0.a", NS_PER_S)
        assert node.of("0.a").filled_s == 0


def test_turns_before_a_job_is_alone_are_counted():
    node = Node({"0.a": 0.5, "0.b": 0.5})
    for _ in range(20):
        node.give_turn("0.a", 100 * NS_PER_MS)
        node.give_turn("0.b", 100 * NS_PER_MS)
    truth_s = node.filled_ns["0.b", "0.a"] / NS_PER_S
    node.jobs["0.b"].mode = Mode.SUSPENDED
    node.computes["0.a"] = 1.0
    node.give_turn("0.a", 100 * NS_PER_S)
    assert node.of("0.a").filled_s == pytest.approx(truth_s)


def test_waits_of_an_ended_job_stay_with_the_job_that_filled_them():
    node = Node({"0.a": 0.5, "0.b": 1.0})
    node.give_turn("0.a", 2 * NS_PER_S)
    ended = node.end("0.a")
    assert ended.waits_s == 1.0
    node.waits_ns["0.a"] = 77 * NS_PER_S  # of a later job of that name
    (part,) = node.of("0.b").fills
    assert (part.job, part.waits_s) == ("0.a", 1.0)
    node.add("0.a")
    node.waits_ns["0.a"] = 0
    node.give_turn("0.a", NS_PER_S)
    (part,) = node.of("0.b").fills
    assert (part.waits_s, part.filled_s) == pytest.approx((0.5, 0.49))
    assert node.of("0.b").fills_s == pytest.approx(0.98 + 0.49)


def test_a_long_job_keeps_few_parts_and_the_whole_sum():
    node = Node({"0.long": 1.0})
    for number in range(3 * PARTS_MOST):
        job = f"0.{number}"
        node.computes[job] = 0.5
        node.add(job)
        node.give_turn(job, (number + 1) * NS_PER_S)
        node.end(job)
    found = node.of("0.long")
    assert len(found.fills) == PARTS_MOST
    assert found.fills[0].job == f"0.{3 * PARTS_MOST - 1}"
    assert found.fills_s == pytest.approx(0.49 * sum(range(3 * PARTS_MOST + 1)))


def test_switches_read_few_cpu_times():
    """10 switches a second: two jobs are read four times each in a rest."""
    node = Node({"0.a": 0.5, "0.b": 0.5})
    for _ in range(300):
        node.give_turn("0.a", 100 * NS_PER_MS)
        node.give_turn("0.b", 100 * NS_PER_MS)
    reads = node.reads
    for _ in range(300):
        node.give_turn("0.a", 100 * NS_PER_MS)
        node.give_turn("0.b", 100 * NS_PER_MS)
    assert node.reads - reads <= 60 * NS_PER_S / REST_NS * 8
    for job in ("0.a", "0.b"):
        assert node.of(job).filled_s == pytest.approx(60 * 0.49)


@pytest.mark.parametrize("lasts_ns", [LEAST_NS // 3, LEAST_NS - 1])
def test_short_turns_are_seldom_read(lasts_ns):
    node = Node({"0.a": 0.5, "0.b": 0.5, "0.alone": 1.0})
    node.add("0.alone", frozenset({1}))
    node.jobs["0.alone"].scheduled = True
    turns = 10 * NS_PER_S // lasts_ns
    for number in range(turns):
        node.give_turn("0.a" if number % 2 else "0.b", lasts_ns)
        node.jobs["0.alone"].scheduled = True
    assert node.reads <= 100 * 8
    assert node.of("0.a").filled_s == 0


def test_unknown_cpu_time_is_seldom_asked_for():
    node = Node({"0.a": 0.5, "0.b": 0.5})
    asked = []
    node.fillings = Fillings(asked.append)
    for _ in range(100):
        node.give_turn("0.a", 100 * NS_PER_MS)
        node.give_turn("0.b", 100 * NS_PER_MS)
    assert len(asked) <= 2 * (1 + 20 * NS_PER_S // REST_NS)


TURNS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(2 * LEAST_NS, 3 * REST_NS)),
    min_size=1,
    max_size=60,
)
PARTS = st.fixed_dictionaries({job: st.floats(0, 1) for job in "abc"})


@given(TURNS, PARTS)
def test_figures_agree_with_the_model(turns, computes):
    """Each job is measured in its first turn, and all its turns are alike."""
    node = Node(computes)
    for job, lasts_ns in turns:
        node.give_turn(job, lasts_ns)
    for job in computes:
        found = node.of(job)
        truth_s = (
            sum(ns for (_, one), ns in node.filled_ns.items() if one == job) / NS_PER_S
        )
        assert found.filled_s == pytest.approx(truth_s, abs=1e-6)
        assert found.filled_s <= found.waits_s + 1e-9
        assert sum(part.filled_s for part in found.filled_by) == pytest.approx(
            found.filled_s
        )
        assert sum(part.filled_s for part in found.fills) == pytest.approx(found.fills_s)
        assert job not in {part.job for part in (*found.filled_by, *found.fills)}
    whole = [node.of(job) for job in computes]
    assert sum(f.filled_s for f in whole) == pytest.approx(sum(f.fills_s for f in whole))


@given(SETTINGS, CHOICES, st.data())
def test_any_steps_and_cpu_times_give_possible_figures(settings, choices, data):
    """No figure is negative, and no job fills more than a scheduled job can leave."""
    machine, used_ns, widths = NodeScheduler(settings), {}, {}
    fillings = Fillings(used_ns.get)
    for event, commands in run_choices(machine, choices):
        for job in widths.keys() - machine.jobs.keys():
            fillings.end(job, no_waits)
            del widths[job]
        for job, state in machine.jobs.items():
            width = min(len(state.tasks), len(state.cpus))
            widths[job] = max(widths.get(job, 0), width)
            used_ns[job] = data.draw(st.none() | st.integers(0, 10**12))
        for command in commands:
            if isinstance(command, SetShares):
                fillings.step(event.now_ns, machine.jobs, command)
        if data.draw(st.booleans()):
            fillings.look(event.now_ns, machine.jobs)
        for job, state in machine.jobs.items():
            found = fillings.of(job, no_waits)
            most_s = widths[job] * state.age_ns(event.now_ns) / NS_PER_S
            assert 0 <= found.filled_s <= most_s + 1e-9
            assert found.filled_s <= found.waits_s
            assert found.fills_s >= 0
            assert all(part.filled_s > 0 for part in (*found.filled_by, *found.fills))
