"""Tests of labeled output: whole lines, whatever pieces a task writes."""

from hypothesis import given
from hypothesis import strategies as st

from cosched.cluster.agent.steward.streams import LONGEST_LINE, Labeler


@given(st.lists(st.text("ab\r\n").map(str.encode)))
def test_each_line_has_a_label_and_comes_whole(pieces):
    labeler = Labeler("3")
    answers = [*map(labeler.label, pieces), labeler.rest()]
    lines = b"".join(pieces).split(b"\n")
    lines = lines if lines[-1] else lines[:-1]
    assert b"".join(answers) == b"".join(b"[3] " + line + b"\n" for line in lines)
    assert all(answer.endswith(b"\n") for answer in answers if answer)


def test_a_line_without_an_end_is_not_kept_for_ever():
    labeler = Labeler("0")
    text = b"x" * LONGEST_LINE
    assert labeler.label(text) == b"[0] " + text + b"\n"
    assert labeler.label(b"y\n") == b"[0] y\n"
