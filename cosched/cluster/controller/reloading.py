"""Compares a new domain.toml with the settings in use.

The controller takes some settings at once. The others bind all members, so they need a
restart of the domain, and stay as they are until then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from cosched.cluster.config import DomainConfig
from cosched.cluster.coupled.reloading import differing, live_coupling
from cosched.core.errors import CoschedError

#: The settings that the controller takes at once, by table.
_LIVE = {
    "queue": ("policy", "jobs_per_node", "default_time_ns", "grace_ns"),
    "life": ("lost_after_ns", "prepare_ns"),
    "security": ("root_from", "least_uid"),
}
_UNITS = ("_ns", "_bytes")


@dataclass(frozen=True, slots=True)
class Change:
    """The change to a new domain.toml. config: the settings in use from now on. changed:
    settings that differ from before. restart: settings that need a restart."""

    config: DomainConfig
    changed: tuple[str, ...]
    restart: tuple[str, ...]

    @property
    def text(self) -> str:
        """The change in one line."""
        parts = []
        if self.changed:
            parts.append(f"changed: {', '.join(self.changed)}")
        if self.restart:
            parts.append(f"needs a restart of the domain: {', '.join(self.restart)}")
        return "; ".join(parts) or "nothing has changed"


def compare(old: DomainConfig, new: DomainConfig) -> Change:
    """Returns the change from ``old`` to ``new``. Raises CoschedError if what is taken at
    once does not fit what stays."""
    config = replace(
        old,
        queue=_with_live(old, new, "queue"),
        life=_with_live(old, new, "life"),
        security=_with_live(old, new, "security"),
        coupling=_live_coupling(old.coupling, new.coupling),
    )
    config.check_coupling()
    if config.life.lost_after_ns < 2 * config.life.beat_ns:
        raise CoschedError(
            "life.lost_after: must be at least twice the old life.beat: a new one "
            "needs a restart"
        )
    changed = tuple(_differences(old, config))
    return Change(config, changed, tuple(_differences(config, new)))


def _with_live(old: DomainConfig, new: DomainConfig, table: str) -> Any:
    wanted = getattr(new, table)
    live = {name: getattr(wanted, name) for name in _LIVE[table]}
    return replace(getattr(old, table), **live)


def _live_coupling(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the table with the new settings that are taken at once. A domain that was
    not coupled, or will not be, needs a restart."""
    if not (old and new):
        return dict(old)
    return live_coupling(old, new)


def _differences(old: DomainConfig, new: DomainConfig) -> Iterator[str]:
    """Yields the names of the settings that differ, as domain.toml has them."""
    for field in fields(old):
        one, other = getattr(old, field.name), getattr(new, field.name)
        if field.name in ("queue", "startup", "life", "security"):
            for part in fields(one):
                if getattr(one, part.name) != getattr(other, part.name):
                    yield f"{field.name}.{_plain(part.name)}"
        elif field.name == "coupling" and one and other:
            yield from (f"coupling.{name}" for name in differing(one, other))
        elif one != other or (field.name == "nodes" and list(one) != list(other)):
            yield field.name


def _plain(name: str) -> str:
    for unit in _UNITS:
        name = name.removesuffix(unit)
    return name
