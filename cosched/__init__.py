"""Coscheduling of MPI jobs. ``Client`` and ``Job`` are for programs that submit jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cosched.jobs.client import Client
    from cosched.jobs.job import Job

__all__ = ["Client", "Job"]


def __getattr__(name: str) -> Any:
    """Imports what a program asks for; commands start faster without it."""
    if name == "Client":
        from cosched.jobs.client import Client

        return Client
    if name == "Job":
        from cosched.jobs.job import Job

        return Job
    raise AttributeError(f"module 'cosched' has no attribute '{name}'")
