"""Describes the Slurm allocation in which a command runs, by its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from cosched.core.decoding import parse_integer
from cosched.core.hostlist import expand_hosts

# Two ports a job, below those that the kernel gives away by itself.
_FIRST_PORT = 10_000
_PAIRS = 10_000


@dataclass(frozen=True, slots=True)
class Allocation:
    """The nodes of a Slurm job."""

    job: int  #: Slurm's number of the job
    nodes: tuple[str, ...]  #: their names
    #: The name of this machine; it is one of ``nodes`` in a batch script, and may be
    #: another machine under salloc.
    here: str

    @property
    def port(self) -> int:
        """The controller's port; agents have the next one. Jobs rarely have the same."""
        return _FIRST_PORT + 2 * (self.job % _PAIRS)


def find_allocation(environ: Mapping[str, str], hostname: str) -> Allocation | None:
    """Returns the allocation that ``environ`` describes; None outside of Slurm."""
    job, nodes = environ.get("SLURM_JOB_ID"), environ.get("SLURM_JOB_NODELIST")
    if not job or not nodes:
        return None
    number = parse_integer(job, "SLURM_JOB_ID", 0, (1 << 32) - 1)
    names = expand_hosts(nodes)
    return Allocation(number, names, _here(environ, hostname, names))


def own_part(environ: Mapping[str, str]) -> tuple[str, int]:
    """Returns this node's name in a step of Slurm, and how many CPUs the step has here; 0:
    that is not known."""
    cpus = environ.get("SLURM_CPUS_ON_NODE")
    slots = parse_integer(cpus, "SLURM_CPUS_ON_NODE", 0, 1 << 20) if cpus else 0
    return environ.get("SLURMD_NODENAME") or os.uname().nodename, slots


def _here(environ: Mapping[str, str], hostname: str, names: tuple[str, ...]) -> str:
    """Returns Slurm's name of this machine if it has one, otherwise its host name."""
    candidates = (environ.get("SLURMD_NODENAME", ""), hostname, hostname.partition(".")[0])
    return next((name for name in candidates if name in names), hostname)
