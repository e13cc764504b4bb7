"""Takes the figures of a domain and its mates, which ``metrics`` shows to Prometheus.

Counters last as long as the state of the domain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from cosched.core.cluster.coupling.engine_messages import CapacityChanged
from cosched.core.cluster.coupling.machine import Coupling
from cosched.core.cluster.coupling.settings import CouplingSettings
from cosched.core.cluster.coupling.state import Counts, Stage


class Figures(msgspec.Struct, frozen=True):
    """The state of a domain at a moment."""

    counts: Counts  #: how often each branch was taken
    held_node_ns: int  #: including holds that last
    held: int  #: nodes that jobs hold idle
    capacity: int  #: nodes in service
    held_cap: float  #: the part of the nodes that may be held
    stages: dict[str, int]  #: waiting jobs with mates by stage
    up: dict[str, bool]  #: whether each other domain answers
    jobs: dict[str, int] = {}  #: all jobs by state; empty if another scheduler has them
    #: Changes of jobs' sizes by their end; empty if the domain changes none.
    size_changes: dict[str, int] = {}
    #: Nodes of running jobs by kind; empty if the domain changes no sizes.
    job_nodes: dict[str, int] = {}
    #: Suspensions that began and those that were refused; empty if there are none.
    suspensions: dict[str, int] = {}
    suspended: int = 0  #: jobs that are suspended now


def figures(coupling: Coupling, others: Iterable[str], now_ns: int) -> Figures:
    """Returns the present figures; changes nothing."""
    state, waiting = coupling.state, coupling.waiting
    idle = [member for member in waiting if member.stage is not Stage.QUEUING]
    lasting_ns = sum(max(0, now_ns - each.since_ns) * each.size for each in idle)
    stages = Counter(member.stage.value for member in waiting)
    known = state.peers
    return Figures(
        counts=msgspec.structs.replace(state.counts),
        held_node_ns=state.counts.held_node_ns + lasting_ns,
        held=coupling.held,
        capacity=state.capacity,
        held_cap=coupling.settings.held_cap,
        stages={stage.value: stages[stage.value] for stage in Stage if stage.may_wait},
        up={name: name not in known or not known[name].down for name in others},
    )


def figures_alone(nodes: int) -> Figures:
    """Returns the figures of a domain that is coupled with no other."""
    coupling = Coupling("", CouplingSettings())
    coupling.handle(CapacityChanged(0, nodes))
    return figures(coupling, (), 0)
