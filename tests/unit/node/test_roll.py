"""The line on the nodes of a job that are not coscheduled."""

import os
import threading
import time

import pytest

from cosched.shm._native import ffi, lib

PRESENT, NONE = lib.COSCHED_PRESENT, lib.COSCHED_NO_DAEMON
OTHER, REFUSED, LEFT = lib.COSCHED_OTHER_VERSION, lib.COSCHED_REFUSED, lib.COSCHED_LEFT

PATIENCE_S = 10


def line(*ranks):
    """Returns the line for ranks, each a node's name and a presence."""
    answers = ffi.new("struct cosched_answer[]", len(ranks))
    for answer, (node, presence) in zip(answers, ranks, strict=True):
        lib.cosched_roll_answer(ffi.addressof(answer), node.encode(), presence)
    text = ffi.new("char[]", lib.COSCHED_ROLL_LINE_BYTES)
    lib.cosched_roll_line(text, answers, len(ranks))
    return ffi.string(text).decode()


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([("n1", NONE)], "not coscheduled; no daemon on n1"),
        (
            [("n1", PRESENT), ("n1", PRESENT), ("n2", NONE), ("n2", NONE)],
            "coscheduled on 1 of 2 nodes; no daemon on n2",
        ),
        (
            [("n1", PRESENT), ("n1", REFUSED)],
            "not coscheduled; refused by the daemon on n1",
        ),
        (
            [("n1", NONE), ("n2", OTHER), ("n3", PRESENT), ("n4", NONE)],
            "coscheduled on 1 of 4 nodes; no daemon on n1, n4; "
            "a daemon of another version on n2",
        ),
        (
            [("n1", PRESENT), ("n2", LEFT)],
            "coscheduled on 1 of 2 nodes to the end; the daemon ended on n2",
        ),
    ],
)
def test_nodes_are_counted_and_named_once(ranks, text):
    assert line(*ranks) == text


def test_long_lists_are_shortened():
    ranks = [(f"n{number}", NONE) for number in range(1, 31)]
    assert line(("n0", PRESENT), *ranks) == (
        "coscheduled on 1 of 31 nodes; no daemon on "
        "n1, n2, n3, n4, n5, n6, n7, n8 and 22 more"
    )
    long = [(f"{number}{'x' * 90}", NONE) for number in range(10)]
    assert len(line(*long)) == lib.COSCHED_ROLL_LINE_BYTES - 1


def test_wait_for_a_reader_ends_when_it_has_read_all():
    read_end, write_end = os.pipe()
    os.write(write_end, b"line\n")
    ended = threading.Event()

    def wait():
        lib.cosched_roll_await_reader(write_end)
        ended.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert not ended.wait(0.05)
    assert os.read(read_end, 3) == b"lin"
    assert not ended.wait(0.05)
    assert os.read(read_end, 3) == b"e\n"
    waiting.join(PATIENCE_S)
    assert ended.is_set()
    os.close(read_end)
    os.close(write_end)


def test_nobody_is_awaited_but_the_reader_of_a_pipe(tmp_path):
    with (tmp_path / "file").open("w") as file:
        file.write("line\n")
        file.flush()
        began = time.monotonic()
        lib.cosched_roll_await_reader(file.fileno())
        lib.cosched_roll_await_reader(-1)
    assert time.monotonic() - began < 1
