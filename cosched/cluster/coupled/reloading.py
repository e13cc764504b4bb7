"""Compares a new ``domain.toml`` of a coupled domain with the settings in use.

Schemes, limits, waits and users are taken at once. Names, addresses and the settings of
Slurm need a restart of the controller, and stay as they are until then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from cosched.cluster.answers import ReloadInfo
from cosched.cluster.coupled.config import CoupledConfig

#: The addresses in the table ``coupling``: they need a restart.
_ADDRESSES = ("listen", "domains", "metrics")


def compare(old: CoupledConfig, new: CoupledConfig) -> tuple[CoupledConfig, ReloadInfo]:
    """Returns the settings in use from now on, and the change in words."""
    coupling = live_coupling(old.document["coupling"], new.document["coupling"])
    config = replace(
        old,
        settings=new.settings,
        waits=new.waits,
        rights=new.rights,
        document={**old.document, "coupling": coupling},
    )
    changed = list(_differences(old.document, config.document))
    restart = list(_differences(config.document, new.document))
    parts = []
    if changed:
        parts.append(f"changed: {', '.join(changed)}")
    if restart:
        parts.append(f"needs a restart of the controller: {', '.join(restart)}")
    text = "; ".join(parts) or "nothing has changed"
    return config, ReloadInfo(changed=changed, restart=restart, text=text)


def live_coupling(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the new table ``[coupling]`` with the old addresses."""
    live = {name: value for name, value in new.items() if name not in _ADDRESSES}
    return {**live, **{name: old[name] for name in _ADDRESSES if name in old}}


def differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Returns the names of the values that two tables do not share."""
    return [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Yields the names of the settings that differ, with their tables."""
    for name in differing(old, new):
        if name in ("coupling", "slurm"):
            parts = differing(old.get(name, {}), new.get(name, {}))
            yield from (f"{name}.{part}" for part in parts)
        else:
            yield name
