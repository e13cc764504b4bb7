"""Ranks agree, join and call the roll by the rules of cosched/join.h and cosched/roll.h.

Their MPI calls are fakes. Each rank is a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.shm._native import ffi, lib
from mpi_shim.wrapper.status.rules import NO_LIMIT_MS, Rules
from mpi_shim.wrapper.task.environment import Environment, text

PATIENCE_MS = 150
#: More than any rank waits, on a busy machine.
LONG_MS = 60_000
SHORT_S = 0.01


@dataclass
class FakeMpi:
    """The ranks share it. It has the names, and each rank's part in each collective."""

    world: int
    has_names: bool = True
    names: dict[str, str] = field(default_factory=dict)
    parts: list[dict[int, tuple[str, Any]]] = field(default_factory=list)
    lines: list[tuple[int, int, str]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def printed(self, kind: int) -> list[str]:
        return [line for _, found, line in self.lines if found == kind]


class FakeRank:
    """One rank's MPI calls. A collective call is complete when each rank has begun it."""

    def __init__(self, mpi: FakeMpi, rank: int, *, sent: int = 0) -> None:
        self._mpi, self._rank, self._sent = mpi, rank, sent
        self._begun = 0
        self.received = 0
        self.has_left = False
        self.raises: BaseException | None = None

    def __call__(self, name: str, *arguments: Any) -> int:
        if self.raises is not None:
            raise self.raises
        return int(getattr(self, name)(*arguments) or 0)

    def publish(self, name: Any, port: Any) -> int:
        if not self._mpi.has_names:
            return -1
        self._mpi.names[text(name)] = text(port)
        return 0

    def look_up(self, name: Any, port: Any) -> int:
        found = self._mpi.names.get(text(name))
        if found is None:
            return 0
        ffi.memmove(port, found.encode() + b"\0", len(found) + 1)
        return 1

    def withdraw(self, name: Any) -> None:
        del self._mpi.names[text(name)]

    def _begin(self, call: str, value: Any) -> None:
        if len(self._mpi.parts) == self._begun:
            self._mpi.parts.append({})
        part = self._mpi.parts[self._begun]
        assert all(other == call for other, _ in part.values())
        self._result = value
        part[self._rank] = (call, value)
        self._begun += 1

    def enter(self) -> None:
        self._begin("enter", None)

    def entered(self) -> None:
        assert len(self._mpi.parts[0]) == self._mpi.world

    def find_least(self, value: Any) -> None:
        self._begin("find_least", value[0])
        self._room = value

    def gather(self, own: Any, everything: Any, size: int) -> None:
        self._begin("gather", bytes(ffi.buffer(own, size)))
        self._room = everything

    def meet(self) -> None:
        self._begin("meet", None)

    def sum_sent(self, due: Any) -> None:
        self._begin("sum_sent", self._sent)
        self._room = due

    def is_complete(self) -> bool:
        part = self._mpi.parts[self._begun - 1]
        if len(part) < self._mpi.world:
            return False
        call, _ = part[self._rank]
        values = [part[rank][1] for rank in sorted(part)]
        if call == "find_least":
            self._room[0] = min(values)
        elif call == "gather" and self._room != ffi.NULL:
            ffi.memmove(self._room, b"".join(values), sum(map(len, values)))
        elif call == "sum_sent":
            self._room[0] = sum(values)
        return True

    def receive(self) -> int:
        self.received += 1  # one more has come
        return self.received

    def leave(self) -> None:
        self.has_left = True

    def end_job(self) -> None:
        self._mpi.ended.set()
        raise SystemExit

    def print(self, kind: int, line: Any) -> None:
        self._mpi.lines.append((self._rank, kind, text(line)))


@pytest.fixture
def environment(monkeypatch):
    """Makes a job's environment with values of COSCHED_JOIN and COSCHED_REQUIRE."""
    monkeypatch.setenv("COSCHED_JOB", "j")
    monkeypatch.delenv("SLURM_STEP_ID", raising=False)

    def make(join="probably", require="any", node="a"):
        monkeypatch.setenv("COSCHED_JOIN", join)
        monkeypatch.setenv("COSCHED_REQUIRE", require)
        monkeypatch.setenv("COSCHED_NODE", node)
        return Environment()

    return make


def make_link(presence=lib.COSCHED_NO_DAEMON):
    link = ffi.new("struct cosched_link *")
    lib.cosched_link_open(link)
    link.presence = presence
    return link


def make_rules(mpi, rank, calls, environment, *, patience_ms=LONG_MS, **more):
    return Rules(
        calls,
        make_link(),
        environment,
        rank=rank,
        world=mpi.world,
        patience_ms=patience_ms,
        **more,
    )


def together(*parts: Callable[[], Any]) -> list[Any]:
    """Runs each rank's part in a thread; returns the results. A part that raises an error
    has it as its result."""
    results: list[Any] = [None] * len(parts)

    def run(index: int) -> None:
        try:
            results[index] = parts[index]()
        except BaseException as error:  # noqa: BLE001  (it is the result)
            results[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_MS / 1000)
        assert not thread.is_alive()
    return results


def make_job(environment, world=3, *, has_names=True, sent=0, **more):
    mpi = FakeMpi(world, has_names)
    calls = [FakeRank(mpi, rank, sent=sent) for rank in range(world)]
    rules = [
        make_rules(mpi, rank, calls[rank], environment, **more) for rank in range(world)
    ]
    return mpi, calls, rules


def test_ranks_that_all_have_the_shim_join(environment):
    mpi, _, rules = make_job(environment())
    assert together(*(each.open for each in rules)) == [True] * 3
    assert mpi.lines == []


def test_lone_rank_makes_no_call(environment):
    mpi, _, (rules,) = make_job(environment(), world=1)
    assert not rules.open()
    assert (mpi.names, mpi.parts) == ({}, [])


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_rank_without_shim_is_reported_once(environment, missing):
    mpi, _, rules = make_job(environment(), patience_ms=PATIENCE_MS)
    del rules[missing]
    assert together(*(each.open for each in rules)) == [False, False]
    assert mpi.parts == []  # no rank has begun a call that would never be complete
    (line,) = mpi.printed(lib.COSCHED_LINE_WARNING)
    assert line.startswith("a rank has no shim")


@pytest.mark.parametrize(
    ("join", "has_names", "spawned", "joins"),
    [
        ("probably", False, False, True),
        ("perhaps", False, False, False),
        ("perhaps", True, False, True),
        ("surely", False, False, True),
        ("perhaps", False, True, True),
    ],
)
def test_ranks_without_names_join_as_the_variable_has_it(
    environment, join, has_names, spawned, joins
):
    mpi, _, rules = make_job(environment(join), has_names=has_names, spawned=spawned)
    assert together(*(each.open for each in rules)) == [joins] * 3
    assert bool(mpi.parts) == joins
    assert mpi.printed(lib.COSCHED_LINE_WARNING) == []


@settings(max_examples=15)
@given(
    delays_ms=st.lists(
        st.one_of(st.none(), st.integers(0, 2 * PATIENCE_MS)), min_size=2, max_size=5
    ).filter(lambda delays: any(delay is not None for delay in delays))
)
def test_ranks_with_shim_agree(delays_ms):
    """None: a rank without the shim. The others come late, some of them after the limit."""
    environment = Environment()
    name = ffi.new("char[]", b"j")
    environment.data.task.job = name
    mpi, _, rules = make_job(environment, len(delays_ms), patience_ms=PATIENCE_MS)

    def open_late(each: Rules, delay_ms: int) -> Callable[[], bool]:
        def run() -> bool:
            time.sleep(delay_ms / 1000)  # the case itself, not a wait for an event
            return each.open()

        return run

    pairs = zip(rules, delays_ms, strict=True)
    parts = [open_late(each, delay) for each, delay in pairs if delay is not None]
    results = together(*parts)
    assert len(set(results)) == 1
    assert results[0] in (True, False)
    if None in delays_ms:
        assert results[0] is False
        assert mpi.parts == []


def test_rank_that_joins_late_is_there_at_the_end(environment):
    """Without an agreement it is possible that some give up before the last one comes."""
    mpi, calls, rules = make_job(environment("surely"), patience_ms=PATIENCE_MS)
    assert together(*(each.open for each in rules[:2])) == [False, False]
    assert len(mpi.printed(lib.COSCHED_LINE_WARNING)) == 2
    results = together(
        lambda: rules[0].close(NO_LIMIT_MS),
        lambda: rules[1].close(NO_LIMIT_MS),
        lambda: (rules[2].open(), rules[2].close(NO_LIMIT_MS)),
    )
    # The late rank must not use what the others do not read.
    assert results == [None, None, (False, None)]
    assert all(each.has_left for each in calls)
    assert [each.received for each in calls] == [0, 0, 0]


def test_all_that_was_sent_is_received_at_the_end(environment):
    _, calls, rules = make_job(environment(), sent=4)
    together(*(each.open for each in rules))
    together(*(lambda each=each: each.close(NO_LIMIT_MS) for each in rules))
    assert [each.received for each in calls] == [12, 12, 12]
    assert all(each.has_left for each in calls)


def test_close_gives_up_at_its_limit(environment):
    _, calls, rules = make_job(environment(), world=2)
    together(*(each.open for each in rules))
    rules[0].close(50)
    assert not calls[0].has_left


def test_absent_nodes_are_named_once(environment):
    mpi, _, rules = make_job(environment(node="a"), world=2)
    calls = FakeRank(mpi, 1)
    rules[1] = make_rules(mpi, 1, calls, environment(node="b"))
    together(*(each.open for each in rules))
    presences = (lib.COSCHED_PRESENT, lib.COSCHED_NO_DAEMON)
    pairs = zip(rules, presences, strict=True)
    together(*(lambda each=each, p=p: each.call_roll(p) for each, p in pairs))
    line = "coscheduled on 1 of 2 nodes; no daemon on b"
    assert mpi.lines == [(0, lib.COSCHED_LINE_JOB, line)]
    # A second call does nothing, and no daemon has ended since.
    rules[0].call_roll(lib.COSCHED_NO_DAEMON)
    together(*(lambda each=each: each.close(NO_LIMIT_MS) for each in rules))
    assert len(mpi.lines) == 1


def test_job_that_needs_all_nodes_is_ended_by_one_rank(environment):
    mpi, calls, rules = make_job(environment(require="all"), world=2)
    together(*(each.open for each in rules))
    meet = calls[1].is_complete

    def ended() -> bool:
        if mpi.ended.is_set() and mpi.parts[-1][1][0] == "meet":
            raise SystemExit
        return meet()

    calls[1].is_complete = ended
    results = together(
        lambda: rules[0].call_roll(lib.COSCHED_NO_DAEMON),
        lambda: rules[1].call_roll(lib.COSCHED_NO_DAEMON),
    )
    assert [type(each) for each in results] == [SystemExit, SystemExit]
    (line,) = mpi.printed(lib.COSCHED_LINE_WARNING)
    assert "COSCHED_REQUIRE=all" in line


def test_error_of_a_call_ends_the_rules_and_is_raised(environment):
    mpi, calls, rules = make_job(environment(), world=2)
    started = threading.Event()
    look_up = calls[0].look_up

    def interrupt(name: Any, port: Any) -> int:
        started.set()
        calls[0].raises = KeyboardInterrupt()
        return look_up(name, port)

    calls[0].look_up = interrupt
    with pytest.raises(KeyboardInterrupt):
        rules[0].open()
    assert started.is_set()
    assert mpi.parts == []


def test_waits_for_others_are_longer_in_a_scheduled_job():
    """The interposer announces its process at launch, the wrapper does not."""
    assert lib.cosched_join_patience_ms(0) == 10_000
    assert lib.cosched_join_patience_ms(1) == 60_000
