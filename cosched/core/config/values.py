"""The merged configuration: typed values, and where each came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from cosched.core.config.kinds import OFF, WAITS
from cosched.core.config.schema import CARRIERS, TRACE_BYTES
from cosched.core.node.settings import Settings, Span
from cosched.core.units import NS_PER_S


class Source(str, Enum):
    """The kinds of places a value can come from; a later one wins."""

    DEFAULT = "default"
    OPERATOR = "operator's file"
    USER = "user's file"
    ENVIRONMENT = "environment"
    OPTION = "option"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where exactly: ``/etc/cosched.toml:3``, a variable's or an option's name."""

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
    """Something wrong, and where."""

    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """[node]: how this node's daemons schedule."""

    slice: Span
    gmet: Span
    align: bool
    class_scheduler: str
    mode: str
    memory_bytes: int | None = None
    memory_wait_ns: int = 600 * NS_PER_S
    allow_raise: bool | None = None
    trace_bytes: int = TRACE_BYTES

    def settings(self) -> Settings:
        """What the scheduler starts with; CoschedError if it makes no sense."""
        return Settings(
            slice_ns=self.slice.ns,
            gmet_ns=self.gmet.ns,
            align=self.align,
            slice_auto=self.slice.auto,
            gmet_auto=self.gmet.auto,
        )


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """[metrics]: ``HOST:PORT`` or ``off``."""

    listen: str


@dataclass(frozen=True, slots=True)
class RunConfig:
    """[run]: what cosched-run takes where its options say nothing."""

    wait: str
    status: str


@dataclass(frozen=True, slots=True)
class Limits:
    """[limits]: what the operator leaves to users; root is bound by none of it."""

    slice_min_ns: int | None = None
    slice_max_ns: int | None = None
    gmet_max_ns: int | None = None
    carriers: tuple[str, ...] = CARRIERS
    waits: tuple[str, ...] = WAITS
    jobs_per_user: int | None = None
    private_daemons: bool = True


@dataclass(frozen=True, slots=True)
class Config:
    """Everything, merged once. ``merged`` has each key's value with its origin."""

    node: NodeConfig
    metrics: MetricsConfig
    run: RunConfig
    limits: Limits
    merged: Mapping[str, Setting] = field(repr=False, compare=False)

    def metrics_listen(self, *, private: bool) -> str:
        """Where daemons are to serve metrics. Private ones only where that was asked of
        them: what a file says is one address, and each user's daemons would want it."""
        in_file = self.origin("metrics.listen").source in (Source.OPERATOR, Source.USER)
        return OFF if private and in_file else self.metrics.listen

    def origin(self, path: str) -> Origin:
        """Where ``section.key`` came from."""
        return self.merged[path].origin


def config_of(merged: Mapping[str, Setting]) -> Config:
    """The typed form of a complete set of values."""

    def value(path: str) -> Any:
        return merged[path].value

    return Config(
        node=NodeConfig(
            slice=value("node.slice"),
            gmet=value("node.gmet"),
            align=value("node.align"),
            class_scheduler=value("node.class_scheduler"),
            mode=value("node.mode"),
            memory_bytes=value("node.memory"),
            memory_wait_ns=value("node.memory_wait"),
            allow_raise=value("node.allow_raise"),
            trace_bytes=value("node.trace"),
        ),
        metrics=MetricsConfig(listen=value("metrics.listen")),
        run=RunConfig(wait=value("run.wait"), status=value("run.status")),
        limits=Limits(
            slice_min_ns=value("limits.slice_min"),
            slice_max_ns=value("limits.slice_max"),
            gmet_max_ns=value("limits.gmet_max"),
            carriers=value("limits.carriers"),
            waits=value("limits.waits"),
            jobs_per_user=value("limits.jobs_per_user"),
            private_daemons=value("limits.private_daemons"),
        ),
        merged=merged,
    )
