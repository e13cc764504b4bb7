"""Makes the wrapper's communicators, whose calls carry the status and can pause.

mpi4py makes new communicators of its own classes. Each call that makes one is repeated
here, and its result gets the corresponding class of the wrapper.

Some communicators lead to processes that may not have the shim: those of Spawn, Accept,
Connect, Join and Get_parent, and communicators made from them. No status travels there,
unless all their processes are in COMM_WORLD. The C interposer has the same rule.

Collective calls stay as they are here (see collectives/). The requests of the non-blocking
ones get the wrapper's class, so that waiting for them can pause.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from mpi4py import MPI as mpi

from mpi_shim.wrapper.messages.objects import ObjectCalls
from mpi_shim.wrapper.requests.operations import Operation
from mpi_shim.wrapper.requests.request import Request, with_our_request

if TYPE_CHECKING:
    from typing_extensions import Self


C = TypeVar("C", bound="Comm")


class Comm(ObjectCalls):
    """A communicator whose point-to-point messages carry the sender's status."""

    _predefined = ""  # the name of a constant of the module

    def __init__(self, comm: mpi.Comm | None = None) -> None:
        """Makes a copy carry a status if the original does."""
        if not getattr(comm, "_wrapped", True):
            self._wrapped = False

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

    def Idup(self, info: mpi.Info | None = None) -> tuple[Self, mpi.Request]:
        comm, request = mpi.Comm.Idup(self, info)
        return self._alike(comm), Request(request)

    def Idup_with_info(self, info: mpi.Info) -> tuple[Self, mpi.Request]:
        comm, request = mpi.Comm.Idup_with_info(self, info)
        return self._alike(comm), Request(request)

    def Ishrink(self) -> tuple[mpi.Comm, mpi.Request]:
        comm, request = mpi.Comm.Ishrink(self)
        ours = self._derived(wrapped(comm))
        return ours, Request.of(request, _LateHandle(ours, comm), None)

    def _alike(self, comm: C) -> C:
        """Returns ``comm``, which has the same processes as this communicator."""
        if not self._wrapped:
            comm._wrapped = False
        return comm

    def _derived(self, comm: C) -> C:
        """Returns ``comm``, which has some of the processes of this communicator."""
        return comm if self._wrapped else check_shim(comm)


# mpi4py's class comes first among the bases, because only the first extension type can make
# the object. It defines none of the methods that Comm replaces.
class Intracomm(mpi.Intracomm, Comm):
    """mpi4py's Intracomm, wrapped."""


class Topocomm(mpi.Topocomm, Intracomm):
    """mpi4py's Topocomm, wrapped."""


class Cartcomm(mpi.Cartcomm, Topocomm):
    """mpi4py's Cartcomm, wrapped."""


class Graphcomm(mpi.Graphcomm, Topocomm):
    """mpi4py's Graphcomm, wrapped."""


class Distgraphcomm(mpi.Distgraphcomm, Topocomm):
    """mpi4py's Distgraphcomm, wrapped."""


class Intercomm(mpi.Intercomm, Comm):
    """mpi4py's Intercomm between groups of one job, wrapped."""


PREDEFINED = ("COMM_WORLD", "COMM_SELF", "COMM_NULL")


@functools.cache
def constant(name: str) -> Comm:
    """Returns one of the predefined communicators: always the same object."""
    cls = Comm if name == "COMM_NULL" else Intracomm
    # Not by a copy: for that mpi4py calls MPI, which may not be initialised yet.
    comm = cls()
    _give_handle(comm, getattr(mpi, name))
    comm._predefined = name
    return comm


def _give_handle(ours: mpi.Comm, theirs: mpi.Comm) -> None:
    """Makes ``ours`` the same communicator as ``theirs``."""
    size = mpi._sizeof(theirs)
    ctypes.memmove(mpi._addressof(ours), mpi._addressof(theirs), size)


#: The wrapper's classes, each with the name of mpi4py's; subclasses first.
CLASSES = (Cartcomm, Graphcomm, Distgraphcomm, Topocomm, Intracomm, Intercomm, Comm)


class _LateHandle(Operation):
    """The making of a communicator whose handle MPI writes when the request completes. MPI
    writes it into the object that mpi4py made; from there it is copied into the
    wrapper's."""

    def __init__(self, ours: mpi.Comm, theirs: mpi.Comm) -> None:
        super().__init__()
        self._ours, self._theirs = ours, theirs

    def complete(self, status: mpi.Status) -> None:
        super().complete(status)
        _give_handle(self._ours, self._theirs)


