"""The wrapper's communicators, and how those made from them stay wrapped.

mpi4py makes a communicator's relatives of its own classes; each such call is repeated
here and its result wrapped in the class that corresponds. Communicators to processes
that may not have the shim (Spawn, Accept, Connect, Join, Get_parent and what is made
of them) are left to mpi4py: no status travels there.

Collective calls are left alone, but for the requests of the non-blocking ones, which
become the wrapper's so that waiting for them can pause.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from mpi4py import MPI as mpi

from mpi_shim.objects import ObjectCalls
from mpi_shim.requests import Prequest, Request


class Comm(ObjectCalls):
    """A communicator whose point-to-point messages carry the sender's status."""

    _predefined = ""  # the name of a constant of the module

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self._predefined:
            return constant, (self._predefined,)
        for name in PREDEFINED:
            if self == constant(name):
                return type(self), (constant(name),)
        raise ValueError(f"cannot serialize '{type(self).__name__}' instance")

    def free(self) -> None:
        if not self._predefined:
            mpi.Comm.free(self)

    def Create(self, group: mpi.Group) -> mpi.Comm:
        return wrapped(mpi.Comm.Create(self, group))

    def Split(self, color: int = 0, key: int = 0) -> mpi.Comm:
        return wrapped(mpi.Comm.Split(self, color, key))

    def Split_type(
        self, split_type: int, key: int = 0, info: mpi.Info = mpi.INFO_NULL
    ) -> mpi.Comm:
        return wrapped(mpi.Comm.Split_type(self, split_type, key, info))

    def Shrink(self) -> mpi.Comm:
        return wrapped(mpi.Comm.Shrink(self))

    @classmethod
    def Get_parent(cls) -> mpi.Intercomm:
        parent = mpi.Comm.Get_parent()
        return parent if parent else Intercomm(parent)

    def Ishrink(self) -> tuple[mpi.Comm, mpi.Request]:
        raise NotImplementedError("mpi_shim: Ishrink is not covered; use Shrink")

    @classmethod
    def fromhandle(cls, handle: int) -> mpi.Comm:
        return wrapped(mpi.Comm.fromhandle(handle))

    @classmethod
    def fromint(cls, arg: int, /) -> mpi.Comm:
        return wrapped(mpi.Comm.fromint(arg))

    @classmethod
    def f2py(cls, arg: int) -> mpi.Comm:
        return wrapped(mpi.Comm.f2py(arg))


# mpi4py's class comes first among the bases, because only the foremost extension type
# can make the object; it defines none of the methods that Comm replaces.
class Intracomm(mpi.Intracomm, Comm):
    """mpi4py's Intracomm, wrapped."""

    def Create_group(self, group: mpi.Group, tag: int = 0) -> Intracomm:
        return Intracomm(mpi.Intracomm.Create_group(self, group, tag))

    @classmethod
    def Create_from_group(
        cls,
        group: mpi.Group,
        stringtag: str = "org.mpi4py",
        info: mpi.Info = mpi.INFO_NULL,
        errhandler: mpi.Errhandler | None = None,
    ) -> Intracomm:
        return Intracomm(
            mpi.Intracomm.Create_from_group(group, stringtag, info, errhandler)
        )

    def Create_cart(
        self,
        dims: Sequence[int],
        periods: Sequence[bool] | None = None,
        reorder: bool = False,
    ) -> Cartcomm:
        return Cartcomm(mpi.Intracomm.Create_cart(self, dims, periods, reorder))

    def Create_graph(
        self, index: Sequence[int], edges: Sequence[int], reorder: bool = False
    ) -> Graphcomm:
        return Graphcomm(mpi.Intracomm.Create_graph(self, index, edges, reorder))

    def Create_dist_graph_adjacent(
        self,
        sources: Sequence[int],
        destinations: Sequence[int],
        sourceweights: Sequence[int] | None = None,
        destweights: Sequence[int] | None = None,
        info: mpi.Info = mpi.INFO_NULL,
        reorder: bool = False,
    ) -> Distgraphcomm:
        return Distgraphcomm(
            mpi.Intracomm.Create_dist_graph_adjacent(
                self, sources, destinations, sourceweights, destweights, info, reorder
            )
        )

    def Create_dist_graph(
        self,
        sources: Sequence[int],
        degrees: Sequence[int],
        destinations: Sequence[int],
        weights: Sequence[int] | None = None,
        info: mpi.Info = mpi.INFO_NULL,
        reorder: bool = False,
    ) -> Distgraphcomm:
        return Distgraphcomm(
            mpi.Intracomm.Create_dist_graph(
                self, sources, degrees, destinations, weights, info, reorder
            )
        )

    def Create_intercomm(
        self,
        local_leader: int,
        peer_comm: mpi.Intracomm,
        remote_leader: int,
        tag: int = 0,
    ) -> Intercomm:
        return Intercomm(
            mpi.Intracomm.Create_intercomm(
                self, local_leader, peer_comm, remote_leader, tag
            )
        )


