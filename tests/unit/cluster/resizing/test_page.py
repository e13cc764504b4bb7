"""The page: what is refused, what an agent sees of ranks, and a race of real processes."""

from __future__ import annotations

import multiprocessing
import os
import platform
import time
from collections import deque

import pytest

from cosched.core.cluster.resizing.agreement import (
    Agreement,
    Ordered,
    ReportDone,
    ReportRefused,
)
from cosched.core.cluster.resizing.change import Change, encode_change
from cosched.core.cluster.resizing.node_part import NodePart
from cosched.core.cluster.resizing.page_records import (
    Look,
    Pace,
    Phase,
    Result,
    Times,
    Wants,
)
from cosched.core.errors import CoschedError
from cosched.shm._native import ffi, lib
from cosched.shm.boundaries import VARIABLE, Boundaries, link
from cosched.shm.page import Page
from tests.tools.stepping import kill_when


@pytest.fixture
def page(tmp_path):
    return Page.create(tmp_path / "page", 7, "node-7")


@pytest.fixture
def rank(page, tmp_path):
    return Boundaries(Page.open(tmp_path / "page"))


def test_phases_are_those_of_the_header():
    names = ("NONE", "PROPOSED", "COMMITTED")
    assert [Phase[name] for name in names] == [
        getattr(lib, f"COSCHED_PAGE_{name}") for name in names
    ]


def test_page_is_for_its_user_and_has_its_node(page, tmp_path):
    assert (tmp_path / "page").stat().st_mode & 0o777 == 0o600
    opened = Page.open(tmp_path / "page")
    assert (opened.place, opened.host) == (7, "node-7")


def test_page_is_not_made_twice(page, tmp_path):
    with pytest.raises(FileExistsError):
        Page.create(tmp_path / "page", 1, "")


def test_long_host_is_refused(tmp_path):
    with pytest.raises(OSError, match="too long"):
        Page.create(tmp_path / "other", 1, "x" * 256)
    assert not (tmp_path / "other").exists()


def truncate(path):
    os.truncate(path, 100)


def overwrite(path):
    path.write_bytes(bytes(ffi.sizeof("struct cosched_page")))


def raise_version(path):
    data = bytearray(path.read_bytes())
    data[8] += 1
    path.write_bytes(data)


def link_elsewhere(path):
    path.rename(path.with_name("real"))
    path.symlink_to("real")


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (os.unlink, "No such file"),
        (truncate, "is not the page of a job of this user"),
        (overwrite, "is not a page of cosched"),
        (raise_version, "another version of cosched; use .* \\(cosched --version\\)"),
        (link_elsewhere, "symbolic links"),
    ],
)
def test_wrong_page_is_one_line(page, tmp_path, spoil, line):
    path = tmp_path / "page"
    spoil(path)
    with pytest.raises(CoschedError, match=line) as found:
        link({VARIABLE: str(path)})
    assert str(found.value).startswith(f"page {path}: ")


def test_without_the_variable_there_is_no_link():
    assert link({}) is None
    assert link({VARIABLE: ""}) is None


def test_agent_sees_ranks_in_their_states(page, rank):
    assert page.look() == Look(0, 1, 0, 0, 0, missed=False)
    rank.enter(5, 3)
    assert page.look() == Look(5, 0, 1, 0, 0, missed=False)
    rank.begin_last_change()
    assert page.look() == Look(0, 0, 0, 1, 0, missed=False)
    rank.enter(6, 3)
    rank.end_loop()
    assert page.look() == Look(6, 0, 0, 0, 1, missed=False)
    assert page.look(6) == Look(6, 0, 0, 0, 0, missed=True)
    rank.leave()
    assert page.look() == Look(0, 0, 0, 0, 0, missed=False)


def test_slots_of_a_process_that_ended_are_free(page, rank):
    page.forget(os.getpid())
    assert page.look() == Look(0, 0, 0, 0, 0, missed=False)


@pytest.mark.skipif(
    platform.machine() != "x86_64", reason="elsewhere a step at a time ends no exchange"
)
@pytest.mark.parametrize("writes", [1, 2])
def test_slot_of_a_rank_that_is_killed_as_it_joins_is_freed(page, tmp_path, writes):
    """writes: how often the rank has changed its slot when it is killed."""
    opened = Page.open(tmp_path / "page")
    slot = ffi.buffer(ffi.addressof(page.data.slots, 0))
    seen = [bytes(slot)]

    def has_written():
        found = bytes(slot)
        if found != seen[-1]:
            seen.append(found)
        return len(seen) > writes

    pid = kill_when(has_written, lambda: opened.join(os.getpid()))
    assert len(seen) == writes + 1
    assert page.processes() == {pid}
    page.forget(pid)
    assert page.processes() == set()
    assert page.look() == Look(0, 0, 0, 0, 0, missed=False)
    assert opened.join(os.getpid()) == 0


def test_node_with_all_slots_taken_refuses_a_rank(page, tmp_path):
    ranks = [Boundaries(page) for _ in range(512)]
    with pytest.raises(CoschedError, match="512 ranks"):
        Boundaries(page)
    ranks[100].leave()
    Boundaries(page)


