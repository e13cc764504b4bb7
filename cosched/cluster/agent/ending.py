"""Notes how far the end of one world of a job is on one node."""

from __future__ import annotations

from dataclasses import dataclass, field

from cosched.cluster.messages import Failure
from cosched.core.cluster.startup.ends import Awaited, EndLimit
from cosched.core.cluster.startup.tree import Place


@dataclass(slots=True)
class Ends:
    """Notes which parts of the subtree have not ended yet. children: their places."""

    children: set[Place]
    tasks: bool = False  #: this node's tasks are gone
    steward: bool = False  #: this node's steward is gone
    direct: bool = False  #: the tree is broken: the agent reports to the controller
    failure: Failure | None = None
    reported: bool = False
    limit: EndLimit = field(default_factory=EndLimit)
    overdue: str = ""  #: why this node's steward was killed

    def has_ended(self, awaited: Awaited) -> bool:
        """Returns whether this node's tasks, or its steward, are gone."""
        return self.steward or (awaited is Awaited.TASKS and self.tasks)
