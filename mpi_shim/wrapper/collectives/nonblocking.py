"""Blocking collective calls as non-blocking ones and a wait that can pause
(COSCHED_COLLECTIVES=nonblocking).

MPI's blocking collectives spin until all ranks have come, also in a task that is not
scheduled. Their non-blocking forms can be waited for as messages are, but do not match
the blocking forms of other ranks, so every rank takes the same form, by the environment
alone. A small collective costs more this way (docs/mpi4py-wrapper.md has the ratios),
which is why it is a choice.

Calls that have no non-blocking form (making communicators and windows, fences) wait at an
Ibarrier first: when it is through all ranks have come, and the call itself is short. MPI
lets any of these calls synchronise all the same. Towards processes of other jobs, which
may not have the wrapper, every call stays as it is.

``install`` is called once, before the program sees the classes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from mpi4py import MPI as mpi

from mpi_shim.wrapper import comms
from mpi_shim.wrapper.collectives import objects
from mpi_shim.wrapper.comms import nonblocking_name
from mpi_shim.wrapper.requests.request import Request
from mpi_shim.wrapper.windows import Win

_GATED: tuple[tuple[type[comms.Comm], tuple[str, ...]], ...] = (
    (
        comms.Comm,
        ("Clone", "Dup", "Dup_with_info", "Create", "Split", "Split_type", "Disconnect"),
    ),
    (
        comms.Intracomm,
        (
            *("Create_cart", "Create_graph"),
            *("Create_dist_graph_adjacent", "Create_dist_graph", "Create_intercomm"),
        ),
    ),
    (comms.Cartcomm, ("Sub",)),
    (comms.Intercomm, ("Merge",)),
)


def install() -> None:
    """Gives the communicators and windows of this process the forms that can pause."""
    forms: tuple[tuple[type[comms.Comm], Sequence[str]], ...] = (
        (comms.Comm, comms.BUFFER_COLLECTIVES),
        (comms.Intracomm, comms.SCANS),
        (comms.Topocomm, comms.NEIGHBOR_COLLECTIVES),
    )
    for cls, names in forms:
        for name in names:
            _replace(cls, name, _started_and_awaited(nonblocking_name(name)))
    for cls, functions in objects.FORMS:
        for function in functions:
            _replace(cls, function.__name__, function)
    for cls, names in _GATED:
        for name in names:
            _replace(cls, name, _behind_a_barrier(getattr(cls, name)))
    Win.gated = True


def _replace(cls: type[comms.Comm], name: str, pausing: Callable[..., Any]) -> None:
    """``pausing`` where all ranks have the wrapper, which is where a status travels."""
    blocking = getattr(cls, name)

    @functools.wraps(blocking)
    def call(self: mpi.Comm, *args: Any, **kwargs: Any) -> Any:
        chosen = pausing if getattr(self, "_wrapped", False) else blocking
        return chosen(self, *args, **kwargs)

    setattr(cls, name, call)


def _started_and_awaited(start: str) -> Callable[..., None]:
    def call(self: mpi.Comm, *args: Any, **kwargs: Any) -> None:
        getattr(self, start)(*args, **kwargs).Wait()

    return call


def _behind_a_barrier(blocking: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: mpi.Comm, *args: Any, **kwargs: Any) -> Any:
        Request(mpi.Comm.Ibarrier(self)).Wait()
        return blocking(self, *args, **kwargs)

    return call
