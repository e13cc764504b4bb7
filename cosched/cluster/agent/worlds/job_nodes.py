"""Keeps the nodes of one job by place, at the job's root."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cosched.core.cluster.startup.tree import Position
from cosched.core.errors import CoschedError


class JobNodes:
    """The nodes of a job. A malleable job gets others while it runs. Each has a place of
    its own, for ever.

    numbers, hosts: their numbers and names in domain.toml, by place. usable: the places
    where worlds may run, and whose tasks may ask.
    """

    def __init__(self, numbers: Sequence[int], hosts: Sequence[str]) -> None:
        self.numbers = tuple(numbers)
        self.hosts = tuple(hosts)
        self.usable = frozenset(range(len(hosts)))

    def replace(self, numbers: Sequence[int], hosts: Sequence[str]) -> None:
        """Stores all nodes that the job has or had. New ones are not usable yet."""
        self.numbers, self.hosts = tuple(numbers), tuple(hosts)

    def has(self, host: str) -> bool:
        """Returns whether a node may have tasks of the job now."""
        return any(self.hosts[place] == host for place in self.usable)

    def places(self, wanted: Collection[str]) -> tuple[Position, ...]:
        """Returns the places of nodes that may run a program; all if none is named. Raises
        CoschedError for a node that the job does not have now."""
        for host in wanted:
            if not self.has(host):
                raise CoschedError(f"{host}: is not a node of this job")
        return tuple(
            place
            for place in sorted(self.usable)
            if not wanted or self.hosts[place] in wanted
        )
