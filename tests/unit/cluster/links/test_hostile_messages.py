"""Messages and frames of a hostile member or steward are refused."""

from unittest.mock import Mock

import msgspec
import pytest

from cosched.cluster.agent.frames import (
    FrameReader,
    OutputWritten,
    TaskEndedBadly,
    TasksWrote,
    encode_frame,
)
from cosched.cluster.agent.nodejob import Designs, NodeJob
from cosched.cluster.agent.route import Route
from cosched.cluster.messages import Failure, decode
from cosched.core.cluster.startup.tree import Tree
from cosched.core.errors import CoschedError

ODD_FRAMES = [
    OutputWritten(0, -5, 1),
    OutputWritten(0, 9, 1),
    TasksWrote(1, bytes((1 << 20) + 1)),
]


@pytest.mark.parametrize(
    "message",
    [
        ["Began", 1, 1, 2**63],
        ["Hello", 1, -1, "", {}, []],
        ["Hello", 1, 2**64 - 1, "", {}, []],
        ["Hello", 1, 1, "", {"slots": -5}, []],
        ["Hello", 1, 1, "", {}, [[1, 1, "gone", 2**63, True]]],
        ["SubtreeEnded", 1, 1, [2**63, "x"]],
        ["TaskFailed", 1, 1, [-1, "x"]],
    ],
)
def test_number_that_cannot_be_stored_is_refused(message):
    with pytest.raises(CoschedError):
        decode(msgspec.msgpack.encode(message))


def test_frame_with_an_odd_status_is_refused():
    with pytest.raises(CoschedError):
        list(FrameReader().feed(encode_frame(TaskEndedBadly(Failure(2**40, "x")))))


@pytest.mark.parametrize("place", [-1, -2, -5, 7, 2**60])
def test_place_outside_of_the_tree_has_no_parent(place):
    with pytest.raises(CoschedError):
        Tree(7, 2).parent(place)


@pytest.mark.parametrize("frame", ODD_FRAMES)
def test_frame_that_makes_no_sense_is_refused(frame):
    hosts = ("n1", "n2", "n3")
    route = Route(1, 1, 0, ((0, 2),), hosts, Tree(3, 2), "siblings", 0, "n1")
    job = NodeJob(route, Mock(), Designs("pipeline", 1000, 60.0))
    with pytest.raises(CoschedError):
        job.take_frame(frame)
