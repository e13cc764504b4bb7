"""Holds the merged configuration: typed values, and the origin of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from cosched.core.config.kinds import OFF, WAITS, Move
from cosched.core.config.schema import CARRIERS, TRACE_BYTES
from cosched.core.node.settings import Fairness, LeastShare, Order, Settings, Span
from cosched.core.units import NS_PER_S


class Source(str, Enum):
    """The kinds of sources; a later one wins."""

    DEFAULT = "default"
    OPERATOR = "operator's file"
    USER = "user's file"
    ENVIRONMENT = "environment"
    OPTION = "option"


@dataclass(frozen=True, slots=True)
class Origin:
    """The exact place: ``/etc/cosched.toml:3``, or the name of a variable or an option."""

    source: Source
    where: str = ""

    def __str__(self) -> str:
        return self.where or self.source.value


@dataclass(frozen=True, slots=True)
class Setting:
    """A typed value and its origin."""

    value: Any
    origin: Origin


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake and its place."""

    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """[node]: how the node's daemons schedule."""

    slice: Span
    gmet: Span
    align: bool
    order: Order
    least_share: LeastShare
    fairness: Fairness
    class_scheduler: str
    mode: str
    memory_bytes: int | None = None
    memory_wait_ns: int = 600 * NS_PER_S
    allow_raise: bool | None = None
    trace_bytes: int = TRACE_BYTES

    def settings(self) -> Settings:
        """Returns the scheduler's first settings; CoschedError if they are impossible."""
        return Settings(
            slice_ns=self.slice.ns,
            gmet_ns=self.gmet.ns,
            align=self.align,
            slice_auto=self.slice.auto,
            gmet_auto=self.gmet.auto,
            order=self.order,
            least_share=self.least_share,
            fairness=self.fairness,
        )


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """[metrics]: ``HOST:PORT`` or ``off``."""

    listen: str


@dataclass(frozen=True, slots=True)
class RunConfig:
    """[run]: the defaults of cosched-run's options."""

    wait: str
    status: str
    require: str


@dataclass(frozen=True, slots=True)
class Limits:
    """[limits]: the operator's limits for users; only ``move`` binds root too."""

    slice_min_ns: int | None = None
    slice_max_ns: int | None = None
    gmet_max_ns: int | None = None
    carriers: tuple[str, ...] = CARRIERS
    waits: tuple[str, ...] = WAITS
    jobs_per_user: int | None = None
    private_daemons: bool = True
    move: Move = Move.FREE


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration. ``merged`` has each key's value with its origin."""

    node: NodeConfig
    metrics: MetricsConfig
    run: RunConfig
    limits: Limits
    merged: Mapping[str, Setting] = field(repr=False, compare=False)

    def metrics_listen(self, *, private: bool) -> str:
        """Returns the address at which daemons serve metrics, or ``off``.

        Private daemons ignore the address in a file: all users' daemons would need it.
        """
        in_file = self.origin("metrics.listen").source in (Source.OPERATOR, Source.USER)
        return OFF if private and in_file else self.metrics.listen

    def origin(self, path: str) -> Origin:
        """Returns the origin of ``section.key``."""
        return self.merged[path].origin


def config_of(merged: Mapping[str, Setting]) -> Config:
    """Returns the typed form of a complete set of values."""

    def value(path: str) -> Any:
        return merged[path].value

    return Config(
        node=NodeConfig(
            slice=value("node.slice"),
            gmet=value("node.gmet"),
            align=value("node.align"),
            order=value("node.order"),
            least_share=value("node.least_share"),
            fairness=value("node.fairness"),
            class_scheduler=value("node.class_scheduler"),
            mode=value("node.mode"),
            memory_bytes=value("node.memory"),
            memory_wait_ns=value("node.memory_wait"),
            allow_raise=value("node.allow_raise"),
            trace_bytes=value("node.trace"),
        ),
        metrics=MetricsConfig(listen=value("metrics.listen")),
        run=RunConfig(
            wait=value("run.wait"),
            status=value("run.status"),
            require=value("run.require"),
        ),
        limits=Limits(
            slice_min_ns=value("limits.slice_min"),
            slice_max_ns=value("limits.slice_max"),
            gmet_max_ns=value("limits.gmet_max"),
            carriers=value("limits.carriers"),
            waits=value("limits.waits"),
            jobs_per_user=value("limits.jobs_per_user"),
            private_daemons=value("limits.private_daemons"),
            move=value("limits.move"),
        ),
        merged=merged,
    )
