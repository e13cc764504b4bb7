"""Declares ``[resources]`` of domain.toml: features, counts and licences for jobs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from cosched.core.cluster.queue.places.needs import MEMORY
from cosched.core.config.kinds import TEXT, mapping, whole
from cosched.core.config.mistakes import Mistake
from cosched.core.config.tables import key
from cosched.core.errors import CoschedError
from cosched.core.hostlist import expand_hosts
from cosched.core.names import NEED_NAME


@dataclass(frozen=True, slots=True)
class ResourceSettings:
    """[resources]: features and counts of nodes, and licences of the domain."""

    features: Mapping[str, str] = key(
        mapping('table of NAME = "NODES"', TEXT),
        {},
        "The nodes that have a feature, such as n[1-4].",
    )
    counts: Mapping[str, Mapping[str, int]] = key(
        mapping(
            'table of NAME = {"NODES" = NUMBER}',
            mapping('table of "NODES" = NUMBER', whole(0)),
        ),
        {},
        "How many of something each of these nodes has for jobs.",
    )
    licences: Mapping[str, int] = key(
        mapping("table of NAME = NUMBER", whole(0)),
        {},
        "How many of something all jobs of the domain may have together.",
    )

    def __bool__(self) -> bool:
        """Returns whether the operator has declared anything."""
        return bool(self.features or self.counts or self.licences)

    def features_of(self, node: str) -> frozenset[str]:
        """Returns the features of a node."""
        return frozenset(
            name for name, nodes in self.features.items() if node in expand_hosts(nodes)
        )

    def counts_of(self, node: str) -> dict[str, int]:
        """Returns how many of each thing a node has."""
        return {
            name: number
            for name, numbers in self.counts.items()
            for nodes, number in numbers.items()
            if node in expand_hosts(nodes)
        }

    def mistakes(self, known: Collection[str]) -> Iterator[Mistake]:
        """Yields wrong names, and nodes that the domain lacks. known: its nodes."""
        for table in ("features", "counts", "licences"):
            for name in getattr(self, table):
                if re.fullmatch(NEED_NAME, name) is None or name == MEMORY:
                    text = f"'{name}' cannot be a name; write a word such as bigmem"
                    yield Mistake(table, text)
        for name in self.counts.keys() & self.licences.keys():
            yield Mistake(f"counts.{name}", "is the name of a licence, too")
        for name, nodes in self.features.items():
            yield from _wrong_nodes(f"features.{name}", [nodes], known)
        for name, numbers in self.counts.items():
            yield from _wrong_nodes(f"counts.{name}", numbers, known)


def _wrong_nodes(
    where: str, lists: Iterable[str], known: Collection[str]
) -> Iterator[Mistake]:
    """Yields lists that are none, and nodes that the domain lacks or that come twice."""
    seen: set[str] = set()
    for nodes in lists:
        try:
            names = expand_hosts(nodes)
        except CoschedError as error:
            yield Mistake(where, str(error))
            continue
        for name in names:
            if name not in known:
                yield Mistake(where, f"'{name}' is not in [nodes]")
            elif name in seen:
                yield Mistake(where, f"'{name}' has two numbers")
        seen.update(names)
