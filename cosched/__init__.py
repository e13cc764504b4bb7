"""Coscheduling of MPI jobs. ``Client`` and ``Job`` are for programs that submit jobs, and
``mark`` is for programs that are jobs: it counts an iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cosched.jobs.client import Client
    from cosched.jobs.job import Job
    from mpi_shim.marks import mark

__all__ = ["Client", "Job", "mark"]


def __getattr__(name: str) -> Any:
    """Imports what a program asks for; commands start faster without it."""
    if name == "Client":
        from cosched.jobs.client import Client

        return Client
    if name == "Job":
        from cosched.jobs.job import Job

        return Job
    if name == "mark":
        from mpi_shim.marks import mark

        return mark
    raise AttributeError(f"module 'cosched' has no attribute '{name}'")
