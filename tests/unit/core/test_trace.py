"""The trace: it is read as written, a replay gives the same commands, and a broken file
harms no job."""

from __future__ import annotations

import json
import logging
import resource
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cosched.cli.measure.replay import Replay
from cosched.core.errors import CoschedError, StateLost
from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import (
    MessageTrapped,
    Mode,
    SetShares,
    TaskExited,
    TaskRegistered,
)
from cosched.core.node.settings import Settings
from cosched.core.trace.codec import VERSION, Header, TaskNote, decode, encode
from cosched.core.trace.story import notes_about
from cosched.node.driver import Driver
from cosched.node.records.recorder import Recorder
from cosched.node.records.trace_file import open_trace, trace_file_pair
from cosched.observe.timeline.replay import replay
from cosched.observe.timeline.trace import read_trace
from tests.places import ROOT
from tests.unit.core.trace_histories import CHOICES, SETTINGS, run_choices

GOLDEN = sorted((ROOT / "tests/golden").glob("*.jsonl"))
CURRENT, PREVIOUS = "trace.jsonl", "trace.1.jsonl"
NOTE = TaskNote("0.a", 11, "a", 0, 3, 4, "prefix")


def header_of(machine, node="node1"):
    return Header(VERSION, node, 5, 10**18, machine.snapshot(), (NOTE,))


def write_history(directory, settings, choices, limit_bytes, restart_at=None):
    """Writes a trace as a daemon does, with a flush after each event; returns all steps."""
    machine = NodeScheduler(settings)
    file = open_trace(trace_file_pair(directory, limit_bytes), lambda: header_of(machine))
    steps = []
    for number, step in enumerate(run_choices(machine, choices)):
        steps.append(step)
        file.append(encode([NOTE, step]))
        if number == restart_at:
            file.close()
            file = open_trace(
                trace_file_pair(directory, limit_bytes), lambda: header_of(machine)
            )
    file.close()
    return steps


@given(SETTINGS, CHOICES, st.sampled_from([1, 2_000, 20_000, 10**7]), st.integers(0, 60))
def test_trace_is_read_as_written_and_replays(settings, choices, limit, restart):
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        steps = write_history(directory, settings, choices, limit, restart)
        trace = read_trace([directory])
        read = list(trace)
        assert read == steps[len(steps) - len(read) :]
        if limit == 10**7:
            assert len(read) == len(steps)
        assert replay(trace).difference is None
        # Each file by itself is enough.
        for path in directory.iterdir():
            assert replay(read_trace([path])).difference is None


@given(SETTINGS, CHOICES, CHOICES)
def test_restored_machine_decides_like_its_original(settings, before, after):
    machine = NodeScheduler(settings)
    list(run_choices(machine, before))
    line = encode([header_of(machine)])
    twin = NodeScheduler.restored(decode(line).state)
    assert twin.snapshot() == machine.snapshot()
    assert list(run_choices(twin, after)) == list(run_choices(machine, after))
    assert twin.snapshot() == machine.snapshot()


@given(SETTINGS, CHOICES)
def test_later_events_do_not_change_a_snapshot(settings, choices):
    machine = NodeScheduler(settings)
    half = len(choices) // 2
    list(run_choices(machine, choices[:half]))
    snapshot = machine.snapshot()
    line = encode([header_of(machine)])
    list(run_choices(machine, choices[half:]))
    assert decode(line).state == snapshot


def test_trace_files_are_bounded_and_private(tmp_path):
    limit = 40_000
    choices = [
        (kind, 10**6, "0.a", task, frozenset({0}), mode, 0, Settings())
        for kind, task, mode in run_kinds(400)
    ]
    write_history(tmp_path, Settings(), choices, limit)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == sorted([CURRENT, PREVIOUS])
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < limit + 2_000
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def run_kinds(count):
    for number in range(count):
        kind = TaskExited if number % 2 else TaskRegistered
        yield kind, 11, Mode.COSCHEDULED


@pytest.fixture
def written(tmp_path):
    """A trace of one file with some steps, and its lines."""
    choices = [
        (kind, 1, "0.a", task, frozenset({0}), mode, 0, Settings())
        for kind, task, mode in run_kinds(4)
    ]
    write_history(tmp_path, Settings(), choices, 10**7)
    path = tmp_path / CURRENT
    return path, path.read_bytes().splitlines(keepends=True)


