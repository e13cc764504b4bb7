"""Carries bytes of the system, such as paths and arguments, as text in messages.

Linux names are bytes, mostly in UTF-8. JSON and MessagePack carry UTF-8 alone. In *wire
text* a byte that is not UTF-8 is one of the characters U+10FF80 to U+10FFFF, which no name
needs. A name that has one of them all the same is carried byte by byte, too. So each name
comes back as it was, and a name in UTF-8 is itself.
"""

from __future__ import annotations

import re

_FIRST_SURROGATE = 0xDC00
_FIRST_CARRIER = 0x10FF00
_TO_CARRY = "[\udc80-\udcff\U0010ff80-\U0010ffff]"
_CARRIERS = "[\U0010ff80-\U0010ffff]"


def wire_from_bytes(data: bytes) -> str:
    """Returns bytes as wire text."""
    text = data.decode("utf-8", "surrogateescape")
    return text if text.isascii() else re.sub(_TO_CARRY, _carry, text)


def wire_to_bytes(text: str) -> bytes:
    """Returns the bytes that wire text carries. Raises UnicodeEncodeError for lone
    surrogates, which wire text has not."""
    if text.isascii() or re.search(_CARRIERS, text) is None:
        return text.encode()
    return re.sub(_CARRIERS, _uncarry, text).encode("utf-8", "surrogateescape")


def _carry(found: re.Match[str]) -> str:
    data = found.group().encode("utf-8", "surrogateescape")
    return "".join(chr(_FIRST_CARRIER + byte) for byte in data)


def _uncarry(found: re.Match[str]) -> str:
    return chr(ord(found.group()) - _FIRST_CARRIER + _FIRST_SURROGATE)
