"""Declares ``[coupling]`` of domain.toml: how a domain is coupled with others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cosched.core.cluster.coupling.groups import Rights
from cosched.core.cluster.coupling.settings import CouplingSettings
from cosched.core.config.kinds import ADDRESS, LISTEN, TEXT, TEXTS, duration, mapping
from cosched.core.config.mistakes import Mistake, taken
from cosched.core.config.tables import REQUIRED, inline, key

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"


@dataclass(frozen=True)
class Coupled:
    """A coupled domain."""

    name: str  #: this domain's name for the others
    listen: str  #: ``HOST:PORT`` where other domains connect
    domains: Mapping[str, str]  #: ``HOST:PORT`` of each other domain, by name
    rights: Rights  #: the users of other domains whose jobs may join
    settings: CouplingSettings  #: how its jobs wait for their mates
    metrics: str | None  #: ``HOST:PORT`` for Prometheus; None: nothing listens

    @property
    def addresses(self) -> dict[str, str]:
        """``HOST:PORT`` of all domains by name."""
        return {self.name: self.listen, **self.domains}


@dataclass(frozen=True, slots=True)
class CouplingTable:
    """[coupling]: other domains, with whose jobs jobs of this one start together."""

    listen: str = key(ADDRESS, REQUIRED, "Where other domains connect.")
    domains: Mapping[str, str] = key(
        mapping('table of NAME = "HOST:PORT"', ADDRESS),
        REQUIRED,
        "The other domains and their addresses.",
    )
    users: Mapping[str, str] = key(
        mapping('table of "DOMAIN/USER" = "USER"', TEXT),
        {},
        "The user here who is a user of another domain.",
        live=True,
    )
    same_names: tuple[str, ...] = key(
        TEXTS, (), "The domains whose users have the same names here.", live=True
    )
    #: None: the engine's usual wait.
    yield_wait_ns: int | None = key(
        duration(), None, "How long a job that has yielded gets no nodes.", live=True
    )
    #: None: nothing listens.
    metrics: str | None = key(LISTEN, None, "Where Prometheus may ask.")
    settings: CouplingSettings = inline(CouplingSettings)

    def contradictions(self) -> Iterator[Mistake]:
        """Yields names that are not, or cannot be, those of coupled domains, and addresses
        that two have."""
        if not self.domains:
            yield Mistake("domains", "name at least one other domain")
        for name in self.domains:
            if not re.fullmatch(_NAME, name):
                yield Mistake("domains", f"'{name}' cannot be the name of a domain")
        for theirs in self.users:
            domain, _, user = theirs.partition("/")
            if domain not in self.domains or not user:
                yield Mistake("users", f"'{theirs}' is not DOMAIN/USER of a coupled domain")
        for name in self.same_names:
            if name not in self.domains:
                yield Mistake("same_names", f"'{name}' is not in coupling.domains")
        owners = {self.listen: "this domain"}
        for name, address in self.domains.items():
            yield from taken("domains", address, owners, name)
            owners.setdefault(address, f"domain {name}")
        yield from taken("metrics", self.metrics, owners)

    def own_name_mistakes(self, name: str) -> Iterator[Mistake]:
        """Yields why a domain that is coupled in this way cannot have this name."""
        if not re.fullmatch(_NAME, name):
            yield Mistake("name", f"'{name}' cannot be the name of a domain")
        if name in self.domains:
            yield Mistake("coupling.domains", f"{name} is this domain")

    def of(self, name: str, rest_ns: int) -> Coupled:
        """Returns how the domain ``name`` is coupled. rest_ns: how long its own queue gives
        a job that has yielded no nodes."""
        users = {
            (domain, user): own
            for theirs, own in self.users.items()
            for domain, _, user in [theirs.partition("/")]
        }
        settings = replace(self.settings, rest_ns=rest_ns)
        rights = Rights(users, frozenset(self.same_names))
        return Coupled(name, self.listen, self.domains, rights, settings, self.metrics)
