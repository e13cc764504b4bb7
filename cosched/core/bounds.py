"""Defines types of numbers and names with a range, for messages that ``decoding`` reads.

A field that comes from another process has one of them, so that no number overflows, no
index is negative and no name forges a line of a log.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from cosched.core.rates import RATE_LEAST, RATE_MOST

#: Numbers that are stored or reckoned with.
NATURAL_MOST = (1 << 62) - 1
Natural = Annotated[int, msgspec.Meta(ge=0, le=NATURAL_MOST)]
#: The number that a domain gives a job; an inventory adds 20 bits to it.
JOB_MOST = (1 << 43) - 1
JobNumber = Annotated[int, msgspec.Meta(ge=1, le=JOB_MOST)]
#: A place in a stream of bytes; -1: at its end.
Offset = Annotated[int, msgspec.Meta(ge=-1, lt=1 << 62)]
#: Tasks, slots and places of one domain.
SLOTS_MOST = 1 << 20
Slots = Annotated[int, msgspec.Meta(ge=0, le=SLOTS_MOST)]
#: How many of something there is, of which there is one at least.
Positive = Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
#: An exit status as a shell reports it.
Status = Annotated[int, msgspec.Meta(ge=0, le=255)]
#: A stream of a task: 1 is its standard output, 2 its standard error.
Stream = Annotated[int, msgspec.Meta(ge=1, le=2)]
#: The permissions that a new file lacks.
Umask = Annotated[int, msgspec.Meta(ge=0, le=0o777)]
#: A duration, up to thirty years.
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
#: Users and groups; the kernel takes 2^32-1 as "unchanged".
UID_MOST = (1 << 32) - 2
UserId = Annotated[int, msgspec.Meta(ge=0, le=UID_MOST)]
GroupId = Annotated[int, msgspec.Meta(ge=0, le=UID_MOST)]
#: A public key of a member, in Z85.
CURVE_KEY_LENGTH = 40
CurveKey = Annotated[
    bytes, msgspec.Meta(min_length=CURVE_KEY_LENGTH, max_length=CURVE_KEY_LENGTH)
]
#: The rate of a link, in bits a second.
Rate = Annotated[int, msgspec.Meta(ge=RATE_LEAST, le=RATE_MOST)]
#: A limit of a process; -1: unlimited.
Limit = Annotated[int, msgspec.Meta(ge=-1, lt=1 << 62)]
#: A name on one line: no control characters, at most 255 characters.
Name = Annotated[
    str,
    msgspec.Meta(max_length=255, pattern="^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\\Z"),
]
