"""Defines the messages about suspended jobs.

The controller sends each to all nodes of a job, and each node answers for all tasks of the
job that it has. A node that gets one again answers again.
"""

from __future__ import annotations

from cosched.cluster.message_kinds import OfJob
from cosched.core.bounds import Natural, Slots


class SuspendTasks(OfJob, frozen=True):
    """All tasks of the job on the receiver must stop, and keep their memory."""

    times: Slots  #: how often the job was suspended, this time included
    #: The memory that the job and the one that borrows its nodes need together on a node,
    #: by their users' words, in bytes; 0: not known.
    memory_bytes: Natural = 0


class TasksSuspended(OfJob, frozen=True):
    """The answer to ``SuspendTasks``."""

    times: Slots  #: as in the order
    problem: str = ""  #: why some tasks may run on; empty: all are stopped


class ContinueTasks(OfJob, frozen=True):
    """All tasks of the job on the receiver must run again."""

    times: Slots  #: how often the job was suspended


class TasksContinued(OfJob, frozen=True):
    """The answer to ``ContinueTasks``."""

    times: Slots  #: as in the order
