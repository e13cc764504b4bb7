"""Reads how a domain is coupled with others, and ``domain.toml`` of one whose jobs Slurm
queues."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from cosched.cluster.engines.slurm.settings import SlurmSettings
from cosched.core.cluster.coupling.groups import Rights
from cosched.core.cluster.coupling.settings import (
    CouplingSettings,
    Patience,
    Scheme,
    WhenDown,
)
from cosched.core.decoding import convert, parse_address
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S, format_duration, parse_duration
from cosched.documents import read_toml

#: ``engine`` in domain.toml; without it the domain has nodes of its own.
SLURM = "slurm"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_UNLIMITED = "never"
#: A try costs our own queue nothing. In Slurm it runs the job's prolog.
_YIELD_WAIT, _SLURM_YIELD_WAIT = "0s", "30s"
#: A job that has yielded is stored again after each rest.
_LEAST_REST_NS = 100_000_000
#: Other waits that are shorter would keep the controller busy.
_LEAST_NS = 1_000_000
#: A question is sent again after a second. One lost message must not mean that a domain is
#: down.
_LEAST_ANSWER_NS = 2 * NS_PER_S


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the file. Durations are texts with their unit."""


class _Slurm(_Table, frozen=True):
    conf: str = ""
    user: str = "slurm"
    poll: str = "2s"
    command: str = "10s"
    try_: str = msgspec.field(default="5s", name="try")
    lease: str = "1h"
    retry: str = "60s"
    then: str = "start"
    cannot_yield: str = "refuse"


class _Coupling(_Table, frozen=True):
    listen: str
    domains: dict[str, str]
    users: dict[str, str] = {}
    same_names: tuple[str, ...] = ()
    scheme: Literal["hold", "yield"] = "hold"
    release: str = "20min"
    held_cap: float = 1.0
    yield_cap: int | None = None
    yield_wait: str | None = None
    release_wait: str = "60s"
    raise_by: int = 0
    when_down: Literal["start", "hold", "yield"] = "start"
    down_hold: str = "10min"
    unknown: str = "10min"
    answer: str = "5s"
    again: str = "15s"
    metrics: str | None = None
    remember: str = "24h"


class _Document(_Table, frozen=True):
    name: str
    engine: Literal["slurm"]
    coupling: _Coupling
    slurm: _Slurm = _Slurm()


@dataclass(frozen=True, slots=True)
class Waits:
    """How long a job does not get nodes after it gave them back: because it yielded, or
    because its hold had lasted too long. Seconds."""

    yield_s: float = 30.0
    release_s: float = 60.0


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


@dataclass(frozen=True)
class CoupledConfig(Coupled):
    """A coupled domain whose jobs Slurm queues. document: the parsed file."""

    slurm: SlurmSettings
    waits: Waits
    document: Mapping[str, Any]


def is_coupled(path: Path) -> bool:
    """Returns whether this ``domain.toml`` is of a domain whose jobs Slurm queues."""
    return path.exists() and read_toml(path).get("engine") == SLURM


def load_coupled(path: Path) -> CoupledConfig:
    """Reads the file. CoschedError names the file and what is wrong in it."""
    try:
        return parse_coupled(read_toml(path))
    except CoschedError as error:
        raise CoschedError(f"{path}: {error}") from None


def parse_coupled(document: Mapping[str, Any]) -> CoupledConfig:
    """Returns the configuration of a parsed file. Raises CoschedError for a mistake."""
    raw: _Document = convert(document, _Document, "domain.toml of a Slurm")
    waits = Waits(
        _seconds("coupling.yield_wait", _yield_wait(raw.coupling, _SLURM_YIELD_WAIT)),
        _seconds("coupling.release_wait", raw.coupling.release_wait),
    )
    coupled = _coupled(raw.name, raw.coupling, rest_ns=0)  # Slurm lets jobs rest
    return CoupledConfig(
        **vars(coupled), slurm=_slurm(raw.slurm), waits=waits, document=document
    )