def test_cut_last_line_of_a_trace_is_ignored(written):
    path, lines = written
    path.write_bytes(b"".join(lines)[:-7])
    assert len(list(read_trace([path]))) == 3


def test_daemon_after_a_killed_one_appends_to_its_trace(written):
    path, lines = written
    path.write_bytes(b"".join(lines)[:-7])
    open_trace(
        trace_file_pair(path.parent), lambda: header_of(NodeScheduler(Settings()))
    ).close()
    trace = read_trace([path.parent])
    assert [len(segment.entries) for segment in trace.segments] == [3, 0]
    assert replay(trace).difference is None


def test_daemon_sets_a_trace_of_another_version_aside(written):
    path, lines = written
    older = b'{"cosched_trace":5,"node":"node1"}\n'
    path.write_bytes(older + b"".join(lines))
    open_trace(
        trace_file_pair(path.parent), lambda: header_of(NodeScheduler(Settings()))
    ).close()
    assert len(read_trace([path.parent]).segments) == 1
    aside = path.with_name("trace.version5.jsonl")
    assert aside.read_bytes() == older + b"".join(lines), "nothing is lost"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{\n", "truncated"),
        (b'{"e":"NoSuchThing","v":{},"c":[]}\n', "NoSuchThing"),
        (b'{"e":"SliceEnded","v":{"now_ns":1},"c":[]}\n', "wall_ns"),
        (b'{"e":"SliceEnded","v":{"now_ns":"1","wall_ns":1},"c":[]}\n', "int"),
        (b'{"cosched_trace":4}\n', "version 4 .* reads version 7"),
        (b'{"cosched_trace":99}\n', "version 99"),
        (b"[1]\n", "not a line"),
    ],
)
def test_line_that_is_no_trace_is_an_error(written, line, complaint):
    path, lines = written
    path.write_bytes(b"".join([*lines[:3], line, *lines[3:]]))
    with pytest.raises(CoschedError, match=complaint) as error:
        read_trace([path])
    assert f"{CURRENT}:4: " in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("line", [b"\xff\n", b"{\n", b"[1]\n", b"[" * 100_000 + b"\n"])
def test_the_rest_of_a_damaged_segment_is_left_out(written, line):
    path, lines = written
    path.write_bytes(b"".join([*lines[:3], line, *lines[3:], *lines]))
    damage = []
    trace = read_trace([path], damage.append)
    assert len(damage) == 1
    assert f"{CURRENT}:4: " in damage[0]
    first, second = map(len, (segment.entries for segment in trace.segments))
    assert first < second


