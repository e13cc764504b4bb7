"""Simulates heat in a rod on all its ranks, and sends pictures of it to its mate.

Run it as a job whose mate in another domain is analysis.py; COSCHED_MATES has the address.
usage: simulation.py PORT [STEPS]
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

from mpi4py import MPI

from cosched.core.hostlist import expand_hosts

CELLS = 400  # on each rank
EVERY = 50  # steps between two pictures
CONNECT_WITHIN_S = 30.0


def mate_host() -> str:
    """Returns the first node of the only mate: n1 for eureka=812@n[1-4]."""
    return expand_hosts(os.environ["COSCHED_MATES"].partition("@")[2])[0]


def connect(port: int) -> socket.socket:
    """Connects to the analysis, which may begin some milliseconds later."""
    end = time.monotonic() + CONNECT_WITHIN_S
    while True:
        try:
            return socket.create_connection((mate_host(), port), timeout=CONNECT_WITHIN_S)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def step_of(heat: list[float], world: MPI.Intracomm) -> list[float]:
    """Returns the cells after one step; the first and the last one belong to neighbours."""
    rank, last = world.rank, world.size - 1
    left = rank - 1 if rank > 0 else MPI.PROC_NULL
    right = rank + 1 if rank < last else MPI.PROC_NULL
    from_left = world.sendrecv(heat[-2], dest=right, source=left)
    from_right = world.sendrecv(heat[1], dest=left, source=right)
    heat[0] = 100.0 if from_left is None else from_left
    heat[-1] = 0.0 if from_right is None else from_right
    inner = [
        heat[i] + 0.4 * (heat[i - 1] - 2 * heat[i] + heat[i + 1])
        for i in range(1, CELLS + 1)
    ]
    return [heat[0], *inner, heat[-1]]


def main() -> None:
    """Runs the steps; rank 0 sends the pictures."""
    port, steps = int(sys.argv[1]), int((sys.argv[2:] or ["500"])[0])
    world = MPI.COMM_WORLD
    began = time.time()
    mate = connect(port) if world.rank == 0 else None
    heat = [0.0] * (CELLS + 2)
    for step in range(1, steps + 1):
        heat = step_of(heat, world)
        if step % EVERY:
            continue
        parts = world.gather(heat[1:-1]) or []
        if mate is not None:
            picture = {"step": step, "rod": [cell for part in parts for cell in part]}
            mate.sendall(json.dumps(picture).encode() + b"\n")
    if mate is not None:
        mate.close()
        print(f"simulation of {world.size} ranks began at {began:.3f}: {steps} steps")


main()
