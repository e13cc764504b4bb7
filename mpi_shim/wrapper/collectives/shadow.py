"""Makes collective calls that trap messages under COSCHED_STATUS=shadow.

A task that enters one sends its status to the ranks that the call may wait for. The end of
the call counts as an arrival from any of them. The calls themselves stay what they are:
mpi4py's own or those of by_nonblocking.py.

Limits: a blocking call does not show when the others came; one that took longer than
WAITED_NS counts as an arrival. Making communicators and windows, and one-sided calls, send
no status.
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
from mpi_shim.wrapper.requests.shadow_operations import ShadowCollective, uses_shadow
from mpi_shim.wrapper.status.peers import peers_of
from mpi_shim.wrapper.status.shadow import shadow
from mpi_shim.wrapper.task.link import task

# A collective call that took longer has waited for another rank.
WAITED_NS = 1_000_000


def install() -> None:
    """Replaces the collective calls of this process's communicators. Called once, before
    the program sees the classes."""
    for cls, names in comms.COLLECTIVES:
        for name in names:
            setattr(cls, name, _blocking(getattr(cls, name)))
            later = nonblocking_name(name)
            setattr(cls, later, _nonblocking(getattr(cls, later)))
    for cls, functions in objects.FORMS:
        for function in functions:
            setattr(cls, function.__name__, _blocking(getattr(cls, function.__name__)))


def _blocking(raw: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(raw)
    def call(self: mpi.Comm, *args: Any, **kwargs: Any) -> Any:
        if not uses_shadow(self):
            return raw(self, *args, **kwargs)
        peers = peers_of(self)
        task.count_collective()
        shadow.send_to_partners(peers)
        since_ns = time.monotonic_ns()
        result = raw(self, *args, **kwargs)
        if time.monotonic_ns() - since_ns > WAITED_NS:
            task.looked()
        shadow.collective_ended(peers)
        return result

    return call


def _nonblocking(raw: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(raw)
    def call(self: mpi.Comm, *args: Any, **kwargs: Any) -> Any:
        if not uses_shadow(self):
            return raw(self, *args, **kwargs)
        peers = peers_of(self)
        task.count_collective()
        shadow.send_to_partners(peers)
        return Request.of(raw(self, *args, **kwargs), ShadowCollective(peers), None)

    return call
