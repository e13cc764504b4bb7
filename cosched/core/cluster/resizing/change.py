"""Describes a change of a malleable job's size, as it stands in the page of each node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Struct

from cosched.core.bounds import Name, Positive, Slots
from cosched.core.decoding import MessagePackDecoder, is_whole, parse_integer

#: The most bytes of a change: COSCHED_PAGE_ORDER_BYTES of ``page.h``.
CHANGE_MOST = 1 << 16
#: A number of an order of a job; 0 is the job's begin.
Generation = Annotated[int, msgspec.Meta(ge=1, lt=1 << 62)]
#: The option of Python, and the variable of a program in C, by which the command of new
#: ranks names the order that starts them.
OPTION, VARIABLE = "cosched-generation", "COSCHED_GENERATION"
#: How many words of a command can name it: ``python -X OPTION=7``, ``env VARIABLE=7``.
_FIRST_WORDS = 3


class Arrival(Struct, frozen=True):
    """Ranks that come to a node."""

    place: Slots  #: of the node in the job
    host: Name  #: as MPI_Comm_spawn takes it; empty: any node
    ranks: Positive  #: how many


class Change(Struct, frozen=True):
    """A committed change: some nodes leave, and some ranks come."""

    generation: Generation  #: of the order
    leaving: tuple[Slots, ...]  #: places of nodes, all of whose ranks leave
    arriving: tuple[Arrival, ...]  #: in the order of their ranks


_decoder: MessagePackDecoder[Change] = MessagePackDecoder(
    Change, "a change of a job's size", CHANGE_MOST
)


def encode_change(change: Change) -> bytes:
    """Returns a change as it stands in a page."""
    return msgspec.msgpack.encode(change)


def decode_change(data: bytes) -> Change:
    """Returns the change that a page has. Raises Malformed."""
    return _decoder.decode(data)


def generation_of(argv: Sequence[str]) -> int:
    """Returns the order of a change that starts ranks with this command; 0: the program
    itself starts them."""
    for word in argv[:_FIRST_WORDS]:
        name, _, number = word.partition("=")
        if name in (OPTION, VARIABLE) and is_whole(number, 1, (1 << 62) - 1):
            return parse_integer(number, name, 1, (1 << 62) - 1)
    return 0
