"""Makes the messages that each kind of sender may send, by their types.

Each entry makes one message from a source of shapes. The types are those of the product, so
a new message or field is part of the fuzz at once.
"""

from __future__ import annotations

import typing
from collections.abc import Callable

import msgspec

from cosched.cluster.coupling.mail import AnyMessage as BetweenJobs
from cosched.cluster.engines.slurm.waiting_gates import GateHello
from cosched.cluster.messages import AnyMessage, BetweenDomains, Leave, Refused, Roster
from cosched.cluster.submission import Submission
from cosched.shm._native import ffi, lib
from tests.fuzz.shapes import Shapes, as_json, packed, spoiled_bytes

#: Messages that would end their receiver, or cut it off, by right: the controller may send
#: them.
ENDING = (Leave, Refused, Roster)
MEMBER_MESSAGES = tuple(kind for kind in typing.get_args(AnyMessage) if kind not in ENDING)
DOMAIN_REQUESTS = (
    "submit",
    "queue",
    "job",
    "tasks",
    "wait",
    "ended",
    "cancel",
    "hold",
    "unhold",
    "resize",
    "nodes",
    "pairs",
    "mates",
    "domains",
    "drain",
    "undrain",
    "reload",
    "input",
    "nothing",
)
NODE_REQUESTS = (
    "status",
    "set",
    "relearn",
    "turn",
    "why",
    "history",
    "mode",
    "borrow",
    "forget",
    "give_back",
    "nothing",
)
ENVELOPE = 9


class DomainRequest(msgspec.Struct):
    """The fields that requests to a domain have."""

    do: typing.Literal[DOMAIN_REQUESTS]  # type: ignore[valid-type]
    job: int | Submission
    until: typing.Literal["ended", "running", "never"]
    ended: int
    jobs: list[int]
    within: float
    names: list[str]
    start: int
    node: str
    at: int
    data: bytes
    last: bool


class NodeRequest(msgspec.Struct):
    """The fields that requests to a node's daemon have."""

    op: typing.Literal[NODE_REQUESTS]  # type: ignore[valid-type]
    job: str
    mode: str
    since_wall_ns: int
    memory: bool
    values: dict[str, str]
    count: int


def domain_request(shapes: Shapes) -> bytes:
    """Returns a request of a user to a controller or an agent."""
    return as_json(shapes.chance, shapes.spoiled(DomainRequest))


def node_request(shapes: Shapes) -> bytes:
    """Returns a request of a user to a scheduler daemon."""
    return as_json(shapes.chance, shapes.spoiled(NodeRequest))


def registration(shapes: Shapes) -> bytes:
    """Returns a hello of a task, with fields beyond their ranges or of a wrong length."""
    chance = shapes.chance
    hello = ffi.new("struct cosched_hello *")
    data = bytearray(chance.randbytes(ffi.sizeof(hello[0])))
    if chance.random() < 0.9:
        ffi.memmove(hello, bytes(data), len(data))
        hello.magic, hello.abi = lib.COSCHED_HELLO_MAGIC, lib.COSCHED_ABI
        hello.phase = chance.choice((0, 1, 2, 1 << 31))
        hello.carrier = chance.choice((0, 1, 2, 3))
        name = chance.choice((b"x" * 64, b"a/b", b"../x", b"\xff", b"", b"a\nb"))
        ffi.memmove(hello.job, name.ljust(64, b"\0"), 64)
        data = bytearray(ffi.buffer(hello))
    return spoiled_bytes(chance, bytes(data)) if chance.random() < 0.2 else bytes(data)


def member_message(shapes: Shapes) -> bytes:
    """Returns a message of a node to another member."""
    kind = shapes.chance.choice(MEMBER_MESSAGES)
    return packed(shapes.chance, shapes.spoiled(kind))


def peer_message(shapes: Shapes) -> bytes:
    """Returns a message of a coupled domain."""
    chance = shapes.chance
    if chance.random() < 0.1:
        return member_message(shapes)
    inner = packed(chance, shapes.spoiled(BetweenJobs))
    return packed(chance, [BetweenDomains.__name__, inner])


def envelope(shapes: Shapes) -> bytes:
    """Returns what stands where an envelope of a message should be."""
    return packed(shapes.chance, shapes.spoiled(tuple[(int,) * (ENVELOPE - 1) + (bytes,)]))


def gate_hello(shapes: Shapes) -> bytes:
    """Returns the line of a gate of Slurm."""
    return as_json(shapes.chance, shapes.spoiled(GateHello))


def http_request(shapes: Shapes) -> bytes:
    """Returns what stands where a request for metrics should be."""
    chance = shapes.chance
    path = chance.choice(("/metrics", "/", "/" + "a" * 9000, "/\r\nx: y", "/%ff", "*"))
    method = chance.choice(("GET", "POST", "G\xffT", "", "GET" * 1000))
    head = chance.choice(("", "Host: x\r\n", "Content-Length: -1\r\n", "x" * 70_000))
    data = f"{method} {path} HTTP/{chance.choice(('1.1', '9', ''))}\r\n{head}\r\n".encode()
    return spoiled_bytes(chance, data)


Make = Callable[[Shapes], bytes]
MAKERS: dict[str, Make] = {
    each.__name__: each
    for each in (
        domain_request,
        node_request,
        registration,
        member_message,
        peer_message,
        envelope,
        gate_hello,
        http_request,
    )
}


def any_of(*makers: Make) -> Make:
    """Returns a maker that uses one of these each time."""

    def make(shapes: Shapes) -> bytes:
        return shapes.chance.choice(makers)(shapes)

    return make
