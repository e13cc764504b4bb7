"""Serves metrics of a domain to Prometheus.

The controller's loop takes the figures; a thread of ``prometheus_client`` asks for them
when Prometheus asks. Counters last as long as the state of the domain, so a restart of the
controller does not reset them.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from cosched.core.cluster.coupling.engine_messages import CapacityChanged
from cosched.core.cluster.coupling.machine import Coupling
from cosched.core.cluster.coupling.settings import CouplingSettings
from cosched.core.cluster.coupling.state import Counts, Stage
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.service.metrics_server import MetricsServer
from cosched.service.tcp import listen_at

#: The controller answers in this time, or the metrics are missing once.
ANSWER_S = 5.0
_PREFIX = "cosched_domain_"
#: The counters of ``Counts``: metric, field, help.
_COUNTERS = (
    ("jobs_with_mates_started", "started", "Jobs with mates that were started"),
    ("jobs_with_mates_started_alone", "started_alone", "Jobs that started without a mate"),
    ("rounds", "rounds", "Attempts to start a group"),
    ("rounds_failed", "rounds_failed", "Attempts after which a job waited on"),
    ("holds", "holds", "Decisions to hold nodes"),
    ("yields", "yields", "Decisions to yield nodes"),
    ("yields_by_held_cap", "yields_by_held_cap", "Yields because too many nodes were held"),
    ("releases", "releases", "Holds that ended with their lease"),
    ("messages_dropped", "dropped", "Messages that were late, repeated or forged"),
    ("questions_refused", "refused", "Questions of other domains that were refused"),
    ("others_lost", "peers_down", "Times that another domain stopped to answer"),
)


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


def metrics_of(found: Figures) -> Iterator[Metric]:
    """Yields the metrics of a domain."""
    for name, field, help_ in _COUNTERS:
        yield CounterMetricFamily(_PREFIX + name, help_, getattr(found.counts, field))
    for name, value_ns, help_ in (
        ("held_node_seconds", found.held_node_ns, "Nodes times seconds held idle"),
        ("sync_seconds", found.counts.sync_ns, "From ready to start, over started jobs"),
    ):
        yield CounterMetricFamily(_PREFIX + name, help_, value_ns / NS_PER_S)
    for name, value, help_ in (
        ("held_nodes", found.held, "Nodes that jobs hold idle"),
        ("nodes", found.capacity, "Nodes in service"),
        ("held_cap_ratio", found.held_cap, "The share of the nodes that may be held"),
        ("suspended_jobs", found.suspended, "Jobs whose tasks are stopped for others"),
    ):
        yield GaugeMetricFamily(_PREFIX + name, help_, value)
    for name, label, values, help_ in (
        ("jobs", "state", found.jobs, "Jobs by state"),
        ("job_nodes", "kind", found.job_nodes, "Nodes that running jobs have"),
        ("jobs_with_mates", "stage", found.stages, "Jobs with mates that wait"),
        ("other_up", "domain", found.up, "1 if the other domain answers"),
    ):
        gauge = GaugeMetricFamily(_PREFIX + name, help_, labels=[label])
        for word, number in values.items():
            gauge.add_metric([word], int(number))
        yield gauge
    for name, counts, help_ in (
        ("size_changes", found.size_changes, "Changes of jobs' sizes that ended"),
        ("suspensions", found.suspensions, "Orders to suspend a job that ended"),
    ):
        counter = CounterMetricFamily(_PREFIX + name, help_, labels=["end"])
        for end, number in counts.items():
            counter.add_metric([end], number)
        yield counter


class DomainCollector(Collector):
    """Asks the controller's loop when Prometheus asks, in another thread."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, take: Callable[[], Figures]
    ) -> None:
        self._loop = loop
        self._take = take

    def describe(self) -> Iterable[Metric]:
        """Returns nothing: at registration the loop does not run yet."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Returns the metrics now. Raises CoschedError if the loop does not answer."""

        async def take() -> Figures:
            return self._take()

        taken = asyncio.run_coroutine_threadsafe(take(), self._loop)
        try:
            return metrics_of(taken.result(ANSWER_S))
        except concurrent.futures.TimeoutError:
            line = f"the controller has not answered within {ANSWER_S:g} s"
            raise CoschedError(line) from None


def serve_metrics(listen: str | None, take: Callable[[], Figures]) -> Callable[[], None]:
    """Serves at ``HOST:PORT``, or nowhere; returns a function that ends it. Raises
    CoschedError if the address is taken."""
    if listen is None:
        return lambda: None
    registry = CollectorRegistry()
    registry.register(DomainCollector(asyncio.get_running_loop(), take))
    return MetricsServer(listen_at(listen, "metrics"), registry).start()
