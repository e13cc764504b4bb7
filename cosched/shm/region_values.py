"""Reads the numbers and records that stand in regions: carriers, resources, phases.

The numbers are those of ``include/cosched/layout.h``. A user can write any others.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from cosched.core.node.knowledge import Expectation
from cosched.core.units import LENGTH_MAX_NS
from cosched.shm._native import ffi, lib

#: Names of the carriers of the sender's status, by the numbers of enum cosched_carrier.
CARRIERS = {
    number: bytes(ffi.string(lib.cosched_environment_carrier_name(number))).decode()
    for number in (
        lib.COSCHED_CARRIER_NONE,
        lib.COSCHED_CARRIER_PREFIX,
        lib.COSCHED_CARRIER_SHADOW,
    )
}
#: The names of the resources that limit a job, by their bits in enum cosched_resource.
RESOURCES = {
    lib.COSCHED_LIMITED_BY_CPU: "cpu",
    lib.COSCHED_LIMITED_BY_MEMORY: "memory",
    lib.COSCHED_LIMITED_BY_IO: "io",
    lib.COSCHED_LIMITED_BY_NETWORK: "network",
}


class Phase(IntEnum):
    """The phase in which a process registers; see enum cosched_phase."""

    TASK = lib.COSCHED_PHASE_TASK  #: it called MPI_Init
    LAUNCHED = lib.COSCHED_PHASE_LAUNCHED  #: it will be a task, and has just started
    LAUNCHER = lib.COSCHED_PHASE_LAUNCHER  #: it starts tasks and is none itself
    COMMAND = lib.COSCHED_PHASE_COMMAND  #: it will start the launcher

    @property
    def starts_tasks(self) -> bool:
        """Whether the process is none of the job's tasks, and starts them."""
        return self in (Phase.LAUNCHER, Phase.COMMAND)


def read_expectation(record: Any) -> Expectation:
    """Returns the valid part of a ``cosched_expectation``; a user may write anything."""
    lengths_ns = [int(length_ns) for length_ns in record.lengths_ns]
    return Expectation(
        int(record.kind), tuple(ns for ns in lengths_ns if 0 < ns <= LENGTH_MAX_NS)
    )


def read_limits(bits: int) -> tuple[str, ...]:
    """Returns the names of a set of resources; other bits count for nothing."""
    return tuple(name for bit, name in RESOURCES.items() if bits & bit)
