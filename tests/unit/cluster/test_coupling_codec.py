"""The coupling protocol as lines of JSON, and docs/dev/formats.md, which shows it."""

from __future__ import annotations

import json
import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.cluster.coupling.codec import GREATEST, LONGEST, decode, encode
from cosched.core.cluster.coupling.protocol import (
    Answer,
    Done,
    GetMateJobId,
    MateJobId,
    MateState,
    MateStatus,
    Request,
    StartMate,
)
from cosched.core.errors import CoschedError
from tests.places import ROOT

KINDS = (*get_args(Request), *get_args(Answer))
PAGE = ROOT / "docs/dev/formats.md"
WHOLE = st.integers(0, GREATEST)
NAME = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)
FIELDS = {"number": WHOLE, "group": NAME, "by_ns": WHOLE, "since_ns": WHOLE}


@st.composite
def messages(draw):
    kind = draw(st.sampled_from(KINDS))
    if kind is MateJobId:
        return MateJobId(draw(st.none() | WHOLE))
    if kind is MateStatus:
        return MateStatus(draw(st.sampled_from(MateState)), draw(st.none() | WHOLE))
    if kind is Done:
        return Done(draw(st.booleans()))
    return kind(**{name: draw(FIELDS[name]) for name in kind.__slots__})


@given(messages())
def test_what_is_encoded_is_decoded(message):
    line = encode(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert len(line) <= LONGEST
    assert decode(line) == message


def test_the_papers_names():
    assert encode(GetMateJobId("g")) == b'{"type":"getMateJobId","group":"g"}\n'
    assert encode(StartMate(3)) == b'{"type":"startJob","number":3}\n'
    assert decode(b' {"number": null, "type": "mateJobId"} ') == MateJobId(None)


@given(st.binary(max_size=200) | messages().map(encode).flatmap(
    lambda line: st.tuples(st.integers(0, len(line) - 1), st.integers(0, 255)).map(
        lambda change: line[: change[0]] + bytes([change[1]]) + line[change[0] + 1 :]
    )
))  # fmt: skip
def test_whatever_comes_is_a_message_or_one_line(line):
    found = said(line)
    if isinstance(found, str):
        assert found.startswith("message ")
        assert len(found.splitlines()) == 1
    else:
        assert decode(encode(found)) == found


def said(line):
    """The message, or why there is none."""
    try:
        return decode(line)
    except CoschedError as error:
        return str(error)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", "message '' is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 4000, "is not JSON"),
        (b"x" * 5000, "message of 5000 bytes: want 4096 at most"),
        (b'{"type":"done","yes":true,"yes":true}', "is not JSON"),
        (b"3", "message '3' has no known type; want one of getMateJobId"),
        (b'{"type":["done"]}', "has no known type"),
        (b'{"type":"stop"}', "has no known type"),
        (b'{"type":"done"}', "message done has no 'yes'"),
        (b'{"type":"done","yes":1}', "message done: 'yes' is not true or false"),
        (b'{"type":"done","yes":true,"why":0}', "message done has an unknown key 'why'"),
        (b'{"type":"done","a\\nb":0}', "unknown key 'a?b'"),
        (b'{"type":"startJob","number":true}', "'number' is not a whole number"),
        (b'{"type":"startJob","number":-1}', "'number' is not a whole number"),
        (b'{"type":"startJob","number":1.5}', "'number' is not a whole number"),
        (b'{"type":"startJob","number":9223372036854775808}', "'number' is not a whole"),
        (b'{"type":"getMateJobId","group":""}', "'group' is not a name"),
        (b'{"type":"mateStatus","state":"idle","since_ns":0}', "'state' is not one of un"),
    ],
)
def test_what_is_no_message_is_refused_in_one_line(line, words):
    with pytest.raises(CoschedError) as caught:
        decode(line)
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_the_page_shows_every_message_as_it_is_sent():
    section = PAGE.read_text().split("## Between domains")[1].split("\n## ")[0]
    shown = [decode(text.encode()) for text in re.findall(r"`(\{.*?\})`", section)]
    assert {type(message) for message in shown} == set(KINDS)
    for text in re.findall(r"`(\{.*?\})`", section):
        assert json.loads(encode(decode(text.encode()))) == json.loads(text)
