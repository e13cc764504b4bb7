"""Attacks a node's daemons as the user TASK_UID, until its standard input ends.

Usage: attack.py NODE_DIRECTORY KIND PROCESSES [TIMES]. It writes a line when the attack has
begun.

    bells              each process is a job that fills its ring and rings all the time
    connect-register   connects to the registration socket and closes, all the time
    connect-control    the same at the control socket
    join               each process registers as a task of one new job after another; with
                       TIMES only so often, and then the program ends
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cosched.shm._native import ffi, lib
from tests.tools.task import become


def attach(directory: Path, job: str) -> Any:
    link = ffi.new("struct cosched_link *")
    name = ffi.new("char[]", job.encode())
    part = ffi.new("struct cosched_registration *")
    part.job, part.rank, part.world = name, 0, 1
    part.carrier = lib.COSCHED_CARRIER_PREFIX
    path = bytes(directory / "register.sock")
    error = lib.cosched_attach(link, path, part, 60_000)
    assert error == 0, ffi.string(link.reason)
    return link


def bells(directory: Path, number: int, begun: Callable[[], None]) -> None:
    link = attach(directory, f"bells{number}")
    begun()
    ring = ffi.addressof(link.region.ring)
    while True:
        epoch = int(link.region.status.word) >> 1
        while lib.cosched_request_post(ring, lib.COSCHED_CMDSCH, link.slot, epoch) == 0:
            pass
        with contextlib.suppress(BlockingIOError):
            os.write(link.bell, b"\1")
        time.sleep(0.002)


def connect(path: Path, kind: int, begun: Callable[[], None]) -> None:
    begun()
    while True:
        with socket.socket(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK) as client:
            try:
                client.connect(str(path))
            except OSError:
                time.sleep(0)


def join(directory: Path, number: int, begun: Callable[[], None], times: int) -> None:
    begun()
    for count in range(times):
        lib.cosched_abandon(attach(directory, f"join{number}x{count}"))


def attack(
    directory: Path, kind: str, number: int, begun: Callable[[], None], times: int
) -> None:
    become(int(os.environ["TASK_UID"]))
    if kind == "bells":
        bells(directory, number, begun)
    elif kind == "join":
        join(directory, number, begun, times)
    elif kind == "connect-register":
        connect(directory / "register.sock", socket.SOCK_SEQPACKET, begun)
    else:
        connect(directory / "control.sock", socket.SOCK_STREAM, begun)


def main() -> None:
    directory, kind, processes = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    times = int(sys.argv[4]) if len(sys.argv) > 4 else sys.maxsize
    read_end, write_end = os.pipe()
    children = []
    for number in range(processes):
        child = os.fork()
        if child == 0:
            os.close(0)
            code = 1
            try:
                attack(directory, kind, number, lambda: os.write(write_end, b"."), times)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    for _ in children:
        os.read(read_end, 1)
    print("attacking", flush=True)
    if times == sys.maxsize:
        sys.stdin.read()
        for child in children:
            os.kill(child, signal.SIGKILL)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(0 if times == sys.maxsize else max(codes))


if __name__ == "__main__":
    main()
