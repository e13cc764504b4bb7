"""Coscheduling of MPI jobs. ``Client``, ``Executor`` and ``Job`` are for programs that
submit jobs, and ``CoschedError`` and its kinds ``JobFailed`` and ``NoDomain`` are their
errors. ``mark`` is for programs that are jobs: it counts an iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cosched.cluster.client import NoDomain
    from cosched.core.errors import CoschedError
    from cosched.jobs.calls.future import JobFailed
    from cosched.jobs.client import Client
    from cosched.jobs.executor import Executor
    from cosched.jobs.job import Job
    from mpi_shim.marks import mark

__all__ = ["Client", "CoschedError", "Executor", "Job", "JobFailed", "NoDomain", "mark"]

_PLACES = {
    "Client": "cosched.jobs.client",
    "CoschedError": "cosched.core.errors",
    "Executor": "cosched.jobs.executor",
    "Job": "cosched.jobs.job",
    "JobFailed": "cosched.jobs.calls.future",
    "NoDomain": "cosched.cluster.client",
    "mark": "mpi_shim.marks",
}


def __getattr__(name: str) -> Any:
    """Imports what a program asks for; commands start faster without it."""
    if name not in _PLACES:
        raise AttributeError(f"module 'cosched' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)
