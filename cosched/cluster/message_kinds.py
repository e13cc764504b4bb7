"""Defines what the messages between the members of a domain have in common."""

from __future__ import annotations

import msgspec

from cosched.core.bounds import Natural, Slots


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The base of all messages."""


class OfWorld(Message, frozen=True, kw_only=True):
    """The base of messages about one world of a job; 0: the tasks that it began with."""

    world: Slots = 0  #: 0, or the number of a spawned world


class OfJob(OfWorld, frozen=True):
    """The base of messages about one start of a job."""

    job: Natural  #: the job's number
    start: Slots  #: how often the job was started
