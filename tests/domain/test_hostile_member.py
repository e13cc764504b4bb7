"""A node with a key of the domain cannot make other nodes run what it wants. No message of
it and no line of a user ends a member of the domain."""

import asyncio
import json
import socket
import time

import msgspec
import pytest

from cosched.cluster.keys import load_keys
from cosched.cluster.links import Links
from cosched.cluster.messages import (
    PROTOCOL,
    Chunk,
    Credit,
    End,
    Hello,
    Order,
    Output,
    Roster,
    SubtreeEnded,
    Tables,
    encode,
)
from cosched.cluster.size_messages import Admit
from cosched.core.cluster.startup.jobobject import (
    WorldObject,
    decode_object,
    encode_object,
)
from cosched.core.cluster.startup.questions import Command, Spawn
from cosched.core.cluster.startup.seal import Tied, seal
from cosched.core.names import CONTROLLER
from tests.domain.played import object_of
from tests.domain.rig import QUICK, Rig

NODES = ((0, 1),)


async def send(rig, sender, to, messages):
    keys = load_keys(rig.paths.keys, sender, rig.config.members)
    links = Links(keys, rig.config.addresses, print)
    links.listen(rig.config.nodes[sender])
    try:
        for message in messages:
            links.send(to, message)
            await asyncio.sleep(1)  # the tasks wait at their gate
    finally:
        links.close()


def test_forged_job_object_starts_nothing(make_rig):
    rig = make_rig(2)
    rig.start("controller", "n2")
    rig.until_up("n2")
    data = object_of(rig, 99, (1, 1), "/bin/sh", "-c", "touch forged")
    guessed = seal(data, Tied(99, 1, NODES, 2, "siblings"), [b"guess"] * 2)
    for number, whole in ((98, data), (99, guessed)):
        # n1's key is in the wrong hands: it claims to be the root of a job with n2.
        chunk = Chunk(number, 1, 1, NODES, 2, "siblings", 0, 1, 0, whole)
        messages = [chunk, Order(number, 1, go=True)]
        asyncio.run(send(rig, "n1", "n2", messages))
    assert rig.wait(rig.shell("true"))["state"] == "done"
    assert not (rig.work / "forged").exists()
    assert not rig.strays("touch forged")


def test_node_admits_no_other_node_to_a_job(make_rig):
    """n1's key is in the wrong hands: n2 may have no page and no world for its job."""
    rig = make_rig(2)
    rig.start("controller", "n2")
    rig.until_up("n2")
    argv = ("/bin/sh", "-c", "touch forged")
    job = decode_object(object_of(rig, 99, (1,), *argv))
    data = encode_object(msgspec.structs.replace(job, malleable=True))
    world = WorldObject((1,), Spawn((Command(argv, 1),), {}))
    messages = [
        Admit(99, 1, 1, 1, ((0, 0), (1, 1)), (0, 1), data),
        Chunk(99, 1, 0, ((1, 1),), 8, "siblings", 0, 1, 0, encode_object(world), world=1),
        Order(99, 1, go=True, world=1),
    ]
    asyncio.run(send(rig, "n1", "n2", messages))
    rig.until(lambda: "n1 may not change its nodes" in rig.log("n2"), "is not refused")
    assert rig.wait(rig.shell("true"))["state"] == "done"
    assert not list(rig.paths.spool("n2").glob("99.*"))
    assert not (rig.work / "forged").exists()


# --- what it sends ends no member ---------------------------------------------------------

#: Lines of a user that no decoder may let through.
LINES = [
    b'{"do":"\xff"}',
    b'{"do":"input","node":"\xff"}',
    b'{"do":"submit","job":{"token":"\xff"}}',
    b'{"do":' + b"[" * 200_000,
    b'{"do":"job","job":' + b"9" * 6000 + b"}",
    b'{"do":"job","job":1e999}',
    b'{"do":"wait","job":-1}',
    b'{"do":"cancel","job":true}',
    b'{"do":["submit"]}',
    b'{"do":"submit","job":{"argv":["\\ud800"]}}',
    b'{"do":"queue","ended":-9223372036854775809}',
    b'{"do":"drain","names":{"n1":1}}',
    b'{"do":"input","job":1,"start":1,"node":"n1","at":-9,"data":"!","last":0}',
    b"[]",
    b"7",
    b"\x00",
]


