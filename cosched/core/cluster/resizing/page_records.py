"""Declares what stands in a page, as ``cosched/shm/page.py`` reads and writes it.

All ranks of a job wait while one that joins imports this. So the classes are structs, which
are made in a tenth of the time of dataclasses.
"""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

#: A boundary that no rank comes to.
NO_BOUNDARY = (1 << 62) - 1
#: The most points of a prediction: COSCHED_PAGE_POINTS of ``page.h``.
PREDICTED_MOST = 64


class Phase(IntEnum):
    """What the word of a page says about its boundary: enum cosched_page_phase."""

    NONE = 0
    PROPOSED = 1  #: a rank that comes there waits
    COMMITTED = 2  #: a rank that comes there carries out the change


class Look(Struct, frozen=True):
    """What an agent sees of the ranks of its node."""

    largest: int  #: the largest boundary that one of them came to
    joining: int  #: ranks that are not yet in the job's communicator
    live: int  #: ranks at work
    leaving: int  #: ranks in their last change
    ended: int  #: ranks whose loop ended before the boundary in question
    missed: bool  #: whether a rank may have passed that boundary


class Wants(Struct, frozen=True):
    """What the job wants, in nodes; 0: not known."""

    minimum: int  #: the least number
    ideal: int  #: the best number
    wanted: int  #: what the program asked for last
    asked: int  #: how often it asked


class Times(Struct, frozen=True):
    """The phases of a change, in ns, as rank 0 of the job saw them."""

    wait_ns: int = 0  #: from the boundary to the commit
    spawn_ns: int = 0  #: MPI_Comm_spawn
    connect_ns: int = 0  #: communicators and tables
    start_ns: int = 0  #: until all ranks have come to redistribute
    move_ns: int = 0  #: the data
    resume_ns: int = 0  #: old communicators are freed


class Result(Struct, frozen=True):
    """The last change, as rank 0 of the job reported it."""

    generation: int  #: of the order
    ranks: int  #: of the job after it
    times: Times  #: its phases
    moved_bytes: int  #: between processes
    refused: str = ""  #: why the job is as it was; empty: the change is done


class Pace(Struct, frozen=True):
    """How fast a rank works since the job has its size."""

    steps: int  #: iterations that have ended
    exec_ns: int  #: their time
    comm_ns: int  #: the time in them in which the rank waited in MPI; 0: not measured