class Topocomm(mpi.Topocomm, Intracomm):
    """mpi4py's Topocomm, wrapped."""


class Cartcomm(mpi.Cartcomm, Topocomm):
    """mpi4py's Cartcomm, wrapped."""

    def Sub(self, remain_dims: Sequence[bool]) -> Cartcomm:
        return Cartcomm(mpi.Cartcomm.Sub(self, remain_dims))


class Graphcomm(mpi.Graphcomm, Topocomm):
    """mpi4py's Graphcomm, wrapped."""


class Distgraphcomm(mpi.Distgraphcomm, Topocomm):
    """mpi4py's Distgraphcomm, wrapped."""


class Intercomm(mpi.Intercomm, Comm):
    """mpi4py's Intercomm between groups of one job, wrapped."""

    def Merge(self, high: bool = False) -> Intracomm:
        return Intracomm(mpi.Intercomm.Merge(self, high))

    @classmethod
    def Create_from_groups(  # type: ignore[override]
        cls,
        local_group: mpi.Group,
        local_leader: int,
        remote_group: mpi.Group,
        remote_leader: int,
        stringtag: str = "org.mpi4py",
        info: mpi.Info = mpi.INFO_NULL,
        errhandler: mpi.Errhandler | None = None,
    ) -> Intercomm:
        return Intercomm(
            mpi.Intercomm.Create_from_groups(
                local_group,
                local_leader,
                remote_group,
                remote_leader,
                stringtag,
                info,
                errhandler,
            )
        )


PREDEFINED = ("COMM_WORLD", "COMM_SELF", "COMM_NULL")


@functools.cache
def constant(name: str) -> Comm:
    """One of the predefined communicators: always the same object."""
    cls = Comm if name == "COMM_NULL" else Intracomm
    comm = cls(getattr(mpi, name))
    comm._predefined = name
    return comm


# The more special first.
_CLASSES: tuple[tuple[type[mpi.Comm], type[Comm]], ...] = (
    (mpi.Cartcomm, Cartcomm),
    (mpi.Graphcomm, Graphcomm),
    (mpi.Distgraphcomm, Distgraphcomm),
    (mpi.Topocomm, Topocomm),
    (mpi.Intracomm, Intracomm),
    (mpi.Intercomm, Intercomm),
    (mpi.Comm, Comm),
)


def wrapped(comm: mpi.Comm) -> mpi.Comm:
    """``comm`` in the wrapper's class that corresponds to its own."""
    if isinstance(comm, Comm):
        return comm
    for theirs, ours in _CLASSES:
        if isinstance(comm, theirs):
            return ours(comm)
    raise TypeError(f"not a communicator: {comm!r}")


def _with_our_request(raw: Callable[..., mpi.Request]) -> Callable[..., Any]:
    @functools.wraps(raw)
    def call(*args: Any, **kwargs: Any) -> mpi.Request:
        request = raw(*args, **kwargs)
        return Prequest(request) if isinstance(request, mpi.Prequest) else Request(request)

    return call


def _with_our_idup(raw: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(raw)
    def call(*args: Any, **kwargs: Any) -> tuple[mpi.Comm, mpi.Request]:
        comm, request = raw(*args, **kwargs)
        return comm, Request(request)

    return call


_COLLECTIVES = (
    *("Barrier", "Bcast", "Gather", "Gatherv", "Scatter", "Scatterv"),
    *("Allgather", "Allgatherv", "Alltoall", "Alltoallv", "Alltoallw"),
    *("Reduce", "Allreduce", "Reduce_scatter_block", "Reduce_scatter"),
)
_SCANS = ("Scan", "Exscan")
_NEIGHBOR_COLLECTIVES = (
    *("Neighbor_allgather", "Neighbor_allgatherv"),
    *("Neighbor_alltoall", "Neighbor_alltoallv", "Neighbor_alltoallw"),
)


def _wrap_requests(
    ours: type[Comm], theirs: type[mpi.Comm], collectives: Sequence[str]
) -> None:
    """Gives ``ours`` the non-blocking and persistent forms with the wrapper's requests."""
    for name in collectives:
        for form in (f"I{name[0].lower()}{name[1:]}", f"{name}_init"):
            setattr(ours, form, _with_our_request(getattr(theirs, form)))


_wrap_requests(Comm, mpi.Comm, _COLLECTIVES)
_wrap_requests(Intracomm, mpi.Intracomm, _SCANS)
_wrap_requests(Topocomm, mpi.Topocomm, _NEIGHBOR_COLLECTIVES)
for _name in ("Idup", "Idup_with_info"):
    setattr(Comm, _name, _with_our_idup(getattr(mpi.Comm, _name)))
for _name in ("Psend_init", "Precv_init", "Iflush_buffer", "Iagree"):
    if hasattr(mpi.Comm, _name):  # older mpi4py lacks some
        setattr(Comm, _name, _with_our_request(getattr(mpi.Comm, _name)))