def test_rank_passes_boundaries_that_are_not_its_own(page, rank):
    rank.enter(0, 0)
    page.store_word(5, Phase.PROPOSED)
    assert not rank.stops_at(4)
    assert not page.look(5).missed
    assert not rank.stops_at(6)
    assert page.look(5).missed
    page.store_word(7, Phase.COMMITTED)
    assert rank.stops_at(7)
    assert not rank.stops_at(8)


def test_rank_at_the_boundary_counts_as_missed_until_it_acknowledges(page, rank):
    rank.enter(0, 0)
    assert not rank.stops_at(3)
    page.store_word(3, Phase.PROPOSED)
    assert page.look(3).missed
    waits = lib.cosched_page_wait(page.data, 0, 3, 1000)
    assert waits == lib.COSCHED_PAGE_WAIT
    assert not page.look(3).missed


def test_values_of_the_job_are_read_back(page, rank):
    assert page.wants() == Wants(0, 0, 0, 0)
    rank.want(2, 8)
    rank.ask(4)
    assert page.wants() == Wants(2, 8, 4, 1)
    assert page.result() is None
    result = Result(3, 5, Times(1, 2, 3, 4, 5, 6), 7)
    rank.report(result)
    assert page.result() == result
    rank.report(Result(4, 5, Times(), 0, "no slots"))
    assert page.result().refused == "no slots"
    rank.report(Result(5, 5, Times(), 0, "x\n" * 1000))
    assert page.result().refused == ("x\ufffd" * 128)[:255]


def test_order_that_is_too_large_is_refused(page):
    page.give_order(1, bytes(1 << 16))
    with pytest.raises(CoschedError, match="65537 bytes are too many"):
        page.give_order(2, bytes((1 << 16) + 1))


def test_pace_is_that_of_whole_iterations(page, rank):
    rank.enter(0, 2)
    assert rank.pace is None
    for step in range(4):
        rank.stops_at(step)
        time.sleep(0.002)
    pace = rank.pace
    assert pace.steps == 3
    assert pace.exec_ns >= 3 * 2_000_000
    assert page.paces() == {2: Pace(3, pace.exec_ns, 0)}
    rank.enter(4, 2)
    assert rank.pace is None


def run_rank(path, number, go_on, stops, all_stopped=None):
    """A rank without MPI: iterates as fast as it can, and notes where it stops.
    all_stopped: a barrier, as a change has one before its report."""
    own = Boundaries(Page.open(path))
    own.enter(0, number)
    step = 0
    while go_on.value:
        if own.stops_at(step):
            generation = own.change().generation
            stops.put((generation, number, step))
            if all_stopped is not None:
                all_stopped.wait(60)
            if number == 0:
                own.report(Result(generation, 3, Times(), 0))
        step += 1


def test_real_processes_stop_at_the_same_boundaries(tmp_path):
    """Ranks do not wait for each other here, so this is the hardest case for the fences."""
    changes, context = 15, multiprocessing.get_context("spawn")
    pages = [Page.create(tmp_path / f"page-{n}", n, "") for n in range(2)]
    go_on, stops = context.Value("b", 1), context.SimpleQueue()
    shared = (go_on, stops, context.Barrier(3))
    ranks = [
        context.Process(target=run_rank, args=(tmp_path / f"page-{n % 2}", n, *shared))
        for n in range(3)
    ]
    for each in ranks:
        each.start()
    agreement = Agreement([0, 1])
    parts = [NodePart(n, page) for n, page in enumerate(pages)]
    found = {}
    try:
        for generation in range(1, changes + 1):
            events = deque([Ordered(Change(generation, (), ()))])
            report = None
            deadline = time.monotonic() + 60
            while report is None:
                assert time.monotonic() < deadline
                while events:
                    for command in agreement.handle(events.popleft()):
                        if isinstance(command, ReportDone | ReportRefused):
                            report = command
                        else:
                            events.extend(parts[command.place].take(command))
                for part, count in zip(parts, (2, 1), strict=True):
                    events.extend(part.watch(count))
            assert report == ReportDone(generation)
            for _ in range(3):
                number, rank, step = stops.get()
                found.setdefault(number, {})[rank] = step
    finally:
        go_on.value = 0
        for each in ranks:
            each.join(60)
    assert sorted(found) == list(range(1, changes + 1))
    for places in found.values():
        assert len(places) == 3
        assert len(set(places.values())) == 1


def test_boundary_that_is_withdrawn_lets_the_rank_go(tmp_path, page):
    context = multiprocessing.get_context("spawn")
    go_on, stops = context.Value("b", 1), context.SimpleQueue()
    process = context.Process(target=run_rank, args=(tmp_path / "page", 0, go_on, stops))
    process.start()
    try:
        deadline = time.monotonic() + 60
        while page.look().largest < 10:
            assert time.monotonic() < deadline
        page.give_order(1, encode_change(Change(1, (), ())))
        boundary = page.look().largest + 100_000
        page.store_word(boundary, Phase.PROPOSED)
        while page.data.slots[0].acknowledged != boundary + 1:
            assert time.monotonic() < deadline
        assert page.look().largest == boundary
        page.store_word(0, Phase.NONE)
        while page.look().largest <= boundary:
            assert time.monotonic() < deadline
    finally:
        go_on.value = 0
        process.join(60)
    assert stops.empty()