def parse_coupling(name: str, table: Mapping[str, Any]) -> Coupled:
    """Returns how the domain ``name`` is coupled by its ``[coupling]`` table. Raises
    CoschedError for a mistake."""
    raw: _Coupling = convert(table, _Coupling, "coupling")
    rest_ns = _ns("coupling.yield_wait", _yield_wait(raw, _YIELD_WAIT))
    if 0 < rest_ns < _LEAST_REST_NS:
        raise CoschedError(
            f"coupling.yield_wait: '{raw.yield_wait}' is too short; "
            "write 0s, or 100ms or more"
        )
    return _coupled(name, raw, rest_ns)


def _yield_wait(coupling: _Coupling, default: str) -> str:
    return default if coupling.yield_wait is None else coupling.yield_wait


def _coupled(own: str, coupling: _Coupling, rest_ns: int) -> Coupled:
    for name, address in {own: coupling.listen, **coupling.domains}.items():
        _check_member(name, address)
    if coupling.metrics is not None:
        _check_address("coupling.metrics", coupling.metrics)
    if own in coupling.domains:
        raise CoschedError(f"coupling.domains: {own} is this domain")
    if not coupling.domains:
        raise CoschedError("coupling.domains: name at least one other domain")
    return Coupled(
        own,
        coupling.listen,
        dict(coupling.domains),
        _rights(coupling),
        _settings(coupling, rest_ns),
        coupling.metrics,
    )


def _check_member(name: str, address: str) -> None:
    if not _NAME.fullmatch(name):
        raise CoschedError(f"coupling.domains: '{name}' cannot be the name of a domain")
    _check_address(f"coupling.domains.{name}", address)


def _check_address(what: str, address: str) -> None:
    parse_address(address, what)


def _rights(coupling: _Coupling) -> Rights:
    users = {}
    for theirs, own in coupling.users.items():
        domain, slash, user = theirs.partition("/")
        if not slash or domain not in coupling.domains or not user:
            raise CoschedError(
                f"coupling.users: '{theirs}' is not DOMAIN/USER of a coupled domain"
            )
        users[domain, user] = own
    for name in coupling.same_names:
        if name not in coupling.domains:
            raise CoschedError(f"coupling.same_names: '{name}' is not in coupling.domains")
    return Rights(users, frozenset(coupling.same_names))


def _settings(coupling: _Coupling, rest_ns: int) -> CouplingSettings:
    never = coupling.release == _UNLIMITED
    return CouplingSettings(
        scheme=Scheme(coupling.scheme),
        release_ns=None if never else _least("coupling.release", coupling.release),
        held_cap=coupling.held_cap,
        yield_cap=coupling.yield_cap,
        raise_by=coupling.raise_by,
        pause_ns=_least("coupling.release_wait", coupling.release_wait),
        rest_ns=rest_ns,
        when_down=WhenDown(coupling.when_down),
        down_hold_ns=_ns("coupling.down_hold", coupling.down_hold),
        unknown_ns=_ns("coupling.unknown", coupling.unknown),
        patience=Patience(
            answer_ns=_least("coupling.answer", coupling.answer, _LEAST_ANSWER_NS),
            retry_ns=_least("coupling.again", coupling.again),
            forget_ns=_least("coupling.remember", coupling.remember),
        ),
    )


def _slurm(raw: _Slurm) -> SlurmSettings:
    return SlurmSettings(
        conf=raw.conf,
        user=raw.user,
        poll_s=_seconds("slurm.poll", raw.poll),
        command_s=_seconds("slurm.command", raw.command),
        try_s=_seconds("slurm.try", raw.try_),
        lease_s=_seconds("slurm.lease", raw.lease),
        retry_s=_seconds("slurm.retry", raw.retry),
        then=raw.then,
        cannot_yield=raw.cannot_yield,
    )


def _ns(what: str, text: str) -> int:
    return parse_duration(text, what)


def _least(what: str, text: str, least_ns: int = _LEAST_NS) -> int:
    time_ns = _ns(what, text)
    if time_ns < least_ns:
        least = format_duration(least_ns)
        raise CoschedError(f"{what}: '{text}' is too short; write {least} or more")
    return time_ns


def _seconds(what: str, text: str) -> float:
    return parse_duration(text, what) / NS_PER_S
