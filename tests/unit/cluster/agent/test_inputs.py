"""Input of rank 0: pieces in order at the root's agent, and the pipe of its steward."""

import os

from hypothesis import given
from hypothesis import strategies as st

from cosched.cluster.agent.frames import InputWritten, WriteInput
from cosched.cluster.agent.rank0_input import WAITING_MOST, InputPipe, InputValve
from cosched.cluster.messages import AT_END, GiveInput, InputTaken
from cosched.service.loop import Watch


class Root:
    """An InputGate of a job of user 7, and what it sends."""

    def __init__(self):
        self.answers, self.frames = [], []
        self.gate = InputValve(
            lambda member, uid: member == "n2" and uid in (0, 7),
            lambda _, answer: self.answers.append(answer),
            self.write,
        )

    def write(self, frame):
        self.frames.append(frame)

    def give(self, number, at, data, *, uid=7, last=False):
        self.gate.take("n2", GiveInput(1, 1, number, uid, at, data, last))

    def written(self):
        return b"".join(frame.data for frame in self.frames)


def test_piece_is_answered_when_it_is_written():
    root = Root()
    root.give(1, 0, b"abcd")
    root.gate.wrote(InputWritten(3, True))
    assert root.answers == []
    root.gate.wrote(InputWritten(1, True))
    assert root.answers == [InputTaken(1, 4, True, "")]


def test_end_of_the_job_answers_all():
    root = Root()
    root.give(1, 0, b"abcd")
    root.gate.close()
    root.give(2, 4, b"efgh")
    assert root.answers == [InputTaken(1, 0, False, ""), InputTaken(2, 0, False, "")]
    assert root.written() == b"abcd"


def test_input_of_another_user_is_refused():
    root = Root()
    root.give(1, 0, b"bad", uid=8)
    root.give(2, 0, b"good", uid=0)
    assert root.answers == [InputTaken(1, 0, True, "job 1: belongs to another user")]
    assert root.written() == b"good"


def test_gap_and_input_that_heaps_up_are_refused():
    root = Root()
    root.give(1, 5, b"late")
    assert root.answers[0].problem == "job 1: its input before byte 5 is missing"
    root.give(2, 0, b"x" * (WAITING_MOST + 1))
    root.give(3, WAITING_MOST + 1, b"y")
    assert root.answers[1].problem.endswith("has not read the input that came before")
    assert len(root.written()) == WAITING_MOST + 1


SIZES = st.integers(0, 60)


@given(st.binary(max_size=60), st.lists(st.tuples(SIZES, SIZES), max_size=20))
def test_pieces_given_again_arrive_once(data, pieces):
    root, at = Root(), 0
    for wanted, size in (*pieces, (0, len(data))):
        begin = min(wanted, at)
        end = min(begin + size, len(data))
        root.give(1, begin, data[begin:end])
        at = max(at, end)
    root.give(2, AT_END, b"", last=True)
    assert root.written() == data
    assert root.frames[-1].last


class Rank:
    """The reader of an InputPipe, and what the steward reports."""

    def __init__(self):
        self.watch = Watch()
        self.frames = []
        self.pipe = InputPipe(self.watch, self.frames.append)

    def run(self):
        """Does what the steward's loop does when the pipe has room."""
        self.watch.wait(0)


def test_pipe_takes_what_it_has_room_for_and_the_rest_later():
    rank, data = Rank(), os.urandom(1 << 20)
    rank.pipe.add(WriteInput(data, False))
    rank.pipe.add(WriteInput(b"", True))
    read = b""
    while more := os.read(rank.pipe.reader, 1 << 16):
        read += more
        rank.run()
    assert read == data
    assert sum(frame.written for frame in rank.frames) == len(data)
    assert not rank.frames[-1].open
    assert not rank.watch


def test_reader_that_leaves_ends_the_input():
    rank = Rank()
    rank.pipe.add(WriteInput(b"x" * (1 << 20), False))
    os.close(rank.pipe.reader)
    rank.run()
    assert not rank.frames[-1].open
    assert not rank.watch
    count = len(rank.frames)
    rank.pipe.add(WriteInput(b"more", True))
    assert len(rank.frames) == count
