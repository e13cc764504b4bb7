"""Compares a new ``domain.toml`` of a coupled domain with the settings in use.

Schemes, limits, waits and users are taken at once. Names, addresses and the settings of
Slurm need a restart of the controller, and stay as they are until then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from cosched.cluster.answers import ReloadInfo
from cosched.cluster.coupled.config import CoupledConfig

_LIVE = ("settings", "waits", "rights")


def compare(old: CoupledConfig, new: CoupledConfig) -> tuple[CoupledConfig, ReloadInfo]:
    """Returns the settings in use from now on, and the change in words."""
    config = replace(old, **{name: getattr(new, name) for name in _LIVE})
    changed = list(_differences(old, config))
    restart = list(_differences(config, new))
    parts = []
    if changed:
        parts.append(f"changed: {', '.join(changed)}")
    if restart:
        parts.append(f"needs a restart of the controller: {', '.join(restart)}")
    text = "; ".join(parts) or "nothing has changed"
    return config, ReloadInfo(changed=changed, restart=restart, text=text)


def _differences(old: CoupledConfig, new: CoupledConfig) -> Iterator[str]:
    """Yields the names of the settings that differ."""
    for field in fields(old):
        one, other = getattr(old, field.name), getattr(new, field.name)
        if field.name in ("settings", "waits"):
            for part in fields(one):
                if getattr(one, part.name) != getattr(other, part.name):
                    yield part.name.removesuffix("_ns").removesuffix("_s")
        elif one != other:
            yield field.name