def say(path, line):
    """Returns what a member answers to a line of a user; nothing if it closes."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(path))
        connection.sendall(line + b"\n")
        with connection.makefile("rb") as answers:
            return answers.readline()


def pids(rig):
    return {name: process.pid for name, process in rig.members.items()}


def check_all_serve(rig, before):
    """Checks that each member is the same process, and runs a job."""
    assert {name for name, each in rig.members.items() if each.poll() is not None} == set()
    assert pids(rig) == before
    assert rig.wait(rig.shell("true", by="n2"))["state"] == "done"


def test_lines_of_a_user_end_no_member(make_rig):
    rig = make_rig(2)
    rig.start()
    rig.until_up()
    before = pids(rig)
    for path in (rig.paths.controller_socket, rig.paths.agent_socket("n1")):
        for line in LINES:
            answer = json.loads(say(path, line))
            assert set(answer) == {"error"}, (line[:60], answer)
            assert "\n" not in answer["error"]
    check_all_serve(rig, before)


def test_lines_of_a_user_do_not_fill_the_log(make_rig):
    rig = make_rig(1)
    rig.start()
    rig.until_up()
    before = {name: len(rig.log(name)) for name in rig.members}
    for _ in range(500):
        say(rig.paths.agent_socket("n1"), LINES[0])
        say(rig.paths.controller_socket, LINES[1])
    for name in rig.members:
        assert len(rig.log(name)) - before[name] < 2000


def part(number, place=1, nodes=NODES, root=0, which=0, count=2, world=0, arity=8):
    """A part of an object that never comes: n1 is the parent of n2 in a job."""
    return [
        "Chunk",
        world,
        number,
        1,
        place,
        nodes,
        arity,
        "siblings",
        which,
        count,
        root,
        b"x",
    ]


def raw(message):
    """Returns the elements of a message, to be changed where its type forbids that."""
    return msgspec.msgpack.decode(encode(message))


def tables(number, places, data=(b"x",), exchange=0):
    return raw(Tables(number, 1, exchange, places, data, True))


BEATEN = 2**63
TO_NODE = {
    "bad text": [b"\x93\xa7Refused\xa1\xff\x01"],
    "no message": [b"\xc1", b"", b"\x91" * 5000],
    "negative nodes": [part(1, 0, [[-5, 0]])],
    "very negative nodes": [part(2, 0, [[-(2**62), 0]])],
    "negative root": [part(3, root=-9, world=1)],
    "unknown root": [part(4, root=2**20, world=1)],
    "a node twice": [part(5, 0, [[0, 0]] * 20_000)],
    "nodes backwards": [part(6, 0, [[1, 0]])],
    "huge count": [part(7, count=2**62)],
    "negative number": [part(8, which=-1)],
    "no count": [part(9, count=0)],
    "number above the count": [part(10, which=5)],
    "two counts": [part(11, which=1), part(11, count=1)],
    "no arity": [part(12, arity=0)],
    "a place of another": [part(13), tables(13, (99,))],
    "the own place": [part(14), tables(14, (1,))],
    "no places": [part(15), tables(15, ())],
    "places without data": [part(16), tables(16, (0,), ())],
    "a far exchange": [part(17), tables(17, (0,), exchange=2**40)],
    "credit": [
        part(18),
        raw(Credit(18, 1, 99, 5)),
        ["Credit", 0, 18, 1, 1, -5],
        ["Credit", 0, 18, 1, 1, BEATEN],
    ],
    "output": [part(19), raw(Output(19, 1, 1, 1, b"x")), ["Output", 0, 19, 1, 1, 7, b"x"]],
    "ends": [
        part(21),
        raw(End(21, 1, "\x1b[31m\nforged", False)),
        raw(End(21, 1, "again", True)),
        raw(SubtreeEnded(21, 1, None)),
    ],
    "another roster": [raw(Roster(2**61, ()))],
    "questions": [part(22), ["Ask", 0, 22, 1, -1, ["Lookup", "x"]]],
}


def hello(rig, totals, starts=()):
    return ["Hello", PROTOCOL, 5, rig.config.digest("n1"), totals, starts]


def submitted(uid, gid):
    job = {"token": f"{uid}.{gid}", "name": "x", "argv": ["/bin/true"], "environ": {}}
    body = {"do": "submit", "job": {**job, "cwd": "/", "output": "/dev/null"}}
    return ["UserRequest", 1, uid, gid, json.dumps(body).encode()]


TO_CONTROLLER = {
    "bad text": lambda rig: [b"\x93\xa7Refused\xa1\xff\x01"],
    "users": lambda rig: [
        submitted(*each)
        for each in [
            (BEATEN, 5),
            (2**64 - 1, 5),
            (1000, BEATEN),
            (-5, -5),
            (2**40, 2**40),
            (2**32 - 1, 5),
        ]
    ],
    "requests": lambda rig: [
        ["UserRequest", 1, 1000, 1000, line] for line in LINES if len(line) < 10_000
    ],
    "no slots": lambda rig: [hello(rig, {})],
    "far starts": lambda rig: [hello(rig, {"slots": 4}, [[1, BEATEN, "zzz", 5, True]])],
    "many starts": lambda rig: [
        hello(rig, {"slots": 4}, [[n, 1, "running", 5, True] for n in range(20_000)])
    ],
    "unknown starts": lambda rig: [
        ["Began", 0, n, 1, 5] for n in range(2**43 - 5, 2**43 + 5)
    ],
    "late reports": lambda rig: [["StartFailed", 0, 1, 1, 2**40, "x", True]],
}


async def send_raw(rig, to, messages):
    """Sends messages to a member with the key of n1, whatever is in them."""
    keys = load_keys(rig.paths.keys, "n1", rig.config.members)
    links = Links(keys, rig.config.addresses, print)
    links.listen(rig.config.nodes["n1"])
    arrived = asyncio.ensure_future(links.receive(lambda *_: None))
    try:
        if to == CONTROLLER:
            links.send(to, Hello(PROTOCOL, 5, rig.config.digest("n1"), {"slots": 4}, ()))
        delivery = links._peer(to).delivery
        for message in messages:
            data = (
                message if isinstance(message, bytes) else msgspec.msgpack.encode(message)
            )
            links._transmit(to, delivery.send(data, time.monotonic_ns()))
        links._set_timer(to, links._peer(to))
        while delivery._unconfirmed:
            await asyncio.sleep(0.02)
    finally:
        arrived.cancel()
        links.close()


@pytest.fixture(scope="module")
def robbed(tmp_path_factory):
    """A domain of two nodes; the key of n1 is in the wrong hands."""
    rig = Rig(tmp_path_factory.mktemp("robbed"), 2, life=QUICK, forks=True)
    rig.start(CONTROLLER, "n2")
    rig.until_up("n2")
    yield rig
    rig.close()


@pytest.mark.parametrize("what", TO_NODE)
def test_messages_of_a_node_end_no_other_node(robbed, what):
    before = pids(robbed)
    asyncio.run(asyncio.wait_for(send_raw(robbed, "n2", TO_NODE[what]), 20))
    check_all_serve(robbed, before)
    assert "\x1b" not in robbed.log("n2")


@pytest.mark.parametrize("what", TO_CONTROLLER)
def test_messages_of_a_node_do_not_end_the_controller(robbed, what):
    before = pids(robbed)
    messages = TO_CONTROLLER[what](robbed)
    asyncio.run(asyncio.wait_for(send_raw(robbed, CONTROLLER, messages), 60))
    check_all_serve(robbed, before)
