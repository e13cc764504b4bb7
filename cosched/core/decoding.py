"""Decodes all input from outside: JSON, MessagePack, text and numbers.

Bytes from sockets, links, files, variables and databases can be malformed in many ways: bad
UTF-8, deep nesting, numbers out of range, control characters in names. Each format has one
decoder here. Every malformed input raises ``Malformed``, and nothing else. A decoder has a
bound in bytes; the time that it takes is linear in them.

``bounds`` beside this file has the types of fields that need a range.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from cosched.core.errors import CoschedError

if TYPE_CHECKING:
    import msgspec

T = TypeVar("T")

#: The most bytes of a document, unless its decoder has a bound of its own.
DOCUMENT_MOST = 64 << 20
#: The most characters that an error repeats of the input.
_SHOWN = 200
# Regular expressions are texts here: Python compiles each at its first use and keeps it. A
# quick command needs none of them.
_NUMBER = r"(?ai)[+-]?([0-9]{1,400}(\.[0-9]{0,400})?|\.[0-9]{1,400})(e[+-]?[0-9]{1,4})?"
#: The most digits of a number: more would take long.
_DIGITS = 400
_PORT_MOST = (1 << 16) - 1
_INTEGER = r"(?a)[+-]?[0-9]{1,20}"
#: C0 and C1 controls, the separators of lines, and surrogates.
_UNPRINTABLE = "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"


class Malformed(CoschedError):
    """Input that cannot be decoded. ``str(error)`` is one line that names the input."""


class _Decoder(ABC, Generic[T]):
    """Decodes one format into values of one type.

    kind: the type, as ``msgspec`` takes it. what: names the input in errors, as in "a
    submission". most_bytes: longer input is malformed.
    """

    def __init__(
        self, kind: type[T] | Any, what: str, most_bytes: int = DOCUMENT_MOST
    ) -> None:
        self._kind = kind
        self._what = what
        self._most_bytes = most_bytes

    @abstractmethod
    def _make(self) -> Any:
        """Returns the decoder of ``msgspec``, which is slow to import."""

    @cached_property
    def _decoder(self) -> Any:
        return self._make()  # at the first input: a program may decode nothing

    def decode(self, data: bytes | bytearray | memoryview | str) -> T:
        """Returns the value. Raises Malformed."""
        _check_length(data, self._what, self._most_bytes)
        try:
            return cast(T, self._decoder.decode(data))
        except _errors() as error:
            raise _malformed(self._what, error) from None


class JsonDecoder(_Decoder[T]):
    """Decodes JSON."""

    def _make(self) -> msgspec.json.Decoder[Any]:
        import msgspec

        return msgspec.json.Decoder(self._kind)


class MessagePackDecoder(_Decoder[T]):
    """Decodes MessagePack."""

    def _make(self) -> msgspec.msgpack.Decoder[Any]:
        import msgspec

        return msgspec.msgpack.Decoder(self._kind)


_any_json: JsonDecoder[Any] = JsonDecoder(Any, "JSON")


def decode_json(data: bytes | bytearray | str, what: str) -> Any:
    """Returns the plain value of a JSON document. Raises Malformed."""
    try:
        return _any_json.decode(data)
    except Malformed as error:
        raise Malformed(f"{what}: {error}") from None


#: Longer lines, and those with escapes, are left to the strict decoder.
_PLAIN_MOST = 1 << 16


def decode_line(data: bytes, what: str) -> Any:
    """Does the same as ``decode_json`` for a line of our own daemons. It starts sooner: a
    plain line needs no strict decoder. Raises Malformed."""
    if len(data) > _PLAIN_MOST or b"\\" in data:
        return decode_json(data, what)
    text = decode_text(data, what)
    try:
        return json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError):
        return decode_json(data, what)  # it has the better reason


def _no_number(text: str) -> float:
    raise ValueError(text)


def _finite(text: str) -> float:
    number = float(text)
    return number if abs(number) < float("inf") else _no_number(text)


def convert(
    value: Any, kind: type[T] | Any, what: str, *, keys_are_text: bool = False
) -> T:
    """Returns plain values, such as those of a TOML document, as a value of a type. Raises
    Malformed. keys_are_text: keys of mappings are text, as JSON has them."""
    import msgspec

    try:
        return cast(T, msgspec.convert(value, kind, str_keys=keys_are_text))
    except _errors() as error:
        raise _malformed(what, error) from None


def decode_text(data: bytes | bytearray | memoryview, what: str) -> str:
    """Returns UTF-8 as text. Raises Malformed."""
    try:
        return bytes(data).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(
            f"{what}: not text in UTF-8: {error.reason} at byte {error.start}"
        ) from None


def shown_text(data: bytes | bytearray | memoryview) -> str:
    """Returns bytes as text to show; bytes that are not UTF-8 become U+FFFD. Line feeds and
    control characters stay: ``printable`` replaces them."""
    return bytes(data).decode("utf-8", errors="replace")


def printable(text: str) -> str:
    """Returns the text as part of one line: control characters become U+FFFD."""
    return re.sub(_UNPRINTABLE, "\ufffd", text)


def check_printable(text: str, what: str) -> str:
    """Returns the text. Raises Malformed for control characters and lone surrogates."""
    if re.search(_UNPRINTABLE, text):
        raise Malformed(f"{what}: {printable(text)[:_SHOWN]!r} has control characters")
    return text


def labelled(what: str, line: str) -> str:
    """Returns the line of an error, with the name of the input if it has one."""
    return f"{what}: {line}" if what else line


def parse_integer(text: str | bytes, what: str, least: int, most: int) -> int:
    """Returns a decimal integer from ``least`` to ``most``, in ASCII, with spaces around it
    allowed. Raises Malformed."""
    shown = shown_text(text) if isinstance(text, bytes) else text
    stripped = shown.strip(" \t\r\n")
    if re.fullmatch(_INTEGER, stripped) is None:
        raise Malformed(
            labelled(what, f"'{printable(shown)[:_SHOWN]}' is not a whole number")
        )
    number = int(stripped)
    if not least <= number <= most:
        raise Malformed(labelled(what, f"{number} is not from {least} to {most}"))
    return number


def parse_number(text: str | bytes, what: str, least: float, most: float) -> float:
    """Returns a decimal number from ``least`` to ``most``, in ASCII, perhaps with a
    fraction and an exponent, with spaces around it allowed. Raises Malformed."""
    shown = shown_text(text) if isinstance(text, bytes) else text
    stripped = shown.strip(" \t\r\n")
    if re.fullmatch(_NUMBER, stripped) is None:
        raise Malformed(labelled(what, f"'{printable(shown)[:_SHOWN]}' is not a number"))
    number = float(stripped)
    if not least <= number <= most:
        raise Malformed(labelled(what, f"{number:g} is not from {least:g} to {most:g}"))
    return number


def parse_scaled(text: str, scale: int) -> int:
    """Returns a decimal number without sign and exponent, times ``scale``, as the nearest
    integer. It is exact, which floats are not. Raises Malformed."""
    whole, _, fraction = text.partition(".")
    digits = whole + fraction
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > _DIGITS:
        raise Malformed(f"'{printable(text)[:_SHOWN]}' is not a number")
    parts: int = 10 ** len(fraction)
    return (2 * int(digits) * scale + parts) // (2 * parts)


def parse_address(text: str, what: str = "", least_port: int = 1) -> tuple[str, int]:
    """Returns host and port of ``HOST:PORT``. Raises Malformed."""
    host, _, port = text.rpartition(":")
    if not host or not is_whole(port, least_port, _PORT_MOST):
        line = (
            f"'{printable(text)[:_SHOWN]}' is not HOST:PORT, "
            f"with a port from {least_port} to {_PORT_MOST}"
        )
        raise Malformed(labelled(what, line))
    return host, parse_integer(port, what, least_port, _PORT_MOST)


def host_of(address: str) -> str:
    """Returns the host of a ``HOST:PORT`` that was checked before."""
    return address.rpartition(":")[0]


def is_whole(text: str, least: int = 0, most: int = (1 << 63) - 1) -> bool:
    """Returns whether a text is a decimal integer in this range, as ``parse_integer`` reads
    it, with no sign and no spaces."""
    if not (text.isascii() and text.isdecimal()):
        return False
    try:
        parse_integer(text, "", least, most)
    except Malformed:
        return False
    return True


def _errors() -> tuple[type[Exception], ...]:
    """Returns the errors of msgspec: its own, bad UTF-8 and too many digits (ValueError),
    deep nesting."""
    import msgspec

    return (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)


def _check_length(
    data: bytes | bytearray | memoryview | str, what: str, most_bytes: int
) -> None:
    length = data.nbytes if isinstance(data, memoryview) else len(data)
    if length > most_bytes:
        raise Malformed(f"not {what}: {length} bytes are more than {most_bytes}")


def _malformed(what: str, error: Exception) -> Malformed:
    if isinstance(error, RecursionError):
        return Malformed(f"not {what}: nested too deeply")
    return Malformed(f"not {what}: {printable(str(error))[:_SHOWN]}")
