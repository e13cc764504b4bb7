"""Stands in for an MPI task: registers like the shim and follows commands.

Usage: task.py SOCKET JOB [RANK]. Commands on stdin, one answer line on stdout each:

    status        -> EPOCH SCHEDULED
    arrive 0|1    a message whose sender was (un)scheduled -> POSTED so far
    pause         -> 1 if it slept, 0 if it may run
    spin SECONDS  burns CPU, at most until the next command -> CPU seconds used
    work FILE PLACE SLOWDOWN
                  marks an iteration each millisecond, or later by SLOWDOWN while another
                  place of FILE works -> nothing; it goes on until it is killed
    leave         CMDOUT -> bye
"""

from __future__ import annotations

import mmap
import os
import select
import sys
import time

from cosched.shm._native import ffi, lib

#: A place that worked so lately still does.
FRESH_NS = 20_000_000


def main() -> None:
    socket, job, *rest = sys.argv[1:]
    become(int(os.environ.get("TASK_UID", "0")))
    link = ffi.new("struct cosched_link *")
    carrier = lib.COSCHED_CARRIER_PREFIX
    rank = int(rest[0]) if rest else 0
    name = ffi.new("char[]", job.encode())
    part = ffi.new("struct cosched_registration *")
    part.job, part.rank, part.world, part.carrier = name, rank, 2, carrier
    part.limited_by = int(os.environ.get("TASK_LIMITS", "0"))
    part.memory_bytes = int(os.environ.get("COSCHED_MEMORY", "0"))
    error = lib.cosched_attach(link, socket.encode(), part, 2000)
    print(error, ffi.string(link.reason).decode(), flush=True)
    for line in sys.stdin:
        word, *arguments = line.split()
        if word == "status":
            value = int(link.region.status.word) if link.region else 1
            print(value >> 1, lib.cosched_is_scheduled(link), flush=True)
        elif word == "arrive":
            lib.cosched_looked(link)
            lib.cosched_arrived(link, int(arguments[0]))
            print(int(link.counters.posted), flush=True)
        elif word == "pause":
            print(lib.cosched_sleep_unscheduled(link), flush=True)
        elif word == "spin":
            before, end = time.process_time(), time.monotonic() + float(arguments[0])
            while time.monotonic() < end and not select.select([0], [], [], 0)[0]:
                pass
            print(time.process_time() - before, flush=True)
        elif word == "work":
            work(link.counters, arguments[0], int(arguments[1]), float(arguments[2]))
        elif word == "leave":
            lib.cosched_detach(link)
            print("bye", flush=True)
            return


def work(counters, path, place, slowdown):
    """Marks iterations. FILE has two times: when each place worked last."""
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 16) as shared:
        times = memoryview(shared).cast("Q")
        while True:
            now_ns = times[place] = time.monotonic_ns()
            beside = now_ns - times[1 - place] < FRESH_NS
            time.sleep(0.001 * (slowdown if beside else 1.0))
            counters.marks += 1


def become(uid: int) -> None:
    """Becomes another user; only now, because root alone may read this tree."""
    if uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)


if __name__ == "__main__":
    main()
