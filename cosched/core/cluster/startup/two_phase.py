"""Starts a job on all its nodes or on none: first all are prepared, then all go.

A prepared node has assigned its resources and has made its tasks, which wait at a gate.
Reports go up the tree and orders go down. The root's parent is the job's manager.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from cosched.core.cluster.startup.tree import Position


class Stage(Enum):
    """How far the start of a job is on one node."""

    PREPARING = "preparing"
    PREPARED = "prepared"  #: the whole subtree is
    GONE = "gone"  #: the gate is open
    ABORTED = "aborted"


class Prepared(Struct, frozen=True):
    """This node's tasks wait at the gate."""


class SubtreePrepared(Struct, frozen=True):
    """A child reports that its whole subtree is prepared."""

    child: Position  #: the root of the subtree


class PrepareFailed(Struct, frozen=True):
    """A node of this subtree cannot start its tasks, or is lost."""

    place: Position  #: the node
    reason: str  #: one line
    again: bool = False  #: another start may succeed


class Ordered(Struct, frozen=True):
    """The parent orders this subtree to go, or to abort."""

    go: bool  #: False: the tasks are discarded


class ReportPrepared(Struct, frozen=True):
    """Report to the parent that the whole subtree is prepared."""


class ReportFailure(Struct, frozen=True):
    """Report to the parent that the job cannot start, and why."""

    place: Position  #: the node
    reason: str  #: one line
    again: bool = False  #: whether another start may succeed


class Order(Struct, frozen=True):
    """Order a child's subtree to go, or to abort."""

    child: Position  #: the root of the subtree
    go: bool  #: False: the subtree aborts


class Begin(Struct, frozen=True):
    """Let this node's tasks begin."""


class Discard(Struct, frozen=True):
    """End this node's tasks, which have not begun, and free its resources."""


Event = Prepared | SubtreePrepared | PrepareFailed | Ordered
Command = ReportPrepared | ReportFailure | Order | Begin | Discard


class TwoPhaseStart:
    """The start of one job at one node. Each order is carried out once."""

    def __init__(self, children: tuple[Position, ...]) -> None:
        self._children = children
        self._waits_for = set(children)
        self._own = False
        self.stage = Stage.PREPARING

    def handle(self, event: Event) -> tuple[Command, ...]:
        """Handles an event; returns the commands."""
        if isinstance(event, Ordered):
            return self._carry_out(go=event.go)
        if isinstance(event, PrepareFailed):
            # If this node has gone already, the manager must end the job.
            report = ReportFailure(event.place, event.reason, event.again)
            return (report, *self._carry_out(go=False))
        if isinstance(event, Prepared):
            self._own = True
        else:
            self._waits_for.discard(event.child)
        if self.stage is not Stage.PREPARING or self._waits_for or not self._own:
            return ()
        self.stage = Stage.PREPARED
        return (ReportPrepared(),)

    def _carry_out(self, *, go: bool) -> tuple[Command, ...]:
        if self.stage in (Stage.GONE, Stage.ABORTED):
            return ()
        if go and self.stage is not Stage.PREPARED:
            return ()  # only a prepared subtree goes; the manager orders it again
        self.stage = Stage.GONE if go else Stage.ABORTED
        orders = (Order(child, go=go) for child in self._children)
        return (*orders, Begin() if go else Discard())
