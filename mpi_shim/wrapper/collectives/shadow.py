"""Collective calls under COSCHED_STATUS=shadow: who enters one tells those that it may be
waiting for; who leaves it heard from them.

The calls themselves stay what they are: mpi4py's own or those that can pause (see
nonblocking.py). Of one that does not pause it is not known when the others came: if it took
long, then in the meantime. Making communicators and windows, and one-sided calls, tell
nobody.

``install`` is called once, before the program sees the classes.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from mpi4py import MPI as mpi

from mpi_shim.wrapper import comms
from mpi_shim.wrapper.collectives import objects
from mpi_shim.wrapper.comms import nonblocking_name
from mpi_shim.wrapper.requests.request import Request
from mpi_shim.wrapper.requests.shadow_operations import Met, shadows
from mpi_shim.wrapper.status.peers import peers_of
from mpi_shim.wrapper.status.shadow import shadow
from mpi_shim.wrapper.task.link import task

# A collective call that took longer has waited for somebody.
WAITED_NS = 1_000_000


def install() -> None:
    """Gives the communicators of this process collective calls that tell and hear."""
    for cls, names in (
        (comms.Comm, comms.BUFFER_COLLECTIVES),
        (comms.Intracomm, comms.SCANS),
        (comms.Topocomm, comms.NEIGHBOR_COLLECTIVES),
    ):
        for name in names:
            setattr(cls, name, _meeting(getattr(cls, name)))
            setattr(
                cls, nonblocking_name(name), _later(getattr(cls, nonblocking_name(name)))
            )
    for cls, forms in objects.FORMS:
        for form in forms:
            setattr(cls, form.__name__, _meeting(getattr(cls, form.__name__)))


def _meeting(raw: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(raw)
    def call(self: mpi.Comm, *args: Any, **kwargs: Any) -> Any:
        if not shadows(self):
            return raw(self, *args, **kwargs)
        peers = peers_of(self)
        shadow.tell_partners(peers)
        since_ns = time.monotonic_ns()
        result = raw(self, *args, **kwargs)
        if time.monotonic_ns() - since_ns > WAITED_NS:
            task.looked()
        shadow.met(peers)
        return result

    return call


def _later(start: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(start)
    def call(self: mpi.Comm, *args: Any, **kwargs: Any) -> Any:
        if not shadows(self):
            return start(self, *args, **kwargs)
        peers = peers_of(self)
        shadow.tell_partners(peers)
        return Request.of(start(self, *args, **kwargs), Met(peers), None)

    return call
