"""Describes a start that is simulated: the design, the job and the costs. Pure data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from cosched.core.cluster.startup.jobobject import COUNT_BYTES
from cosched.core.cluster.startup.object_relay import Pipeline, StoreAndForward
from cosched.core.cluster.startup.seal import PROOF_BYTES
from cosched.core.cluster.startup.tables import Exchange, Siblings, ThroughRoot
from cosched.core.cluster.startup.tree import Position, Tree
from cosched.core.errors import CoschedError
from cosched.sim.startup.costs import Costs

#: Bytes of a task in the assignments of the old job object: a core and a window.
UNITS_BYTES = 8


class Stage(Enum):
    """A part of the dispatch time, which ends when the last node has done it."""

    OBJECT = "job object"
    ASSIGN = "assignment"
    TABLES = "tables"
    START = "master start"
    GO = "go"


#: The paper's order: tasks are started when they can read the tables.
PAPERS_ORDER = (Stage.OBJECT, Stage.ASSIGN, Stage.TABLES, Stage.START, Stage.GO)
#: A live domain's order: the tasks exchange the tables in MPI_Init.
LIVE_ORDER = (Stage.OBJECT, Stage.ASSIGN, Stage.START, Stage.GO, Stage.TABLES)
ORDERS = {"paper": PAPERS_ORDER, "live": LIVE_ORDER}


@dataclass(frozen=True, slots=True)
class Design:
    """A way to start a job."""

    relay: type[Pipeline] | type[StoreAndForward]  #: how nodes pass the job object on
    #: How nodes exchange tables; None: the job object has the assignments and the tables of
    #: all nodes.
    exchange: type[Exchange] | None
    #: A node passes tables on in chunks; False: when it has all tables for a neighbour.
    in_chunks: bool = False


DESIGNS = {
    "old": Design(StoreAndForward, None),
    "new": Design(StoreAndForward, Siblings),
    "pipelined": Design(Pipeline, Siblings, in_chunks=True),
    "through-root": Design(Pipeline, ThroughRoot),
    "live-old": Design(StoreAndForward, ThroughRoot),
}


@dataclass(frozen=True, slots=True)
class StartupRun:
    """A start of a job."""

    design: str  #: a name of DESIGNS
    nodes: int  #: nodes of the job
    tasks: int  #: tasks of the job on each of its nodes
    arity: int = 2  #: the most children of a node in the tree
    chunk_bytes: int = 64 << 10  #: size of a chunk of the object or of tables
    #: The size of the job object, needed by all nodes, without the count and the proof that
    #: it has for each node.
    object_bytes: int = 4096
    node_bytes: int = 0  #: size of a further part for each node alone
    table_bytes: int = 25  #: size of a task's entry in the network table
    order: str = "paper"  #: a name of ORDERS: the order of the stages
    costs: Costs = field(default_factory=Costs)  #: the times that the steps take

    def __post_init__(self) -> None:
        if min(self.nodes, self.tasks, self.arity, self.chunk_bytes) < 1:
            raise CoschedError("nodes, tasks, arity and chunk must be 1 or more")
        if min(self.object_bytes, self.node_bytes, self.table_bytes) < 0:
            raise CoschedError("no part of an object can have less than 0 bytes")

    @property
    def name(self) -> str:
        """The name in the progress display."""
        return f"{self.design} {self.nodes} x {self.tasks}"

    @property
    def way(self) -> Design:
        """The design itself."""
        return DESIGNS[self.design]

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of each node, in order."""
        if self.way.exchange is None:
            return (Stage.OBJECT, Stage.START, Stage.GO)
        return ORDERS[self.order]

    @property
    def tree(self) -> Tree:
        """The tree of the job's nodes."""
        return Tree(self.nodes, self.arity)

    @property
    def node_table_bytes(self) -> int:
        """Returns the bytes of a node's table."""
        return self.tasks * self.table_bytes

    @property
    def tables_in_message(self) -> int:
        """Returns the number of tables that fill a message: as many as have a chunk's size,
        or as all nodes have."""
        if not self.way.in_chunks or not self.node_table_bytes:
            return self.nodes
        return math.ceil(self.chunk_bytes / self.node_table_bytes)

    @property
    def divisible_bytes(self) -> int:
        """Returns the bytes of the object that only one node needs, for each node."""
        central = self.way.exchange is None
        return self.node_bytes + (self.tasks * UNITS_BYTES if central else 0)

    def object_of(self, place: Position) -> int:
        """Returns the bytes of the object, or of its part, that a node gets."""
        central = self.way.exchange is None
        for_each = COUNT_BYTES + PROOF_BYTES + (self.node_table_bytes if central else 0)
        shared = self.object_bytes + self.nodes * for_each
        trimmed = self.way.relay is StoreAndForward and self.divisible_bytes
        nodes = self.tree.below(place) if trimmed else self.nodes
        return shared + nodes * self.divisible_bytes
