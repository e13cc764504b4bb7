"""Files that do not grow without bound, and what a daemon that was killed leaves in one."""

import pytest

from cosched.node.records.bounded_file import BoundedFile, Place


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path, "log", 200)


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
