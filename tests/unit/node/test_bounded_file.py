"""Files that do not grow without bound, and what a daemon that was killed leaves in one."""

import tracemalloc
from pathlib import Path

import pytest

from cosched.core.trace.job_record import ended_before, owner_of
from cosched.node.records.bounded_file import BoundedFile, FilePair
from cosched.node.records.history_writer import _equal_part, keep_fairly


@pytest.fixture
def place(tmp_path):
    return FilePair(tmp_path, "log", 200)


def appended(place, *lines, header=bytes):
    file = BoundedFile(place, header)
    for line in lines:
        file.append(line)
    file.close()


@pytest.mark.parametrize("left", [b"", b"whole\n"])
def test_only_half_a_line_is_removed(place, left):
    place.current.write_bytes(left + b"half a li")
    appended(place, b"next\n")
    assert place.current.read_bytes() == left + b"next\n"


def test_files_have_headers_and_stay_within_the_limit(place):
    appended(place, *(b"%03d\n" % n for n in range(100)), header=lambda: b"head\n")
    assert sum(path.stat().st_size for path in place.files) <= place.limit_bytes
    kept = [path.read_bytes().splitlines() for path in place.files]
    assert [lines[0] for lines in kept] == [b"head", b"head"]
    assert [*kept[0][1:], *kept[1][1:]][-1] == b"099"


def test_a_folder_that_cannot_be_looked_into_has_no_files(tmp_path):
    assert FilePair(tmp_path / ("x" * 300), "log", 200).files == []


def record_line(uid, number, words="x" * 20):
    return b'{"uid": %d, "number": %d, "words": "%s"}\n' % (uid, number, words.encode())


def test_user_with_many_lines_pushes_out_no_other_users(tmp_path):
    place = FilePair(tmp_path, "history", 4000)
    file = BoundedFile(place, choose=keep_fairly)
    for number in range(5):
        file.append(record_line(1, number))
    for number in range(500):
        file.append(record_line(2, number))
    file.close()
    assert sum(path.stat().st_size for path in place.files) <= place.limit_bytes + 60
    kept = [line for path in place.files for line in path.read_bytes().splitlines(True)]
    assert [line for line in kept if owner_of(line) == 1] == [
        record_line(1, number) for number in range(5)
    ]
    own = [line for line in kept if owner_of(line) == 2]
    assert own == [record_line(2, number) for number in range(500 - len(own), 500)]
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        "history.1.jsonl",
        "history.jsonl",
    ]


@pytest.mark.parametrize("dies_at", [1, 2, 3, 4])
def test_daemon_killed_over_a_change_of_files_loses_no_line(tmp_path, monkeypatch, dies_at):
    place = FilePair(tmp_path, "history", 4000)
    lines = [record_line(1 + (number > 5), number) for number in range(200)]
    replace, calls = Path.replace, []

    def die(path, target):
        calls.append(path)
        if len(calls) == dies_at:
            raise KeyboardInterrupt
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", die)
    file = BoundedFile(place, choose=keep_fairly)
    written = []

    def append_all():
        for line in lines:
            written.append(line)
            file.append(line)

    with pytest.raises(KeyboardInterrupt):
        append_all()
    monkeypatch.undo()
    BoundedFile(place, choose=keep_fairly).close()
    kept = [line for path in place.files for line in path.read_bytes().splitlines(True)]
    assert len(kept) == len(set(kept))
    most = place.limit_bytes // 2 // len(lines[-1]) - 1  # that surely have room
    last = min(len(written) - 1, most - 6)
    assert kept[-last:] == written[-last:]
    assert kept[:6] == lines[:6]  # of the user with few


def test_change_of_files_needs_little_memory(tmp_path):
    """What a daemon needs for a moment stays with its process."""
    place = FilePair(tmp_path, "history", 4 << 20)
    file = BoundedFile(place, choose=keep_fairly)
    many = b"".join(record_line(uid % 3, uid, "x" * 500) for uid in range(1000))
    began = peak = 0
    while not place.previous.exists() or began < 4:
        began += place.current.stat().st_size < len(many)
        tracemalloc.start()
        file.append(many)
        peak = max(peak, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    file.close()
    assert peak < 300_000


@pytest.mark.parametrize(
    ("sizes", "room", "part"),
    [([], 10, 0), ([3, 4], 10, 4), ([9, 9], 10, 5), ([2, 9, 9], 10, 4), ([9], 10, 9)],
)
def test_each_user_has_an_equal_part_or_all(sizes, room, part):
    assert _equal_part(sizes, room) == part


def dated_line(uid, ended_wall_ns):
    return b'{"uid": %d, "ended_wall_ns": %d}\n' % (uid, ended_wall_ns)


def test_old_lines_are_dropped_from_both_files(tmp_path, monkeypatch):
    place = FilePair(tmp_path, "history", 2000)
    file = BoundedFile(place, choose=keep_fairly)
    for number in range(50):
        file.append(dated_line(number % 2, number))
    assert len(place.files) == 2
    file.drop(lambda line: ended_before(line, 30))
    assert list(place.lines()) == [dated_line(n % 2, n) for n in range(30, 50)]
    file.append(dated_line(0, 50))
    assert list(place.lines())[-1] == dated_line(0, 50)
    with monkeypatch.context() as nothing_is_written:
        nothing_is_written.setattr(file, "_change_files", None)
        file.drop(lambda line: ended_before(line, 30))
    file.drop(lambda line: ended_before(line, 100))
    assert list(place.lines()) == []
    file.drop(lambda line: ended_before(line, 100))
    file.close()


def test_text_of_no_record_is_old():
    assert ended_before(b"half a li", 0)
    assert ended_before(dated_line(0, 4), 5)
    assert not ended_before(dated_line(0, 5), 5)
