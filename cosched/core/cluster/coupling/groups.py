"""Defines groups of jobs that start together, and which users may put jobs into one.

A group has one job in each of several domains. Each domain announces its job with the whole
group, so that domains can compare: groups are equal if their digests are.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from types import MappingProxyType

from cosched.core.errors import CoschedError

DomainName = str
GroupName = str
#: A group in one domain, as ``USER/NAME``: two users may both have a group "a".
GroupKey = str


def group_key(user: str, name: GroupName) -> GroupKey:
    """Returns the key of a user's group."""
    return f"{user}/{name}"


class Timing(str, Enum):
    """How the starts of a group's jobs depend on each other."""

    TOGETHER = "together"
    WITHIN = "within"  #: the starts are at most the delay apart
    AFTER = "after"  #: the leader has run for the delay, or has ended


@dataclass(frozen=True, slots=True)
class Group:
    """One job in each of several domains."""

    name: GroupName  #: that all jobs of the group give
    members: tuple[DomainName, ...]  #: its domains, including this one
    timing: Timing = Timing.TOGETHER  #: how the starts depend on each other
    #: How far apart the starts may be, or how long the leader runs first, in ns.
    delay_ns: int = 0
    leader: DomainName = ""  #: the domain whose job starts first, for ``AFTER``
    #: A secret that the users of the jobs share; empty: the domains compare their names.
    token: str = ""

    @property
    def coordinators(self) -> list[DomainName]:
        """Returns the domains that may coordinate, in the order that all domains prefer."""
        return sorted(self.members)

    def prefers(self, one: DomainName, other: DomainName) -> bool:
        """Returns whether ``one`` comes before ``other`` as a coordinator."""
        order = self.coordinators
        return order.index(one) < order.index(other)

    def others(self, own: DomainName) -> tuple[DomainName, ...]:
        """Returns the domains of the other jobs, for that of the domain ``own``."""
        return tuple(name for name in self.members if name != own)

    @property
    def digest(self) -> str:
        """Returns a digest of everything in the group; the order of members is free."""
        parts = [
            self.name,
            *sorted(self.members),
            self.timing.value,
            str(self.delay_ns),
            self.leader,
            self.token,
        ]
        sized = "".join(f"{len(part.encode())}:{part}" for part in parts)
        return sha256(sized.encode()).hexdigest()

    def check(self, number: int, own: DomainName) -> None:
        """Raises CoschedError if no job of the domain ``own`` can be in such a group."""
        problem = None
        if own not in self.members:
            problem = f"it has no job in domain {own}"
        elif len(self.members) < 2:
            problem = "it has one job; name the domain of another"
        elif len(set(self.members)) < len(self.members):
            problem = "it names a domain twice; a group has one job in each domain"
        elif self.timing is Timing.AFTER and self.leader not in self.members:
            problem = f"its leader '{self.leader}' is not one of its domains"
        elif self.delay_ns < 0:
            problem = f"its delay is {self.delay_ns} ns; want 0 or more"
        if problem is not None:
            raise CoschedError(f"job {number}, group '{self.name}': {problem}")


@dataclass(frozen=True, slots=True)
class Rights:
    """Which users of other domains may have jobs in groups with users of this one."""

    #: For a (domain, user there) the user here.
    users: Mapping[tuple[DomainName, str], str] = field(
        default_factory=lambda: MappingProxyType({})
    )
    #: The domains whose users have the same names here.
    same_names: Set[DomainName] = frozenset()

    def users_here(self, peer: DomainName, theirs: str) -> set[str]:
        """Returns which users here are the user ``theirs`` of the domain ``peer``."""
        found = {theirs} if peer in self.same_names else set()
        mapped = self.users.get((peer, theirs))
        return found if mapped is None else {*found, mapped}
