"""Defines what agents report about jobs that share nodes.

A node's agent reports what its scheduler daemon saw of the jobs that the controller started
there. It names jobs by their numbers alone: their programs, users and labels are those that
the controller has stored.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from cosched.cluster.message_kinds import OfJob
from cosched.core.bounds import JobNumber, Natural, Positive

#: The largest slowdown that is reported; a job that stands still has it.
SLOWDOWN_MOST = 1000
#: The most neighbours in one report.
NEIGHBOURS_MOST = 32
#: A slowdown in thousandths. Whole numbers have no infinity, and none that is no number.
Thousandths = Annotated[int, msgspec.Meta(ge=0, le=1000 * SLOWDOWN_MOST)]


class BesideJob(msgspec.Struct, frozen=True, array_like=True):
    """The speed of a job beside another one on the sender's node."""

    job: JobNumber  #: the other job
    trials: Positive  #: how many looks there were
    slowdown: Thousandths  #: its speed alone over the speed beside the other one
    at_least: Thousandths  #: it is surely slowed by that factor or more; 0: not known


class Spent(msgspec.Struct, frozen=True, array_like=True):
    """How the tasks of a job spent their time on the sender's node, added up."""

    time_ns: Natural  #: how long they were scheduled
    messages_ns: Natural  #: how long they waited in MPI
    blocked_ns: Natural  #: how long they waited outside of MPI
    cpu_ns: Natural  #: the CPU time of their main threads
    stalled_io_ns: Natural | None  #: waits for a disk; None: the kernel has no account
    stalled_memory_ns: Natural | None  #: waits for reclaimed memory; None: as above
    read_bytes: Natural  #: bytes that were read from disks
    written_bytes: Natural  #: bytes that are or will be written to disks


class JobShared(OfJob, frozen=True):
    """The sender's node saw this of one start of a job. A later report replaces it."""

    #: Its speed beside other jobs of the domain, the last ones.
    beside: Annotated[tuple[BesideJob, ...], msgspec.Meta(max_length=NEIGHBOURS_MOST)]
    #: None: it has tasks on the node yet, or the kernel has no account.
    spent: Spent | None = None
    over: bool = False  #: its tasks on the node have ended; this is the last report
