"""Makes blocking collective calls of non-blocking ones and a wait that can pause
(COSCHED_COLLECTIVES=nonblocking).

MPI's blocking collectives spin until all ranks have entered, even in an unscheduled task. A
task can wait for the non-blocking forms as it waits for messages. They do not match the
blocking forms of other ranks, so the environment alone decides the form for all ranks. A
small collective costs more this way (docs/mpi4py-wrapper.md has the ratios), so it is not
the default.

Calls without a non-blocking form (making communicators and windows, fences) wait at an
Ibarrier first. After it all ranks have entered, and the call itself is short. MPI allows
each of these calls to synchronise. Calls with processes of other jobs, which may not have
the wrapper, stay as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
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
    """Replaces the calls of this process's communicators and windows. Called once, before
    the program sees the classes."""
    for cls, names in comms.COLLECTIVES:
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
    """Calls ``pausing`` on communicators on which all ranks have the wrapper."""
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
