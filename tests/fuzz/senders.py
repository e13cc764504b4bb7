"""Sends malformed messages, as a user, a stolen key of a node, or a hostile domain would.

usage: python -m tests.fuzz.senders JOB (a JSON object: see ``Job``)

It prints one line of JSON: how many messages left, by border. A receiver that closes a
connection or makes its sender wait is right to do so; the sender connects again.

The first messages are those of ``corpus.json``: each of them did harm once.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import signal
import socket
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import zmq

from cosched.cluster.keys import load_keys
from tests.fuzz.kinds import MAKERS
from tests.fuzz.shapes import Shapes

CORPUS = Path(__file__).with_name("corpus.json")
#: Messages that are drawn once are sent this often, in another order each time.
USES = 20
BATCH = 1000
#: Messages on one connection, if the receiver leaves it open.
PER_CONNECTION = 50
ANSWER_S = 2.0
#: One connection in this many stays open until it is closed or ANSWER_S is over. The others
#: end their half at once, so that their receivers need not wait for more.
PATIENT = 50
#: Messages under way to a member; beyond them the sender waits.
UNDER_WAY = 1000


class Job(msgspec.Struct):
    """One sender. maker: its name in ``kinds.MAKERS``. place: a socket's path or HOST:PORT.
    uid: as which it runs. seconds: when it ends, if not all messages have left before.
    keys, own, to: for a member's socket, the folder of keys and the two names."""

    border: str
    maker: str
    place: str
    count: int
    seed: int
    uid: int = 0
    seconds: float = 600.0
    kind: str = "stream"
    keys: str = ""
    own: str = ""
    to: str = ""


def corpus(maker: str) -> list[bytes]:
    """Returns the messages that did harm once, of one maker."""
    entries = json.loads(CORPUS.read_text())
    return [
        zlib.decompress(base64.b64decode(entry["data"]))
        for entry in entries
        if entry["maker"] == maker
    ]


def messages(maker: str, seed: int, count: int) -> Iterator[bytes]:
    """Yields ``count`` messages: those of the corpus, then others, drawn by this seed."""
    chance = random.Random(seed)
    shapes, make = Shapes(chance), MAKERS[maker]
    known = corpus(maker)[:count]
    yield from known
    drawn: list[bytes] = []
    for number in range(count - len(known)):
        if number % (BATCH * USES) == 0:
            drawn = [make(shapes) for _ in range(min(BATCH, count))]
        yield chance.choice(drawn)


class Tally:
    """Counts the messages that left."""

    def __init__(self) -> None:
        self.sent = 0


def send_stream(job: Job, made: Iterator[bytes], until: float, tally: Tally) -> None:
    """Sends to a Unix or TCP socket, and reads answers."""
    seqpacket = job.kind == "packet"
    connect = _connector(job.place, socket.SOCK_SEQPACKET if seqpacket else None)
    connection, used = None, 0
    for data in made:
        if time.monotonic() > until:
            break
        if connection is None or used >= PER_CONNECTION:
            if connection is not None:
                connection.close()
            connection, used = connect(), 0
            if connection is None:
                time.sleep(0.01)
                continue
        try:
            connection.sendall(data)
            tally.sent, used = tally.sent + 1, used + 1
            if job.kind == "once" and tally.sent % PATIENT:
                connection.shutdown(socket.SHUT_WR)
            if not connection.recv(65536) or seqpacket or job.kind == "once":
                connection.close()
                connection = None
        except OSError:
            connection.close()
            connection = None
    if connection is not None:
        connection.close()


def _connector(place: str, kind: int | None) -> Callable[[], socket.socket | None]:
    host, _, port = place.rpartition(":")
    is_tcp = port.isdecimal() and "/" not in place
    family = socket.AF_INET if is_tcp else socket.AF_UNIX
    address = (host, int(port)) if is_tcp else place

    def connect() -> socket.socket | None:
        connection = socket.socket(family, kind or socket.SOCK_STREAM)
        connection.settimeout(ANSWER_S)
        try:
            connection.connect(address)
        except OSError:
            connection.close()
            return None
        return connection

    return connect


def send_member(job: Job, made: Iterator[bytes], until: float, tally: Tally) -> None:
    """Sends with the key of a member: messages in proper envelopes, or only envelopes."""
    ring = load_keys(Path(job.keys), job.own, [job.own, job.to])
    chance = random.Random(job.seed)
    session, number = chance.getrandbits(60) | 1, 0
    with zmq.Context() as context, context.socket(zmq.DEALER) as link:
        link.curve_serverkey = ring.public[job.to]
        link.curve_secretkey = ring.secret
        link.curve_publickey = ring.own_public
        link.sndhwm = UNDER_WAY
        link.sndtimeo = 500
        link.linger = 0
        link.connect(f"tcp://{job.place}")
        for data in made:
            whole = data
            if job.maker != "envelope":
                number += 1
                wire = (session, 1, number, 0, 0, 0, 0, 0, data)
                whole = msgspec.msgpack.encode(wire)
            while time.monotonic() < until:
                try:
                    link.send(whole)
                except zmq.Again:
                    continue
                tally.sent += 1
                break
            else:
                break


def send_garbage(job: Job, made: Iterator[bytes], until: float, tally: Tally) -> None:
    """Sends to a TCP port without any key, and never reads."""
    connect = _connector(job.place, None)
    for data in made:
        if time.monotonic() > until:
            return
        connection = connect()
        if connection is None:
            continue
        with connection, contextlib.suppress(OSError):
            connection.sendall(data)
            tally.sent += 1


def run(job: Job, tally: Tally) -> None:
    """Sends what a job wants."""
    if job.uid:
        os.setgroups([])
        os.setresgid(job.uid, job.uid, job.uid)
        os.setresuid(job.uid, job.uid, job.uid)
    os.nice(5)
    made = messages(job.maker, job.seed, job.count)
    until = time.monotonic() + job.seconds
    send = {"member": send_member, "garbage": send_garbage}.get(job.kind, send_stream)
    send(job, made, until, tally)


def main() -> None:
    """Sends until all messages have left, the time is over, or SIGTERM comes."""
    job = msgspec.json.decode(sys.argv[1], type=Job)
    tally = Tally()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        run(job, tally)
    finally:
        print(json.dumps({"border": job.border, "sent": tally.sent}), flush=True)


if __name__ == "__main__":
    main()
