"""Declares ``domain.toml``, the configuration that all members of a domain share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosched.config.coupling import Coupled, CouplingTable
from cosched.config.queue import CPU, NODE, RIGID, QueueSettings
from cosched.config.resources import ResourceSettings
from cosched.config.restarts import AGENTS, MEMBERS
from cosched.config.slurm import is_coupled, load_here
from cosched.config.symbiosis import SymbiosisSettings
from cosched.core.cluster.queue.plans.conservative import Conservative
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.config.kinds import (
    ADDRESS,
    LISTEN,
    SWITCH,
    TEXT,
    TEXTS,
    duration,
    mapping,
    one_of,
    size,
    whole,
)
from cosched.core.config.mistakes import Mistake, taken
from cosched.core.config.tables import (
    REQUIRED,
    key,
    keys_of,
    optional_table,
    read,
    table,
    write,
)
from cosched.core.decoding import host_of
from cosched.core.errors import CoschedError
from cosched.core.names import CONTROLLER, can_be_node, member_of
from cosched.core.task_rights import ROOT
from cosched.core.units import NS_PER_S
from cosched.documents import encode_toml, is_there, load_file

PORT = 7570  #: the controller's; agents have the next one
OBJECTS = ("pipeline", "store-and-forward")
TABLES = ("siblings", "through-root")
#: The least number of an ordinary user, as UID_MIN of login.defs.
LEAST_UID = 1000
_LARGEST_CHUNK = 1 << 20
#: A job that has yielded is stored again after each rest.
_LEAST_REST_NS = 100_000_000


@dataclass(frozen=True, slots=True)
class StartupSettings:
    """[startup]: how jobs start. object, tables: the new or the old design, for
    comparison."""

    arity: int = key(whole(1), 8, "Children of a node in a job's tree.", restart=MEMBERS)
    chunk_bytes: int = key(
        size(1, _LARGEST_CHUNK),
        64 << 10,
        "The size of a piece of an object or a table.",
        restart=MEMBERS,
    )
    object: str = key(
        one_of(*OBJECTS), OBJECTS[0], "How the job object travels.", restart=MEMBERS
    )
    tables: str = key(
        one_of(*TABLES), TABLES[0], "How network tables travel.", restart=MEMBERS
    )


@dataclass(frozen=True, slots=True)
class LifeSettings:
    """[life]: when members and starts count as failed."""

    beat_ns: int = key(duration(), NS_PER_S, "How often agents report.", restart=MEMBERS)
    lost_after_ns: int = key(
        duration(), 10 * NS_PER_S, "A node is lost after this silence.", live=True
    )
    prepare_ns: int = key(
        duration(), 60 * NS_PER_S, "Until a job's tasks wait at their gates.", live=True
    )
    #: None: for ever.
    keep_ended_ns: int | None = key(
        duration(1), None, "How long a job that has ended is kept."
    )

    def contradictions(self) -> Iterator[Mistake]:
        """Yields that nodes would be lost between two beats."""
        if self.lost_after_ns < 2 * self.beat_ns:
            yield Mistake("lost_after", "must be at least twice life.beat")


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """[security]: which agents may vouch for which users."""

    root_from: tuple[str, ...] = key(
        TEXTS,
        (),
        "Nodes whose agents may vouch for every user, as on the controller's host.",
        live=True,
    )
    least_uid: int = key(
        whole(1), LEAST_UID, "Other agents vouch for no user below this.", live=True
    )


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """[metrics]: where the controller serves metrics. None: nowhere."""

    listen: str | None = key(LISTEN, None, "Where Prometheus may ask.")


@dataclass(frozen=True, slots=True)
class DomainConfig:
    """A domain. nodes: in a running member also those that leave the domain. coupling: None
    if the domain is coupled with no other."""

    name: str = key(TEXT, REQUIRED, "The domain's name.", in_file="domain", restart=MEMBERS)
    controller: str = key(ADDRESS, REQUIRED, "The controller's address.", restart=MEMBERS)
    nodes: Mapping[str, str] = key(
        mapping('table of NAME = "HOST:PORT"', ADDRESS),
        REQUIRED,
        "The nodes and their agents' addresses.",
        live=True,
        in_file={},
    )
    slots: int = key(
        whole(0), 0, "Tasks of a job on a node; 0: one for each CPU.", restart=MEMBERS
    )
    queue: QueueSettings = table(QueueSettings)
    startup: StartupSettings = table(StartupSettings)
    life: LifeSettings = table(LifeSettings)
    security: SecuritySettings = table(SecuritySettings)
    metrics: MetricsSettings = table(MetricsSettings)
    symbiosis: SymbiosisSettings = table(SymbiosisSettings)
    resources: ResourceSettings = table(ResourceSettings)
    coupling: CouplingTable | None = optional_table(CouplingTable)
    most_nodes: int = key(
        whole(0), 0, "Nodes that a job may wait for; 0: as many as the domain has."
    )
    tasks_per_slot: int = key(
        whole(1), 1, "Tasks of a job that a slot takes if the job has more than slots."
    )
    own_daemons: bool = key(
        SWITCH,
        False,
        "Whether agents start scheduler daemons where none are up.",
        restart=AGENTS,
    )

    def contradictions(self) -> Iterator[Mistake]:
        """Yields names that cannot be, and a coupling that does not suit the queue."""
        if not self.nodes:
            yield Mistake("nodes", "a domain needs at least one node")
        for name, address in self.nodes.items():
            if not can_be_node(name):
                other = f'{member_of(name)} = "{address}"'
                text = f"'{name}' cannot be the name of a node; write {other}"
                yield Mistake("nodes", text)
        owners = {self.controller: "the controller"}
        for name, address in self.nodes.items():
            yield from taken("nodes", address, owners, name)
            owners.setdefault(address, f"node {name}")
        yield from taken("metrics.listen", self.metrics.listen, owners)
        for name in self.security.root_from:
            if name not in self.nodes:
                yield Mistake("security.root_from", f"'{name}' is not in [nodes]")
        for mistake in self.resources.mistakes(self.nodes):
            yield mistake.under("resources")
        if self.resources and self.queue.unit != CPU:
            yield Mistake("resources", f'needs unit = "{CPU}" in [queue]')
        if self.queue.block:
            yield from self._mistakes_with_blocks(self.queue.block)
        if self.symbiosis.divides:
            yield from self._mistakes_with_parts()
        if self.coupling is not None:
            yield from self._mistakes_with_coupling(self.coupling, owners)

    def _mistakes_with_coupling(
        self, coupling: CouplingTable, owners: Mapping[str, str]
    ) -> Iterator[Mistake]:
        """Yields names and addresses that cannot be, and settings that do not combine with
        a coupling. owners: the members of the domain, by address."""
        yield from coupling.own_name_mistakes(self.name)
        yield from taken("coupling.listen", coupling.listen, owners)
        own = {coupling.listen: "this domain"}
        yield from taken("metrics.listen", self.metrics.listen, own)
        yield from taken("coupling.metrics", coupling.metrics, owners)
        if 0 < (coupling.yield_wait_ns or 0) < _LEAST_REST_NS:
            text = "is too short; write 0s, or 100ms or more"
            yield Mistake("coupling.yield_wait", text)
        if self.queue.size != RIGID:
            text = f'{self.queue.size} does not combine with [coupling]; write "{RIGID}"'
            yield Mistake("queue.size", text)
        if self.queue.unit == CPU:
            text = f'{CPU} does not combine with [coupling]; write "{NODE}"'
            yield Mistake("queue.unit", text)
        if not POLICIES[self.queue.policy].plan.takes_rules:
            text = f"{self.queue.policy} cannot hold or yield; choose another one"
            yield Mistake("queue.policy", text)

    def _mistakes_with_blocks(self, block: int) -> Iterator[Mistake]:
        """Yields nodes that are not made of blocks, and settings that need other places."""
        if len(self.nodes) % block:
            text = f"{len(self.nodes)} nodes are not made of blocks of {block}"
            yield Mistake("queue.block", text)
        if self.most_nodes:
            text = f"write 0: more nodes do not combine with queue.block = {block}"
            yield Mistake("most_nodes", text)
        if self.symbiosis.divides:
            text = f"does not combine with symbiosis.parts = {self.symbiosis.parts}"
            yield Mistake("queue.block", text)

    def _mistakes_with_parts(self) -> Iterator[Mistake]:
        """Yields settings that do not combine with nodes of several parts."""
        parts = f"symbiosis.parts = {self.symbiosis.parts}"
        if self.queue.jobs_per_node != 1:
            text = f"write 1: it does not combine with {parts}"
            yield Mistake("queue.jobs_per_node", text)
        if self.queue.size != RIGID:
            text = f'{self.queue.size} does not combine with {parts}; write "{RIGID}"'
            yield Mistake("queue.size", text)
        if self.queue.unit == CPU:
            text = f'{CPU} does not combine with {parts}; write "{NODE}"'
            yield Mistake("queue.unit", text)
        if POLICIES[self.queue.policy].plan is Conservative:
            text = f"{self.queue.policy} does not combine with {parts}; choose another one"
            yield Mistake("queue.policy", text)
        if self.coupling is not None:
            text = f"is {self.symbiosis.parts}, which does not combine with [coupling]"
            yield Mistake("symbiosis.parts", text)

    @property
    def coupled(self) -> Coupled | None:
        """How the domain is coupled with others; None if it is not."""
        if self.coupling is None:
            return None
        # A try costs our own queue nothing.
        return self.coupling.of(self.name, self.coupling.yield_wait_ns or 0)

    @property
    def node_names(self) -> tuple[str, ...]:
        """The names of the nodes, in the order of domain.toml."""
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
        if member not in self.nodes:  # it was removed
            return False
        return host_of(self.nodes[member]) == host_of(self.controller)

    def digest(self, node: str) -> str:
        """Returns a short text that differs if a node does not fit to its controller. Other
        nodes may come and go meanwhile."""
        parts = self.symbiosis.parts
        text = repr((self.name, self.controller, self.nodes[node], self.startup, parts))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def load_config(path: Path) -> DomainConfig:
    """Reads the file. CoschedError names the file and what is wrong in it."""
    if not is_there(path):
        raise CoschedError(
            f"{path}: is missing; start a domain with: cosched cluster up, or copy the "
            "file from the controller's machine"
        )
    return load_file(path, DomainConfig)


def load_any_coupled(path: Path) -> tuple[Coupled, tuple[str, ...]]:
    """Reads how a domain is coupled whose jobs Slurm or its own controller queues. Returns
    its members, too: none for Slurm. CoschedError names the file and what is wrong, also on
    this machine."""
    if is_coupled(path):
        return load_here(path), ()
    config = load_config(path)
    coupled = config.coupled
    if coupled is None:
        raise CoschedError(f"{path}: has no table [coupling]")
    return coupled, config.members


def parse_config(document: Mapping[str, Any]) -> DomainConfig:
    """Returns the configuration of a parsed file. Raises CoschedError for a mistake."""
    return read(DomainConfig, document)


def write_config(config: DomainConfig) -> str:
    """Returns the text of a ``domain.toml``, with a comment at each key."""
    comments = {each.path: each.about for each in keys_of(DomainConfig)}
    return encode_toml(write(config), comments)
