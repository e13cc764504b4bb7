"""Reads ``domain.toml``, the configuration that all members of a domain share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cosched.cluster.coupled.config import (
    Coupled,
    is_coupled,
    load_coupled,
    parse_coupling,
)
from cosched.cluster.keys import CONTROLLER
from cosched.cluster.names import can_be_node, member_of
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.config.kinds import suggest
from cosched.core.decoding import parse_address
from cosched.core.errors import CoschedError
from cosched.core.identity import ROOT
from cosched.core.units import NS_PER_S, format_duration, parse_bytes, parse_duration
from cosched.documents import read_toml

PORT = 7570  #: the controller's; agents have the next one
OBJECTS = ("pipeline", "store-and-forward")
TABLES = ("siblings", "through-root")
#: The least number of an ordinary user, as UID_MIN of login.defs.
LEAST_UID = 1000
_LARGEST_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """policy: a name of ``POLICIES``. jobs_per_node: how many jobs may share a node.
    default_time_ns: the time limit of a job without one. grace_ns: the time that a job may
    take above its limit, and its tasks between SIGTERM and SIGKILL."""

    policy: str = "easy"
    jobs_per_node: int = 1
    default_time_ns: int = 3600 * NS_PER_S
    grace_ns: int = 10 * NS_PER_S


@dataclass(frozen=True, slots=True)
class StartupSettings:
    """arity: children of a node in a job's tree. chunk_bytes: the size of a
    piece of the job object or of a table. object, tables: the new or the old design, for
    comparison."""

    arity: int = 8
    chunk_bytes: int = 64 << 10
    object: str = "pipeline"
    tables: str = "siblings"


@dataclass(frozen=True, slots=True)
class LifeSettings:
    """beat_ns: how often agents report. lost_after_ns: a silent node is lost after this.
    prepare_ns: how long a job may take until its tasks wait at their gates."""

    beat_ns: int = NS_PER_S
    lost_after_ns: int = 10 * NS_PER_S
    prepare_ns: int = 60 * NS_PER_S


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """root_from: the nodes whose agents may vouch for every user, as those on the
    controller's host may. least_uid: other agents vouch for no user below this."""

    root_from: tuple[str, ...] = ()
    least_uid: int = LEAST_UID


@dataclass(frozen=True, slots=True)
class DomainConfig:
    """A domain. controller: ``HOST:PORT``; nodes: name and ``HOST:PORT`` of each, in the
    order of their numbers. slots: tasks that a node takes a job; 0: one for each CPU.
    coupling: the table ``[coupling]``; empty if the domain is coupled with no other."""

    name: str
    controller: str
    nodes: Mapping[str, str]
    slots: int = 0
    queue: QueueSettings = field(default_factory=QueueSettings)
    startup: StartupSettings = field(default_factory=StartupSettings)
    life: LifeSettings = field(default_factory=LifeSettings)
    security: SecuritySettings = field(default_factory=SecuritySettings)
    coupling: Mapping[str, Any] = field(default_factory=dict)

    @property
    def coupled(self) -> Coupled | None:
        """How the domain is coupled with others; None if it is not. Raises CoschedError for
        a mistake in the table."""
        return parse_coupling(self.name, self.coupling) if self.coupling else None

    def check_coupling(self) -> None:
        """Raises CoschedError for a mistake in ``[coupling]``, or if the policy of the
        queue cannot hold or yield."""
        policy = self.queue.policy
        if self.coupled is not None and not POLICIES[policy].plan.takes_rules:
            raise CoschedError(
                f"queue.policy: {policy} cannot hold or yield; choose another one"
            )

    @property
    def node_names(self) -> tuple[str, ...]:
        """The names of the nodes by their numbers."""
        return tuple(self.nodes)

    @property
    def addresses(self) -> dict[str, str]:
        """``HOST:PORT`` of all members by name."""
        return {CONTROLLER: self.controller, **self.nodes}

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the controller and all nodes."""
        return (CONTROLLER, *self.nodes)

    def may_vouch(self, member: str, uid: int, gid: int) -> bool:
        """Returns whether a member may vouch for a user with these ids. Otherwise the thief
        of one node's key could act as root, or as a service, on all nodes."""
        if member in (CONTROLLER, *self.security.root_from):
            return True
        if uid >= self.security.least_uid and gid != ROOT:
            return True
        return _host(self.nodes[member]) == _host(self.controller)

    def digest(self) -> str:
        """Returns a short text that differs for members that do not fit together."""
        text = repr((self.name, self.controller, list(self.nodes.items()), self.startup))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def load_config(path: Path) -> DomainConfig:
    """Reads the file. CoschedError names the file and what is wrong in it."""
    if not path.exists():
        raise CoschedError(f"{path}: is missing; start a domain with: cosched cluster up")
    document = read_toml(path)
    try:
        return parse_config(document)
    except CoschedError as error:
        raise CoschedError(f"{path}: {error}") from None


