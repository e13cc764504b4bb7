"""Serves metrics of a domain to Prometheus.

The controller's loop takes the figures; a thread of ``prometheus_client`` asks for them
when Prometheus asks. Counters last as long as the state of the domain, so a restart of the
controller does not reset them.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from cosched.cluster.coupling.domain_figures import Figures
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


def serve_metrics(listen: str, take: Callable[[], Figures]) -> Callable[[], None]:
    """Serves at ``HOST:PORT``; returns a function that ends it. Raises CoschedError if the
    address is taken."""
    registry = CollectorRegistry()
    registry.register(DomainCollector(asyncio.get_running_loop(), take))
    return MetricsServer(listen_at(listen, "metrics"), registry).start()
