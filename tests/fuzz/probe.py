"""Measures how long the requests of another user take.

usage: python -m tests.fuzz.probe UID PLACES (a JSON object: sockets by name)

Each place gets a request, one after the other, until standard input ends. For each line of
standard input it prints one line of JSON: the seconds of each request since the last one.
A request that fails counts as one of PATIENCE_S seconds.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import time
from collections.abc import Callable

from cosched.shm._native import ffi, lib

PAUSE_S = 0.05
PATIENCE_S = 60.0


def ask(place: str, line: bytes) -> None:
    """Sends one line and reads the answer."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE_S)
        connection.connect(place)
        connection.sendall(line)
        answer = b""
        while not answer.endswith(b"\n"):
            more = connection.recv(1 << 20)
            if not more:
                raise ConnectionError(f"{place}: closed without an answer")
            answer += more


def register(place: str) -> None:
    """Registers a process as the only task of a job; it ends at once."""
    hello = ffi.new("struct cosched_hello *")
    hello.magic, hello.abi = lib.COSCHED_HELLO_MAGIC, lib.COSCHED_ABI
    hello.world, hello.phase = 1, lib.COSCHED_PHASE_TASK
    hello.carrier = lib.COSCHED_CARRIER_NONE
    name = f"probe-{os.getpid()}".encode()
    ffi.memmove(hello.job, name, len(name))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(PATIENCE_S)
        connection.connect(place)
        connection.send(bytes(ffi.buffer(hello)))
        data, descriptors, _, _ = socket.recv_fds(connection, 4096, 2)
        for descriptor in descriptors:
            os.close(descriptor)
        if not data:
            raise ConnectionError(f"{place}: closed without an answer")


def _register_child(place: str) -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            register(place)
            status = 0
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1]:
        raise ConnectionError(f"{place}: a process could not register")


PROBES: dict[str, Callable[[str], None]] = {
    "control": lambda place: ask(place, b'{"op": "status", "memory": false}\n'),
    "register": _register_child,
    "controller": lambda place: ask(place, b'{"do": "queue"}\n'),
    "agent": lambda place: ask(place, b'{"do": "queue"}\n'),
}


def main() -> None:
    uid, places = int(sys.argv[1]), json.loads(sys.argv[2])
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    took: dict[str, list[float]] = {name: [] for name in places}
    while True:
        for name, place in places.items():
            began = time.monotonic()
            try:
                PROBES[name](place)
                took[name].append(time.monotonic() - began)
            except OSError as error:
                print(f"{name}: {error}", file=sys.stderr, flush=True)
                took[name].append(PATIENCE_S)
            if select.select([sys.stdin], [], [], PAUSE_S)[0]:
                if not sys.stdin.readline():
                    return
                print(json.dumps(took), flush=True)
                took = {each: [] for each in places}


if __name__ == "__main__":
    main()
