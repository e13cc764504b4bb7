"""Defines the messages about changes of a malleable job's size.

The controller admits nodes and orders a change. The job's root agrees about it with the
pages of all nodes of the job, and reports the end of the change.
"""

from __future__ import annotations

import msgspec

from cosched.cluster.message_kinds import OfJob
from cosched.core.bounds import Natural, Positive, Slots
from cosched.core.cluster.resizing.change import Generation
from cosched.core.cluster.resizing.node_part import Answer as PartAnswer
from cosched.core.cluster.resizing.node_part import Order as PartOrder
from cosched.core.cluster.resizing.node_part import Predicted, Sensed


class Admit(OfJob, frozen=True):
    """The receiver is a node of a malleable job. The controller sends it to all nodes of
    the job, old ones and those that arrive, before it orders a change."""

    generation: Generation  #: of the change
    place: Slots  #: the receiver's place in the job; no other node ever gets it
    #: All nodes that the job has or had, as numbers in domain.toml, by place.
    nodes: tuple[tuple[Slots, Slots], ...]
    places: tuple[Slots, ...]  #: have or get ranks: worlds may run only there
    data: bytes  #: the job object; empty for a node that has it


class Admitted(OfJob, frozen=True):
    """The answer to ``Admit``, to the controller."""

    generation: Generation  #: of the change
    problem: str = ""  #: why the node cannot have tasks of the job; empty: it can


class Arriving(msgspec.Struct, frozen=True, array_like=True):
    """Ranks that come to an admitted node."""

    place: Slots  #: of the node in the job
    ranks: Positive  #: how many


class Resize(OfJob, frozen=True):
    """The job must change its size. The controller sends it to the job's root, once all
    nodes are admitted. A root that gets it again answers again."""

    generation: Generation  #: of the change
    leaving: tuple[Slots, ...]  #: the places whose ranks all leave
    arriving: tuple[Arriving, ...]  #: in the order of their ranks


class WithdrawChange(OfJob, frozen=True):
    """The root must refuse the change if its tasks have not begun it, and give up a new
    world whose tasks have not begun if a node of it is lost."""

    generation: Generation  #: of the change
    reason: str  #: one line
    lost: tuple[Slots, ...] = ()  #: the places of arriving nodes that are lost


class PageOrder(OfJob, frozen=True):
    """An order of the job's root about the page of the receiver's node."""

    order: PartOrder  #: for the node's part of the agreement
    ranks: Slots  #: of the job on the node now


class PhaseTimes(msgspec.Struct, frozen=True, array_like=True):
    """How long the phases of a change took, and how much data moved."""

    agree_ns: Natural  #: from the root's first order to the commit
    wait_ns: Natural  #: from rank 0's boundary to the commit
    spawn_ns: Natural  #: MPI_Comm_spawn
    connect_ns: Natural  #: communicators and tables
    start_ns: Natural  #: until all ranks came to move their data
    move_ns: Natural  #: the data
    resume_ns: Natural  #: old communicators were freed
    empty_ns: Natural  #: until the tasks that left were gone
    moved_bytes: Natural  #: between processes


class PageAnswer(OfJob, frozen=True):
    """An answer of the sender's page, to the job's root."""

    answer: PartAnswer | Sensed  #: of the node's part of the agreement
    times: PhaseTimes | None = None  #: of a change that is done, from the node of rank 0


class ChangeEnded(OfJob, frozen=True):
    """The end of a change, from the job's root to the controller. The tasks that left are
    gone, so their nodes are free. The root sends it again to a new life of the controller.
    """

    generation: Generation  #: of the change
    places: tuple[Slots, ...]  #: that have ranks of the job now
    times: PhaseTimes | None = None  #: of a change that is done
    refused: str = ""  #: why the job is as it was; empty: the change is done


class Dismiss(OfJob, frozen=True):
    """The receiver is no node of the malleable job any more: it has no task of it."""


class JobSensed(OfJob, frozen=True):
    """The pace and the wishes of a malleable job, from its root to the controller, once a
    second at most."""

    size: Positive  #: its nodes
    iterations: Natural  #: since it has this size
    exec_ns: Natural  #: their time
    comm_ns: Natural  #: the part in which rank 0 waited in MPI; 0: not measured
    minimum: Slots  #: nodes that the program needs; 0: not known
    ideal: Slots  #: nodes at which it is fastest; 0: not known
    wanted: Slots  #: nodes that it asks for; 0: none
    asked: Natural  #: how often it asked
    #: Numbers of nodes and the predicted time of an iteration on each, in ns; (): none.
    predicted: Predicted = ()