def load_any_coupled(path: Path) -> tuple[Coupled, tuple[str, ...]]:
    """Reads how a domain is coupled whose jobs Slurm or its own controller queues. Returns
    its members, too: none for Slurm. CoschedError names the file and what is wrong."""
    if is_coupled(path):
        return load_coupled(path), ()
    config = load_config(path)
    coupled = config.coupled
    if coupled is None:
        raise CoschedError(f"{path}: has no table [coupling]")
    return coupled, config.members


def parse_config(document: Mapping[str, Any]) -> DomainConfig:
    """Returns the configuration of a parsed file. Raises CoschedError for a mistake."""
    table = _Table("", document)
    nodes = table.table("nodes")
    config = DomainConfig(
        name=table.text("name", "domain"),
        controller=_controller(table),
        nodes={name: _address(nodes.text(name, ""), f"nodes.{name}") for name in nodes.raw},
        slots=table.number("slots", 0, least=0),
        queue=_queue(table.table("queue")),
        startup=_startup(table.table("startup")),
        life=_life(table.table("life")),
        security=_security(table.table("security")),
        coupling=table.table("coupling").raw,
    )
    table.finish()
    config.check_coupling()
    if not config.nodes:
        raise CoschedError("nodes: a domain needs at least one node")
    for name in config.nodes:
        if not can_be_node(name):
            raise CoschedError(
                f"nodes: '{name}' cannot be the name of a node; write "
                f'{member_of(name)} = "{config.nodes[name]}"'
            )
    for name in config.security.root_from:
        if name not in config.nodes:
            raise CoschedError(f"security.root_from: '{name}' is not in [nodes]")
    return config


def write_config(config: DomainConfig) -> str:
    """Returns the text of a ``domain.toml``."""
    queue, startup, life = config.queue, config.startup, config.life
    nodes = "\n".join(f'"{name}" = "{where}"' for name, where in config.nodes.items())
    return (
        f"name = {json.dumps(config.name, ensure_ascii=False)}\n"
        f'controller = "{config.controller}"\n'
        f"slots = {config.slots}  # tasks of a job on a node; 0: one for each CPU\n"
        f"\n[nodes]\n{nodes}\n"
        f'\n[queue]\npolicy = "{queue.policy}"\njobs_per_node = {queue.jobs_per_node}\n'
        f'default_time = "{format_duration(queue.default_time_ns)}"\n'
        f'grace = "{format_duration(queue.grace_ns)}"\n'
        f"\n[startup]\narity = {startup.arity}\nchunk = {startup.chunk_bytes}\n"
        f'object = "{startup.object}"\ntables = "{startup.tables}"\n'
        f'\n[life]\nbeat = "{format_duration(life.beat_ns)}"\n'
        f'lost_after = "{format_duration(life.lost_after_ns)}"\n'
        f'prepare = "{format_duration(life.prepare_ns)}"\n'
        f"\n[security]\nroot_from = {json.dumps(config.security.root_from)}\n"
        f"least_uid = {config.security.least_uid}\n"
        f"{_coupling_text(config)}"
    )


def _coupling_text(config: DomainConfig) -> str:
    if not config.coupling:
        return ""
    import tomlkit  # takes time, and few domains are coupled

    return "\n" + tomlkit.dumps({"coupling": config.coupling})


