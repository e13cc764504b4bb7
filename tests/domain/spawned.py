"""Does what its parent named: a program that tests spawn."""

import contextlib
import os
import sys
import time
from pathlib import Path

from mpi4py import MPI


def node():
    """Returns the node's name from the lock of the agent, an ancestor of this process."""
    pid = os.getpid()
    while pid > 1:
        for number in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
                path = Path(os.readlink(f"/proc/{pid}/fd/{number}"))
                if path.name == "agent.lock":
                    return path.parent.name
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])
    raise LookupError("no agent is an ancestor")


what = sys.argv[1]
parent = MPI.Comm.Get_parent()
world = MPI.COMM_WORLD
if what == "places":
    parent.gather((node(), os.getcwd()), root=0)
elif what == "nested":
    child = MPI.COMM_SELF.Spawn(sys.executable, [__file__, "answer"])
    parent.send(child.recv(source=0) + " twice", dest=0)
    child.Disconnect()
elif what == "answer":
    parent.send("spawned", dest=0)
elif what == "exit":
    # Rank 0 calls MPI no more after its message, so the end of rank 1 comes first.
    parent.barrier()
    if world.rank == 1:
        world.recv(source=0)
        os._exit(3)
    world.send("no more", dest=1)
    time.sleep(97.4)
elif what == "abort":
    if world.rank == 1:
        world.Abort(6)
    time.sleep(97.4)
parent.Disconnect()
if what == "sleep":
    time.sleep(97.4)
if what == "late":
    time.sleep(1)
    print(f"rank {world.rank} ends late", flush=True)
