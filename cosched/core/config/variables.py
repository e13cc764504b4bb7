"""Recognises the variables that set keys of ``cosched.toml``.

It stands apart from the keys, so that a program finds out quickly that nothing is set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_PREFIXES = ("COSCHED_NODE_", "COSCHED_METRICS_", "COSCHED_RUN_", "COSCHED_LIMITS_")
#: Variables with these prefixes that do not belong to the configuration.
_OTHERS = frozenset({"COSCHED_RUN_DIR"})


def setting_variables(names: Iterable[str]) -> Iterator[str]:
    """Yields the names that set a key, or that look like it."""
    return (name for name in names if name.startswith(_PREFIXES) and name not in _OTHERS)
