"""Makes collective calls on pickled objects of non-blocking calls that can pause.

They work as mpi4py's own, which are made of blocking calls. The ranks exchange the lengths
of the pickles first, then the pickles. Reductions use a binary tree and scans recursive
doubling, on the communicator that mpi4py keeps for this purpose. No status travels in them.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from mpi4py import MPI as mpi

from mpi_shim.wrapper.comms import Comm, Intracomm, Topocomm

Op = Callable[[Any, Any], Any]


def _roles(comm: mpi.Comm, root: int) -> tuple[bool, bool]:
    """Returns whether this task is the root of a rooted call, and whether it is at the
    other end. The root of an intracommunicator is both."""
    if comm.Is_inter():
        return root == mpi.ROOT, root not in (mpi.ROOT, mpi.PROC_NULL)
    return comm.Get_rank() == root, True


def _peers(comm: mpi.Comm) -> int:
    return comm.Get_remote_size() if isinstance(comm, mpi.Intercomm) else comm.Get_size()


def _lengths(count: int) -> array[int]:
    return array("q", bytes(8 * count))


def _dump(items: Sequence[Any] | None, count: int) -> list[bytes]:
    items = [None] * count if items is None else list(items)
    if len(items) != count:
        raise ValueError(f"expecting {count} items, got {len(items)}")
    return [mpi.pickle.dumps(item) for item in items]


def _room(lengths: Sequence[int]) -> tuple[bytearray, list[int], mpi.Datatype]:
    return bytearray(sum(lengths)), list(lengths), mpi.BYTE


def _load(data: bytearray | bytes, lengths: Sequence[int]) -> list[Any]:
    ends = list(itertools.accumulate(lengths))
    view = memoryview(data)
    return [
        mpi.pickle.loads(view[end - length : end]) if length else None
        for end, length in zip(ends, lengths, strict=True)
    ]


def barrier(self: Comm) -> None:
    self.Barrier()


def bcast(self: Comm, obj: Any, root: int = 0) -> Any:
    is_root, receives = _roles(self, root)
    data: bytes | bytearray = mpi.pickle.dumps(obj) if is_root else b""
    length = array("q", [len(data)])
    self.Ibcast(length, root).Wait()
    if receives and not is_root:
        data = bytearray(length[0])
    self.Ibcast([data, mpi.BYTE], root).Wait()
    return _load(data, length)[0] if receives else None


def gather(self: Comm, sendobj: Any, root: int = 0) -> list[Any] | None:
    is_root, sends = _roles(self, root)
    data = mpi.pickle.dumps(sendobj) if sends else b""
    lengths = _lengths(_peers(self)) if is_root else None
    length = array("q", [len(data)])
    self.Igather(length if sends else None, lengths, root).Wait()
    room = None if lengths is None else _room(lengths)
    self.Igatherv([data, mpi.BYTE] if sends else None, room, root).Wait()
    return None if room is None else _load(room[0], room[1])


def scatter(self: Comm, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
    is_root, receives = _roles(self, root)
    items = _dump(sendobj, _peers(self)) if is_root else []
    lengths = [len(item) for item in items]
    length = _lengths(1)
    self.Iscatter(
        array("q", lengths) if is_root else None, length if receives else None, root
    ).Wait()
    data = bytearray(length[0])
    self.Iscatterv(
        (b"".join(items), lengths, mpi.BYTE) if is_root else None,
        [data, mpi.BYTE] if receives else None,
        root,
    ).Wait()
    return _load(data, length)[0] if receives else None


def allgather(self: Comm, sendobj: Any) -> list[Any]:
    data, lengths = mpi.pickle.dumps(sendobj), _lengths(_peers(self))
    self.Iallgather(array("q", [len(data)]), lengths).Wait()
    room = _room(lengths)
    self.Iallgatherv([data, mpi.BYTE], room).Wait()
    return _load(room[0], lengths)


def alltoall(self: Comm, sendobj: Sequence[Any]) -> list[Any]:
    items, lengths = _dump(sendobj, _peers(self)), _lengths(_peers(self))
    mine = [len(item) for item in items]
    self.Ialltoall(array("q", mine), lengths).Wait()
    room = _room(lengths)
    self.Ialltoallv((b"".join(items), mine, mpi.BYTE), room).Wait()
    return _load(room[0], lengths)


def neighbor_allgather(self: Topocomm, sendobj: Any) -> list[Any]:
    data, lengths = mpi.pickle.dumps(sendobj), _lengths(self.indegree)
    self.Ineighbor_allgather(array("q", [len(data)]), lengths).Wait()
    room = _room(lengths)
    self.Ineighbor_allgatherv([data, mpi.BYTE], room).Wait()
    return _load(room[0], lengths)


def neighbor_alltoall(self: Topocomm, sendobj: Sequence[Any]) -> list[Any]:
    items, lengths = _dump(sendobj, self.outdegree), _lengths(self.indegree)
    mine = [len(item) for item in items]
    self.Ineighbor_alltoall(array("q", mine), lengths).Wait()
    room = _room(lengths)
    self.Ineighbor_alltoallv((b"".join(items), mine, mpi.BYTE), room).Wait()
    return _load(room[0], lengths)


# Reductions


def _quiet(comm: mpi.Comm) -> Comm:
    """Returns ``comm`` without a status byte, for messages that the program did not
    send."""
    quiet = Intracomm(comm) if isinstance(comm, mpi.Intracomm) else Comm(comm)
    quiet._wrapped = False
    return quiet


def _copy(obj: Any) -> Any:
    return mpi.pickle.loads(mpi.pickle.dumps(obj))


def _check_root(comm: Comm, root: int) -> None:
    """Checks a root that is not passed to MPI, as MPI would."""
    if not 0 <= root < _peers(comm):
        comm.Call_errhandler(mpi.ERR_ROOT)
        raise mpi.Exception(mpi.ERR_ROOT)


def _reduce_tree(obj: Any, op: Op, root: int, comm: Comm, tag: int) -> Any:
    """Reduces along a binary tree to rank 0 and sends the result to ``root``."""
    size, rank = comm.Get_size(), comm.Get_rank()
    result, bit = _copy(obj), 1
    while bit < size:
        if rank & bit:
            comm.send(result, rank & ~bit, tag)
        elif rank | bit < size:
            result = op(result, comm.recv(source=rank | bit, tag=tag))
        # A rank whose bit is set is done: no further message comes to it.
        bit = size if rank & bit else bit << 1
    if root != 0:
        if rank == 0:
            comm.send(result, root, tag)
        elif rank == root:
            result = comm.recv(source=0, tag=tag)
    return result if rank == root else None


def reduce(self: Comm, sendobj: Any, op: Op = mpi.SUM, root: int = 0) -> Any:
    if isinstance(self, mpi.Intracomm):
        _check_root(self, root)
        context, tag = mpi._commctx_intra(self)
        return _reduce_tree(sendobj, op, root, _quiet(context), tag)
    assert isinstance(self, mpi.Intercomm)
    between, tag, local, _ = mpi._commctx_inter(self)
    if root == mpi.PROC_NULL:
        return None
    if root == mpi.ROOT:
        return _quiet(between).recv(source=0, tag=tag)
    _check_root(self, root)
    result = _reduce_tree(sendobj, op, 0, _quiet(local), tag)
    if self.Get_rank() == 0:
        _quiet(between).send(result, root, tag)
    return None


def allreduce(self: Comm, sendobj: Any, op: Op = mpi.SUM) -> Any:
    if isinstance(self, mpi.Intracomm):
        context, tag = mpi._commctx_intra(self)
        quiet = _quiet(context)
        return bcast(quiet, _reduce_tree(sendobj, op, 0, quiet, tag), 0)
    assert isinstance(self, mpi.Intercomm)
    between, tag, local, _ = mpi._commctx_inter(self)
    quiet = _quiet(local)
    result = _reduce_tree(sendobj, op, 0, quiet, tag)
    if self.Get_rank() == 0:
        result = _quiet(between).sendrecv(result, 0, tag, None, 0, tag)
    return bcast(quiet, result, 0)


def _scan(self: Intracomm, sendobj: Any, op: Op) -> tuple[Any, Any]:
    """Returns the reductions over all ranks up to this one: with it, and without it."""
    context, tag = mpi._commctx_intra(self)
    comm, size, rank = _quiet(context), self.Get_size(), self.Get_rank()
    with_me = partial = _copy(sendobj)
    without_me, has_one, bit = None, False, 1
    while bit < size:
        peer = rank ^ bit
        if peer < size:
            theirs = comm.sendrecv(partial, peer, tag, None, peer, tag)
            if rank > peer:
                partial, with_me = op(theirs, partial), op(theirs, with_me)
                without_me = op(theirs, without_me) if has_one else theirs
                has_one = True
            else:
                partial = op(partial, theirs)
        bit <<= 1
    return with_me, without_me


def scan(self: Intracomm, sendobj: Any, op: Op = mpi.SUM) -> Any:
    return _scan(self, sendobj, op)[0]


def exscan(self: Intracomm, sendobj: Any, op: Op = mpi.SUM) -> Any:
    return _scan(self, sendobj, op)[1]


FORMS: tuple[tuple[type[Comm], tuple[Callable[..., Any], ...]], ...] = (
    (Comm, (barrier, bcast, gather, scatter, allgather, alltoall, reduce, allreduce)),
    (Intracomm, (scan, exscan)),
    (Topocomm, (neighbor_allgather, neighbor_alltoall)),
)
