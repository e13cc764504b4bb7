"""Declares ``[coupling]`` of domain.toml: how a domain is coupled with others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cosched.core.cluster.coupling.groups import Rights
from cosched.core.cluster.coupling.settings import (
    CouplingSettings,
    Patience,
    Scheme,
    WhenDown,
)
from cosched.core.config.kinds import (
    ADDRESS,
    LISTEN,
    TEXT,
    TEXTS,
    decimal,
    duration,
    mapping,
    member_of,
    or_word,
    whole,
)
from cosched.core.config.mistakes import Mistake
from cosched.core.config.tables import REQUIRED, key
from cosched.core.units import NS_PER_S

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
#: Other waits that are shorter would keep the controller busy.
_LEAST_NS = 1_000_000
#: A question is sent again after a second. One lost message must not mean that a domain is
#: down.
_LEAST_ANSWER_NS = 2 * NS_PER_S
_USUAL = CouplingSettings()
_SHARE = decimal("a share from 0 to 1", lambda value: 0 <= value <= 1)


@dataclass(frozen=True)
class Coupled:
    """A coupled domain. listen: ``HOST:PORT`` for other domains; domains: their addresses
    by name. metrics: ``HOST:PORT`` for Prometheus; None: nothing listens."""

    name: str
    listen: str
    domains: Mapping[str, str]
    rights: Rights
    settings: CouplingSettings
    metrics: str | None

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
    scheme: Scheme = key(
        member_of(Scheme), _USUAL.scheme, "How a ready job waits for its mates.", live=True
    )
    #: None: a hold has no end of its own.
    release_ns: int | None = key(
        or_word("never", duration(_LEAST_NS)),
        _USUAL.release_ns,
        "A hold ends after this time at the latest.",
        live=True,
    )
    held_cap: float = key(
        _SHARE, _USUAL.held_cap, "The share of the nodes that may be held.", live=True
    )
    #: None: no limit.
    yield_cap: int | None = key(
        whole(0), _USUAL.yield_cap, "After so many yields a job holds.", live=True
    )
    #: None: the engine's usual wait.
    yield_wait_ns: int | None = key(
        duration(), None, "How long a job that has yielded gets no nodes.", live=True
    )
    release_wait_ns: int = key(
        duration(_LEAST_NS),
        60 * NS_PER_S,
        "How long a job comes last after its hold was ended.",
        live=True,
    )
    raise_by: int = key(
        whole(0), _USUAL.raise_by, "Places that each yield moves a job forward.", live=True
    )
    when_down: WhenDown = key(
        member_of(WhenDown),
        _USUAL.when_down,
        "What a ready job does while a mate's domain does not answer.",
        live=True,
    )
    down_hold_ns: int = key(
        duration(),
        _USUAL.down_hold_ns,
        'How long a job holds with when_down = "hold".',
        live=True,
    )
    unknown_ns: int = key(
        duration(),
        600 * NS_PER_S,
        "How long a ready job waits for a mate that its domain does not have.",
        live=True,
    )
    answer_ns: int = key(
        duration(_LEAST_ANSWER_NS),
        _USUAL.patience.answer_ns,
        "A domain that is silent for so long is down.",
        live=True,
    )
    again_ns: int = key(
        duration(_LEAST_NS),
        _USUAL.patience.retry_ns,
        "After this time a job asks again that was refused for a reason that passes.",
        live=True,
    )
    #: None: nothing listens.
    metrics: str | None = key(LISTEN, None, "Where Prometheus may ask.")
    remember_ns: int = key(
        duration(_LEAST_NS),
        86400 * NS_PER_S,
        "How long a job of a group is remembered after its end.",
        live=True,
    )

    def contradictions(self) -> Iterator[Mistake]:
        """Yields names that are not, or cannot be, those of coupled domains."""
        if not self.domains:
            yield Mistake("domains", "name at least one other domain")
        for name in self.domains:
            if not _NAME.fullmatch(name):
                yield Mistake("domains", f"'{name}' cannot be the name of a domain")
        for theirs in self.users:
            domain, _, user = theirs.partition("/")
            if domain not in self.domains or not user:
                yield Mistake("users", f"'{theirs}' is not DOMAIN/USER of a coupled domain")
        for name in self.same_names:
            if name not in self.domains:
                yield Mistake("same_names", f"'{name}' is not in coupling.domains")

    def own_name_mistakes(self, name: str) -> Iterator[Mistake]:
        """Yields why a domain that is coupled in this way cannot have this name."""
        if not _NAME.fullmatch(name):
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
        settings = CouplingSettings(
            scheme=self.scheme,
            release_ns=self.release_ns,
            held_cap=self.held_cap,
            yield_cap=self.yield_cap,
            raise_by=self.raise_by,
            pause_ns=self.release_wait_ns,
            rest_ns=rest_ns,
            when_down=self.when_down,
            down_hold_ns=self.down_hold_ns,
            unknown_ns=self.unknown_ns,
            patience=Patience(
                answer_ns=self.answer_ns,
                retry_ns=self.again_ns,
                forget_ns=self.remember_ns,
            ),
        )
        rights = Rights(users, frozenset(self.same_names))
        return Coupled(name, self.listen, self.domains, rights, settings, self.metrics)