def test_headless_and_mixed_traces_are_refused(written, tmp_path):
    path, lines = written
    headless = tmp_path / "headless"
    headless.write_bytes(b"".join(lines[1:]))
    with pytest.raises(CoschedError, match="before any header"):
        read_trace([headless])
    other = tmp_path / "other"
    other.write_bytes(encode([header_of(NodeScheduler(Settings()), "node2")]))
    with pytest.raises(CoschedError, match="several nodes"):
        read_trace([path, other])
    with pytest.raises(CoschedError, match="No such file"):
        read_trace([tmp_path / "none"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(CoschedError, match=CURRENT):
        read_trace([tmp_path / "empty"])


def test_trace_has_the_rank_of_a_task(written):
    path, _ = written
    assert read_trace([path]).tasks["0.a", 11].rank == 3


# -- replay -------------------------------------------------------------------------


def run_replay(*arguments):
    words = [str(a) for a in arguments]
    return CliRunner().invoke(Replay.click_command, words, standalone_mode=False)


def test_replay_reports_no_difference(written):
    result = run_replay(written[0])
    assert result.return_value == 0
    assert "4 events in 1 segment: no difference" in result.output


def forge(path, lines, number, change):
    """Writes the trace with the commands of one line changed."""
    event, commands = decode(lines[number - 1])
    forged = encode([(event, change(commands))])
    path.write_bytes(b"".join([*lines[: number - 1], forged, *lines[number:]]))


def shift_shares(commands):
    return tuple(
        replace(c, percents=(("0.a", 42),)) if isinstance(c, SetShares) else c
        for c in commands
    )


@pytest.mark.parametrize(
    "change",
    [shift_shares, lambda c: c[:-1], lambda c: (*c, c[0])],
    ids=["other shares", "one less", "one more"],
)
def test_replay_shows_the_first_difference_and_fails(written, change):
    path, lines = written
    forge(path, lines, 7, change)  # header, then a note and a step each
    result = run_replay(path)
    assert result.return_value == 1
    assert f"{CURRENT}:7: " in result.output
    assert "after 3 events" in result.output
    document = json.loads(run_replay("--json", path).output)
    assert document["same"] is False
    assert document["difference"]["line"] == 7


def test_replay_shows_the_error_of_a_machine(written, monkeypatch):
    def fail(machine, event):
        raise LookupError("no such group")

    monkeypatch.setattr(NodeScheduler, "handle", fail)
    result = run_replay(written[0])
    assert result.return_value == 1
    assert "LookupError: no such group" in result.output


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_traces_replay_the_same(path):
    result = replay(read_trace([path]))
    assert result.difference is None
    assert result.events > 5


def test_golden_traces_exist():
    assert len(GOLDEN) >= 4


# -- the recorder -------------------------------------------------------------------


@pytest.fixture
def recorder():
    return Recorder("node1", NodeScheduler(Settings()), [], lambda _key: None)


@contextmanager
def no_room(path, spare_bytes):
    """Acts like a full disk: files of this process may not grow further."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = path.stat().st_size + spare_bytes
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def steps(count):
    choices = [
        (kind, 1, "0.a", task, frozenset({0}), mode, 0, Settings())
        for kind, task, mode in run_kinds(count)
    ]
    return list(run_choices(NodeScheduler(Settings()), choices))


def test_recorder_writes_at_a_flush_and_at_its_end(recorder, tmp_path):
    recorder.open(tmp_path, 10**7)
    first, *rest = steps(5)
    recorder.record(*first)
    assert list(read_trace([tmp_path])) == []
    recorder.flush()
    assert list(read_trace([tmp_path])) == [first]
    for step in rest:
        recorder.record(*step)
    recorder.close()
    assert list(read_trace([tmp_path])) == [first, *rest]
    kept = recorder.recent.notes_about("0.a", 0, 100)
    assert kept == list(notes_about("0.a", [first, *rest]))


@pytest.mark.parametrize("spare_bytes", [0, 10])
def test_full_disk_ends_only_the_trace(recorder, tmp_path, caplog, spare_bytes):
    recorder.open(tmp_path, 10**7)
    first, *rest = steps(5)
    with no_room(tmp_path / CURRENT, spare_bytes), caplog.at_level(logging.WARNING):
        recorder.record(*first)
        recorder.flush()
        for step in rest:
            recorder.record(*step)
        recorder.flush()
        recorder.close()
    assert len(caplog.records) == 1
    assert "trace ends here" in caplog.text
    kept = recorder.recent.notes_about("0.a", 0, 100)
    assert kept == list(notes_about("0.a", [first, *rest]))
    assert list(read_trace([tmp_path])) == []


class FailingMachine(NodeScheduler):
    def handle(self, event):
        raise KeyError(event)


def test_event_that_fails_the_machine_ends_the_trace(tmp_path):
    machine = FailingMachine(Settings())
    driver = Driver(machine, None, Recorder("node1", machine, [], lambda _key: None))
    driver.recorder.open(tmp_path, 10**7)
    event = MessageTrapped(now_ns=10**13, wall_ns=10**13, job="0.b", task=11, epoch=0)
    with pytest.raises(StateLost, match="KeyError"):
        driver.feed(event)
    assert list(read_trace([tmp_path])) == [(event, ())]


def test_unwritable_directory_means_no_trace(recorder, tmp_path, caplog):
    (tmp_path / CURRENT).symlink_to(tmp_path / "elsewhere")  # not followed, even by root
    recorder.open(tmp_path, 10**7)
    recorder.record(*steps(1)[0])
    recorder.close()
    assert len(caplog.records) == 1
    assert "no trace" in caplog.text
    assert not (tmp_path / "elsewhere").exists()


def test_zero_bytes_mean_no_trace_and_no_warning(recorder, tmp_path, caplog):
    recorder.open(tmp_path, 0)
    recorder.record(*steps(1)[0])
    recorder.close()
    assert not list(tmp_path.iterdir())
    assert not caplog.records


def test_trace_line_in_the_docs_is_valid():
    page = (ROOT / "docs/dev/formats.md").read_text()
    section = page.split("## The trace")[1]
    line = section.split("```json\n")[1].split("\n```")[0]
    event, commands = decode(line.encode())
    assert encode([(event, commands)]).decode() == line + "\n"
