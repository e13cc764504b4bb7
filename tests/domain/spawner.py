"""Spawns tasks as its first argument asks, and prints what the test expects."""

import contextlib
import os
import sys
import time

from mpi4py import MPI

CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "spawned.py")
SELF = MPI.COMM_SELF


def spawn(*words, ranks=1, comm=SELF, **info):
    found = MPI.Info.Create()
    for key, value in info.items():
        found.Set(key, value)
    return comm.Spawn(sys.executable, [CHILD, *words], ranks, found)


def host():
    """Prints where a child for one node and for another folder runs."""
    print_places(spawn("places", host="n2", wdir="/"))


def hosts():
    """Prints where children for both nodes run."""
    print_places(spawn("places", host="n2, n1", ranks=4))


def print_places(child):
    found = child.gather(None, root=MPI.ROOT)
    print(*(f"{node} {cwd}" for node, cwd in found))
    child.Disconnect()


def missing():
    """Spawns a program that is not there, and goes on."""
    SELF.Set_errhandler(MPI.ERRORS_RETURN)
    try:
        SELF.Spawn("./nosuch", maxprocs=2)
    except MPI.Exception:
        print("an error", flush=True)
    spawn("leave").Disconnect()
    print("and on")


def elsewhere():
    """Asks for a node that the job lacks."""
    try:
        spawn("leave", host="moon")
    except MPI.Exception:
        print("an error")


def nested():
    """Spawns a child that spawns one."""
    child = spawn("nested")
    print(child.recv(source=0))
    child.Disconnect()


def outlived():
    """Ends before its children."""
    spawn("late", ranks=2).Disconnect()


def failing():
    """Has a child that ends with status 3."""
    spawn("exit", ranks=2).barrier()
    time.sleep(97.4)


def aborting():
    """Has a child that aborts."""
    spawn("abort", ranks=2)
    time.sleep(97.4)


def sleeping():
    """Has children that sleep, until the job ends."""
    spawn("sleep", ranks=3).Disconnect()
    print("asleep", flush=True)
    time.sleep(97.4)


def many():
    """Spawns often, with all ranks."""
    for _ in range(4):
        child = spawn("leave", ranks=2, comm=MPI.COMM_WORLD)
        child.Disconnect()
    if MPI.COMM_WORLD.rank == 0:
        print("4 times")


def names():
    """Connects rank 1 to rank 0 by a published name."""
    world = MPI.COMM_WORLD
    if world.rank == 0:
        port = MPI.Open_port()
        MPI.Publish_name("a service", port)
        world.barrier()
        other = SELF.Accept(port)
        print(other.recv(source=0))
        MPI.Unpublish_name("a service", port)
    else:
        world.barrier()
        port = MPI.Lookup_name("a service")
        other = SELF.Connect(port)
        other.send("connected", dest=0)
    other.Disconnect()
    world.barrier()
    with contextlib.suppress(MPI.Exception):
        print(MPI.Lookup_name("a service"), "is left")


OF_ALL_RANKS = (many, names)
what = globals()[sys.argv[1]]
if MPI.COMM_WORLD.rank == 0 or what in OF_ALL_RANKS:
    what()
