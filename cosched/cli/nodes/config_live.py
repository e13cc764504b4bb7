"""Compares the configuration with the settings of the daemons that are up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cosched.core.config.merged_config import Config
from cosched.core.config.schema import LIVE
from cosched.core.counting import named
from cosched.observe.status import Status

#: The texts of the settings of each node that is up, by its name and by ``table.key``.
Live = Mapping[str, Mapping[str, str]]


def live_texts(status: Status) -> dict[str, str]:
    """Returns the settings of a node as ``cosched config set`` takes them, by name."""
    now = status["settings"]
    texts = {name: now[name] for name in LIVE if name in now}
    return {**texts, "align": "on" if now["align"] else "off"}


def live_settings(statuses: Sequence[Status]) -> Live:
    """Returns the settings of the nodes with these statuses."""
    return {
        status["node"]: {LIVE[name].path: text for name, text in live_texts(status).items()}
        for status in statuses
    }


def differing(config: Config, live: Live) -> dict[str, str]:
    """Returns what the daemons have instead of the values of the configuration, in words,
    by ``table.key``."""
    found = {}
    for key in LIVE.values():
        configured = key.kind.text(config.merged[key.path].value)
        nodes: dict[str, list[str]] = {}
        for node, texts in live.items():
            if texts.get(key.path, configured) != configured:
                nodes.setdefault(texts[key.path], []).append(node)
        if nodes:
            parts = (f"{text} on {named(names, 'node')}" for text, names in nodes.items())
            found[key.path] = ", ".join(parts)
    return found


def explanation(live: Live) -> str:
    """Returns the line below the table about the nodes that are up."""
    return f"daemons are up on {named(list(live), 'node')}; 'now' marks what differs there"
