"""Bytes of the system come back from messages as they were."""

from __future__ import annotations

import json
import os

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.errors import CoschedError
from cosched.core.wire_text import wire_from_bytes, wire_to_bytes
from cosched.linux.system_text import from_wire, to_wire

carriers = st.characters(min_codepoint=0x10FF00, max_codepoint=0x10FFFF)
names = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace")),
    st.text(carriers, max_size=8).map(str.encode),
)


@given(names, names)
def test_bytes_come_back(one, other):
    for data in (one, other, one + other):
        text = wire_from_bytes(data)
        assert wire_to_bytes(text) == data
        assert msgspec.json.decode(msgspec.json.encode(text)) == text
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(text)) == text
        assert json.loads(json.dumps(text)) == text
    assert (wire_from_bytes(one) == wire_from_bytes(other)) == (one == other)


@given(st.text())
def test_names_in_utf8_are_themselves(text):
    if not any(ord(letter) >= 0x10FF80 for letter in text):
        assert wire_from_bytes(text.encode()) == text


@given(names.filter(lambda data: b"\0" not in data))
def test_words_of_a_process_come_back(data):
    word = os.fsdecode(data)
    assert from_wire(to_wire(word)) == word


@pytest.mark.parametrize("word", ["a\0b", "\ud800"])
def test_words_that_no_process_can_have(word):
    with pytest.raises(CoschedError):
        to_wire(word)