def check_shim(comm: C) -> C:
    """Returns ``comm``. Its messages carry a status only if all its processes are in
    COMM_WORLD, and so have a shim."""
    if comm and mpi.Is_initialized():
        comm._wrapped = _within_world(comm.group) and (
            not comm.is_inter or _within_world(comm.remote_group)  # type: ignore[attr-defined]
        )
    return comm


def _within_world(group: mpi.Group) -> bool:
    world = mpi.COMM_WORLD.Get_group()
    try:
        return mpi.UNDEFINED not in group.Translate_ranks(None, world)
    finally:
        group.Free()
        world.Free()


def wrapped(comm: mpi.Comm) -> Comm:
    """Returns ``comm`` in the class of the wrapper that corresponds to its own."""
    if isinstance(comm, Comm):
        return comm
    for ours in CLASSES:
        if isinstance(comm, getattr(mpi, ours.__name__)):
            return ours(comm)
    raise TypeError(f"not a communicator: {comm!r}")


def _replace(ours: type[Comm], wrap: Callable[[Any], Any], names: Sequence[str]) -> None:
    """Replaces methods of mpi4py's class; an older mpi4py lacks some."""
    theirs = getattr(mpi, ours.__name__)
    for name in names:
        if hasattr(theirs, name):
            setattr(ours, name, wrap(getattr(theirs, name)))


def _wrap_results(
    ours: type[Comm], finish: Callable[[Comm, Comm], Comm], *names: str
) -> None:
    """Makes these methods return communicators of the wrapper; ``finish`` gets the
    communicator that the method was called on, and the result."""

    def wrap(raw: Callable[..., mpi.Comm]) -> Callable[..., Comm]:
        @functools.wraps(raw)
        def call(self: Comm, *args: Any, **kwargs: Any) -> Comm:
            return finish(self, wrapped(raw(self, *args, **kwargs)))

        return call

    _replace(ours, wrap, names)


def _wrap_class_results(
    ours: type[Comm], finish: Callable[[Comm], Comm], *names: str
) -> None:
    """The same for class methods."""

    def wrap(raw: Callable[..., mpi.Comm]) -> staticmethod[..., Comm]:
        @functools.wraps(raw)
        def call(*args: Any, **kwargs: Any) -> Comm:
            return finish(wrapped(raw(*args, **kwargs)))

        return staticmethod(call)

    _replace(ours, wrap, names)


# Communicators of the same processes, and of some of them.
_wrap_results(Comm, Comm._alike, "Clone", "Dup", "Dup_with_info")
_wrap_results(Comm, Comm._derived, "Create", "Split", "Split_type", "Shrink")
_wrap_results(
    Intracomm,
    Comm._derived,
    *("Create_group", "Create_cart", "Create_graph"),
    *("Create_dist_graph_adjacent", "Create_dist_graph"),
)
_wrap_results(Cartcomm, Comm._derived, "Sub")
_wrap_results(Intercomm, Comm._derived, "Merge")
_wrap_class_results(Intracomm, lambda comm: comm, "Create_from_group")
_wrap_class_results(Intercomm, lambda comm: comm, "Create_from_groups")
# Communicators to other jobs, or to processes that this job starts. Only the leaders of
# Create_intercomm have the peers' communicator, so all ranks check its result.
_wrap_results(
    Intracomm,
    lambda _, comm: check_shim(comm),
    *("Create_intercomm", "Accept", "Connect", "Spawn", "Spawn_multiple"),
)
_wrap_class_results(Comm, check_shim, "Get_parent", "Join", "fromhandle", "fromint", "f2py")

#: The collective calls on buffers, by the class that has them.
COLLECTIVES: tuple[tuple[type[Comm], tuple[str, ...]], ...] = (
    (
        Comm,
        (
            *("Barrier", "Bcast", "Gather", "Gatherv", "Scatter", "Scatterv"),
            *("Allgather", "Allgatherv", "Alltoall", "Alltoallv", "Alltoallw"),
            *("Reduce", "Allreduce", "Reduce_scatter_block", "Reduce_scatter"),
        ),
    ),
    (Intracomm, ("Scan", "Exscan")),
    (
        Topocomm,
        (
            *("Neighbor_allgather", "Neighbor_allgatherv"),
            *("Neighbor_alltoall", "Neighbor_alltoallv", "Neighbor_alltoallw"),
        ),
    ),
)


def nonblocking_name(name: str) -> str:
    """Returns the name of the non-blocking form: Ibarrier for Barrier."""
    return f"I{name[0].lower()}{name[1:]}"


for _class, _names in COLLECTIVES:
    _replace(_class, with_our_request, [nonblocking_name(name) for name in _names])
    _replace(_class, with_our_request, [f"{name}_init" for name in _names])
_OTHERS = ("Psend_init", "Precv_init", "Iflush_buffer", "Iagree")
_replace(Comm, with_our_request, _OTHERS)
