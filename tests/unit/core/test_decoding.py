"""Each decoder returns a value or raises Malformed with one line, whatever comes in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.bounds import Name
from cosched.core.decoding import (
    JsonDecoder,
    Malformed,
    MessagePackDecoder,
    check_printable,
    convert,
    decode_text,
    parse_integer,
    printable,
    shown_text,
)

ANY_JSON: JsonDecoder[object] = JsonDecoder(object, "a document", 1 << 20)
ANY_PACKED: MessagePackDecoder[object] = MessagePackDecoder(object, "a packet", 1 << 20)
NAMES: JsonDecoder[str] = JsonDecoder(Name, "a name")


@pytest.mark.parametrize(
    "data",
    [
        b'{"do":"\xff"}',
        b"\xff",
        b"[" * 200_000,
        b"9" * 6000,
        b"1e999999",
        b'"\\ud800"',
        b"",
        b"x" * ((1 << 20) + 1),
    ],
)
def test_malformed_json_is_one_error_of_one_line(data: bytes) -> None:
    with pytest.raises(Malformed, match=r"^not a document: [^\n]{1,220}$"):
        ANY_JSON.decode(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xdc\xff\xff" * 20_000,
        b"\xa1\xff",
        b"\xc1",
        b"",
        bytes((1 << 20) + 1),
    ],
)
def test_malformed_packets_are_one_error_of_one_line(data: bytes) -> None:
    with pytest.raises(Malformed, match=r"^not a packet: [^\n]{1,220}$"):
        ANY_PACKED.decode(data)


@given(st.binary(max_size=200))
def test_nothing_else_is_raised(data: bytes) -> None:
    for decode in (ANY_JSON.decode, ANY_PACKED.decode):
        problem = ""
        try:
            decode(data)
        except Malformed as error:
            problem = str(error)
        assert "\n" not in problem


@pytest.mark.parametrize("text", [r"a\nb", r"a\n", r"\u001b[2J", "a" * 256, r"\u2028"])
def test_a_name_has_one_line_without_controls(text: str) -> None:
    with pytest.raises(Malformed):
        NAMES.decode(f'"{text}"')


def test_a_name_may_have_any_letters() -> None:
    assert NAMES.decode('"größe-1.0 ж"') == "größe-1.0 ж"


def test_plain_values_are_converted_to_a_type() -> None:
    assert convert({"1": 2}, dict[int, int], "a table", keys_are_text=True) == {1: 2}
    with pytest.raises(Malformed, match=r"not a table"):
        convert({"a": 2}, dict[int, int], "a table", keys_are_text=True)


def test_text_is_utf8() -> None:
    assert decode_text(b"gr\xc3\xb6n", "a file") == "grön"
    with pytest.raises(Malformed, match=r"a file: not text in UTF-8: .* at byte 1"):
        decode_text(b"a\xff", "a file")


def test_shown_text_never_fails() -> None:
    assert shown_text(b"a\xffb") == "a\ufffdb"
    assert printable("a\x1b[2J\n\udcff") == "a\ufffd[2J\ufffd\ufffd"


@given(st.text(max_size=20))
def test_printable_text_passes_the_check(text: str) -> None:
    assert check_printable(printable(text), "a name") == printable(text)


def test_text_with_controls_is_refused() -> None:
    with pytest.raises(Malformed, match=r"a name: .* has control characters"):
        check_printable("a\nb", "a name")


@pytest.mark.parametrize("text", ["7", b" 7\n", "+7", "007"])
def test_whole_numbers(text: str | bytes) -> None:
    assert parse_integer(text, "a count", 0, 10) == 7


@pytest.mark.parametrize(
    "text", ["", "x", "1.0", "11", "-1", "٣", "1_0", "9" * 5000, b"\xff", "1 2"]
)
def test_other_text_is_no_whole_number(text: str | bytes) -> None:
    with pytest.raises(Malformed, match=r"^a count: "):
        parse_integer(text, "a count", 0, 10)
