"""Derived communicators, calls that are not covered, and processes without the wrapper."""

from __future__ import annotations

import pickle
import sys

import pytest

pytestmark = pytest.mark.mpi(min_size=2)


def ring(comm):
    """Sends a message around ``comm``. Returns whether it arrived."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    return comm.sendrecv(comm.rank, right, source=left) == left


DERIVED = {
    "Dup": lambda MPI, c: c.Dup(),
    "Clone": lambda MPI, c: c.Clone(),
    "Split": lambda MPI, c: c.Split(c.rank % 2, -c.rank),
    "Split_type": lambda MPI, c: c.Split_type(MPI.COMM_TYPE_SHARED),
    "Create": lambda MPI, c: c.Create(c.group),
    "Create_group": lambda MPI, c: c.Create_group(c.group),
    "Create_cart": lambda MPI, c: c.Create_cart([c.size], [True]),
    "Sub": lambda MPI, c: c.Create_cart([c.size, 1]).Sub([True, False]),
    "Create_graph": lambda MPI, c: c.Create_graph(
        [*range(1, c.size + 1)], [(i + 1) % c.size for i in range(c.size)]
    ),
    "Create_dist_graph": lambda MPI, c: c.Create_dist_graph_adjacent(
        [(c.rank - 1) % c.size], [(c.rank + 1) % c.size]
    ),
}


@pytest.mark.parametrize("how", DERIVED)
def test_derived_communicators(MPI, comm, how):
    derived = DERIVED[how](MPI, comm)
    expected = {
        "Create_cart": MPI.Cartcomm,
        "Sub": MPI.Cartcomm,
        "Create_graph": MPI.Graphcomm,
        "Create_dist_graph": MPI.Distgraphcomm,
    }
    assert type(derived) is expected.get(how, MPI.Intracomm)
    assert isinstance(derived, MPI.Comm)
    assert ring(derived)
    derived.Free()


def test_idup(MPI, comm):
    derived, request = comm.Idup()
    request.Wait()
    assert isinstance(derived, MPI.Intracomm)
    assert isinstance(request, MPI.Request)
    assert ring(derived)
    derived.Free()


def test_null_communicator(MPI, comm):
    derived = comm.Split(MPI.UNDEFINED)
    assert derived == MPI.COMM_NULL
    assert not derived


def test_intercommunicators(MPI, comm):
    half = comm.rank % 2
    local = comm.Split(half, comm.rank)
    inter = local.Create_intercomm(0, comm, 1 - half)
    assert isinstance(inter, MPI.Intercomm)
    if local.rank == 0:
        assert inter.sendrecv(half, 0, source=0) == 1 - half
    merged = inter.Merge()
    assert isinstance(merged, MPI.Intracomm)
    assert ring(merged)
    for each in (merged, inter, local):
        each.Free()


def test_predefined(MPI, raw):
    assert MPI.COMM_WORLD == raw.COMM_WORLD
    assert type(MPI.COMM_WORLD) is MPI.Intracomm
    for constant in (MPI.COMM_WORLD, MPI.COMM_SELF, MPI.COMM_NULL):
        assert pickle.loads(pickle.dumps(constant)) is constant
        constant.free()
    assert MPI.COMM_WORLD.size >= 2
    with pytest.raises(ValueError, match="serialize"):
        pickle.dumps(duplicate := MPI.COMM_SELF.Dup())
    duplicate.Free()
    assert isinstance(MPI.Comm.Get_parent(), MPI.Intercomm)
    assert ring(MPI.Comm.fromhandle(raw.COMM_WORLD.handle))


def test_neighbours(MPI, comm):
    cart = comm.Create_cart([comm.size], [True])
    source, dest = cart.Shift(0, 1)
    assert cart.sendrecv(cart.rank, dest, source=source) == source
    both = bytearray(2)
    request = cart.Ineighbor_allgather(bytes([cart.rank]), both)
    assert isinstance(request, MPI.Request)
    request.Wait()
    assert both == bytes([source, dest])
    cart.Free()


def test_shrink_without_blocking(MPI, comm):
    try:
        shrunk, request = comm.Ishrink()
    except NotImplementedError:
        pytest.skip("this MPI has no Ishrink")
    assert isinstance(request, MPI.Request)
    request.Wait()
    assert type(shrunk) is MPI.Intracomm
    assert ring(shrunk)
    shrunk.Free()


def test_accelerator_memory_is_refused(comm, needs_prefix):
    class Device:
        __cuda_array_interface__ = {  # noqa: RUF012
            "shape": (4,),
            "typestr": "|u1",
            "data": (0x10, False),
            "version": 3,
        }

    for message in (Device(), [Device(), 4, "B"]):
        with pytest.raises(NotImplementedError, match="host memory"):
            comm.Isend(message, comm.rank, 88)


@pytest.mark.parametrize("data", [b"", b"\x07raw"])
def test_message_without_status_byte_is_an_error(
    MPI, raw, comm, left, right, needs_prefix, data
):
    room = bytearray(10)
    request = raw.Comm.Isend(comm, data, right, 6)
    with pytest.raises(RuntimeError, match=f"from rank {left} with tag 6"):
        comm.Recv(room, left, 6)
    request.Wait()


def test_plain_mpi4py_works_beside_wrapper(raw, comm, left, right):
    """Libraries that use mpi4py.MPI on all ranks still work."""
    own = raw.COMM_WORLD.Dup()
    assert own.sendrecv(own.rank, right, source=left) == left
    own.Free()


def test_spawned_processes_get_no_status(MPI, comm, needs_prefix):
    """A spawned process runs mpi4py alone. No status travels between it and its parents,
    nor among the parents on a communicator that contains it."""
    inter = comm.Spawn(sys.executable, ["-m", "tests.wrapper.child_program"], 1)
    assert type(inter) is MPI.Intercomm
    merged = inter.Merge(False)
    copy = merged.Dup()
    assert type(merged) is type(copy) is MPI.Intracomm
    if comm.rank == 0:
        inter.isend("from the parents", 0, 1).wait()
        assert inter.recv(source=0, tag=2) == "from a child"
        MPI.Comm.Send(copy, b"bare", 1)
    elif comm.rank == 1:
        room = bytearray(5)
        status = MPI.Status()
        copy.Irecv(room, 0).Wait(status)
        assert (room, status.count) == (b"bare\0", 4)
    parents = merged.Split(0 if merged.rank < comm.size else 1)
    merged.Barrier()
    merged.Free()
    copy.Free()
    inter.Disconnect()
    assert ring(parents)
    parents.Free()