def _queue(table: _Table) -> QueueSettings:
    usual = QueueSettings()
    settings = QueueSettings(
        table.choice("policy", usual.policy, tuple(POLICIES)),
        table.number("jobs_per_node", usual.jobs_per_node, least=1),
        table.duration("default_time", usual.default_time_ns),
        table.duration("grace", usual.grace_ns),
    )
    table.finish()
    if settings.default_time_ns < 1:
        raise CoschedError("queue.default_time: must be longer than 0; write it like 1h")
    return settings


def _startup(table: _Table) -> StartupSettings:
    usual = StartupSettings()
    settings = StartupSettings(
        table.number("arity", usual.arity, least=1),
        table.bytes("chunk", usual.chunk_bytes),
        table.choice("object", usual.object, OBJECTS),
        table.choice("tables", usual.tables, TABLES),
    )
    table.finish()
    if not 1 <= settings.chunk_bytes <= _LARGEST_CHUNK:
        raise CoschedError(f"startup.chunk: must be 1 to {_LARGEST_CHUNK} bytes")
    return settings


def _life(table: _Table) -> LifeSettings:
    usual = LifeSettings()
    settings = LifeSettings(
        table.duration("beat", usual.beat_ns),
        table.duration("lost_after", usual.lost_after_ns),
        table.duration("prepare", usual.prepare_ns),
    )
    table.finish()
    if settings.lost_after_ns < 2 * settings.beat_ns:
        raise CoschedError("life.lost_after: must be at least twice life.beat")
    return settings


def _security(table: _Table) -> SecuritySettings:
    settings = SecuritySettings(
        table.texts("root_from"), table.number("least_uid", LEAST_UID, least=1)
    )
    table.finish()
    return settings


def _controller(table: _Table) -> str:
    address = table.text("controller", "")
    if not address:
        raise CoschedError(
            'controller: is missing; write its address: controller = "HOST:PORT"'
        )
    return _address(address, "controller")


def _host(address: str) -> str:
    return address.rpartition(":")[0]


def _address(text: str, what: str) -> str:
    parse_address(text, what)
    return text


class _Table:
    """A table of the file; notes which keys were read."""

    def __init__(self, name: str, raw: Mapping[str, Any]) -> None:
        self._name = name
        self.raw = raw
        self._read: set[str] = set()

    def text(self, key: str, usual: str) -> str:
        value = self._get(key, usual)
        if not isinstance(value, str):
            raise CoschedError(f"{self._path(key)}: must be a text")
        return value

    def choice(self, key: str, usual: str, known: tuple[str, ...]) -> str:
        value = self.text(key, usual)
        if value not in known:
            raise CoschedError(
                f"{self._path(key)}: '{value}' is none of {', '.join(known)}"
            )
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self._get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise CoschedError(f"{self._path(key)}: must be a list of texts")
        return tuple(value)

    def number(self, key: str, usual: int, *, least: int) -> int:
        value = self._get(key, usual)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise CoschedError(f"{self._path(key)}: must be a whole number from {least}")
        return value

    def duration(self, key: str, usual_ns: int) -> int:
        return self._parsed(key, usual_ns, parse_duration)

    def bytes(self, key: str, usual: int) -> int:
        value = self._get(key, usual)
        return value if isinstance(value, int) else self._parsed(key, usual, parse_bytes)

    def table(self, key: str) -> _Table:
        value = self._get(key, {})
        if not isinstance(value, dict):
            raise CoschedError(f"{self._path(key)}: must be a table")
        return _Table(self._path(key), value)

    def finish(self) -> None:
        """Refuses a key that was not read."""
        for key in self.raw:
            if key not in self._read:
                hint = suggest(key, self._read)
                raise CoschedError(f"{self._path(key)}: no such setting{hint}")

    def _parsed(self, key: str, usual: int, parse: Callable[[str, str], int]) -> int:
        value = self._get(key, None)
        if value is None:
            return usual
        if not isinstance(value, str):
            raise CoschedError(f"{self._path(key)}: must be a text with its unit")
        return parse(value, self._path(key))

    def _get(self, key: str, usual: Any) -> Any:
        self._read.add(key)
        return self.raw.get(key, usual)

    def _path(self, key: str) -> str:
        return f"{self._name}.{key}" if self._name else key
