"""Holds the merged configuration: typed values, and the origin of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from cosched.core.config.kinds import OFF
from cosched.core.config.schema import Sections
from cosched.core.named_tuples import NamedTuple


class Source(str, Enum):
    """The kinds of sources; a later one wins."""

    DEFAULT = "default"
    OPERATOR = "operator's file"
    USER = "user's file"
    ENVIRONMENT = "environment"
    OPTION = "option"


class Origin(NamedTuple):
    """The place that set a value."""

    source: Source  #: the kind of place
    #: The exact place: ``/etc/cosched.toml:3``, or the name of a variable or an option;
    #: empty: ``source`` says it.
    where: str = ""

    def __str__(self) -> str:
        return self.where or self.source.value


class Setting(NamedTuple):
    """A value with its origin."""

    value: Any  #: the typed value; None: it is not set
    origin: Origin  #: the place that set it


@dataclass(frozen=True, slots=True)
class Config(Sections):
    """The whole configuration."""

    #: Each key's value with its origin, by ``table.key``.
    merged: Mapping[str, Setting] = field(default_factory=dict, repr=False, compare=False)

    def metrics_listen(self, *, private: bool) -> str:
        """Returns the address at which daemons serve metrics, or ``off``.

        Private daemons ignore the address in a file: all users' daemons would need it.
        """
        in_file = self.origin("metrics.listen").source in (Source.OPERATOR, Source.USER)
        return OFF if private and in_file else self.metrics.listen

    def origin(self, path: str) -> Origin:
        """Returns the origin of ``table.key``."""
        return self.merged[path].origin
