"""Holds what all parts of a domain's live jobs use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from cosched.cluster.coupling.clock import DomainClock
from cosched.cluster.engines.native.node_entries import NodeEntries
from cosched.cluster.engines.native.records import Records
from cosched.cluster.message_kinds import Message


class Outbox(Protocol):
    """Sends a message to a member of the domain."""

    def __call__(self, to: str, message: Message) -> None: ...


@dataclass(frozen=True, slots=True)
class Basics:
    """The same objects and functions for all parts."""

    members: NodeEntries  #: the nodes of the domain
    records: Records  #: the stored jobs
    clock: DomainClock  #: gives the time of all events
    send: Outbox  #: sends a message to a node
    log: Callable[[str], None]  #: takes one line about what happened
    #: Gives the queue an event, after the orders that are being carried out.
    report: Callable[[Any], None]
