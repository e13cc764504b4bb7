"""Runs one rank in the tests of registration, trapping and waiting.

``python -m tests.wrapper.task_program NAME [ARGUMENT ...]`` under mpiexec.
"""

from __future__ import annotations

import os
import sys
import time

from tests.wrapper.per_rank import choose_node, preload_interposer


def trap(count: str) -> None:
    """Rank 0 sends ``count`` messages to rank 1, half of them objects. Before each, rank 1
    has time to look for it."""
    from mpi_shim import MPI

    comm = MPI.COMM_WORLD
    for i in range(int(count)):
        if comm.rank == 0:
            time.sleep(0.1)
        if comm.rank == 0 and i % 2:
            comm.send(i, 1)
        elif comm.rank == 0:
            comm.Send(bytes([i]) * 100, 1)
        elif i % 2:
            assert comm.recv(source=0) == i
        else:
            comm.Recv(bytearray(100), 0)


def late(seconds: str) -> None:
    """Rank 1 waits in a receive for a message that rank 0 sends late."""
    from mpi_shim import MPI

    comm = MPI.COMM_WORLD
    if comm.rank == 0:
        time.sleep(float(seconds))
        comm.send("late", 1)
    else:
        assert comm.recv(source=0) == "late"


def meet(call: str, count: str) -> None:
    """Rank 1 waits ``count`` times in a collective call for rank 0."""
    from mpi_shim import MPI

    comm = MPI.COMM_WORLD
    for _ in range(int(count)):
        if comm.rank == 0:
            time.sleep(0.1)
        if call == "Allreduce":
            total = bytearray(1)
            comm.Allreduce(b"\1", total)
            assert total[0] == comm.size
        elif call == "Iallreduce":
            total = bytearray(1)
            comm.Iallreduce(b"\1", total).Wait()
            assert total[0] == comm.size
        elif call == "bcast":
            assert comm.bcast("object" if comm.rank == 0 else None) == "object"
        else:
            assert comm.allgather(comm.rank) == [*range(comm.size)]


def stranger() -> None:
    """Rank 1 has no shim."""
    from mpi4py import MPI as raw

    from mpi_shim.wrapper.status import together
    from mpi_shim.wrapper.status.shadow import shadow

    together.PATIENCE_MS = 200
    if raw.COMM_WORLD.rank == 0:
        from mpi_shim import MPI

        assert not shadow.on
        MPI.COMM_WORLD.send("to a stranger", 1)
    else:
        assert raw.COMM_WORLD.recv(source=0) == "to a stranger"


def leave(how: str) -> None:
    """Ends in one of several ways."""
    import mpi4py

    if how in ("init", "raw-init"):
        mpi4py.rc.initialize = False
    from mpi4py import MPI as raw

    from mpi_shim import MPI
    from mpi_shim.wrapper.task.link import task

    if how in ("init", "raw-init"):
        assert not task.attached
        world = MPI.COMM_WORLD
        assert world == raw.COMM_WORLD
        assert type(world) is MPI.Intracomm
        if how == "init":
            MPI.Init_thread()
        else:
            raw.Init()
        assert MPI.COMM_WORLD is world
        assert world.Get_size() == 1
    assert task.attached
    if how in ("finalize", "init", "raw-init"):
        MPI.Finalize()
    elif how == "raw":
        raw.Finalize()
    elif how == "fork":
        child = os.fork()
        if child == 0:
            assert not task.attached
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert task.attached
    assert task.attached == (how in ("exit", "fork"))


def module() -> None:
    """Prints which module the program got."""
    import mpi_shim.MPI
    from mpi_shim import MPI

    assert mpi_shim.MPI is MPI
    print("module", MPI.__name__, type(MPI.COMM_WORLD).__module__)


def main() -> None:
    preload_interposer()
    choose_node()
    name, *arguments = sys.argv[1:]
    globals()[name](*arguments)


main()
