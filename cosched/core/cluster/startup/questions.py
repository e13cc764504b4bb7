"""Defines what the tasks of a job ask the root of their job, and its answer.

The root counts the tasks on each node and keeps the published names. An agent carries a
question to it without a look at the PMI that brought it.
"""

from __future__ import annotations

import msgspec


class Command(msgspec.Struct, frozen=True, array_like=True):
    """A program of a job, on so many ranks in a row.

    cwd: empty for the job's working directory. path: where the program is searched before
    PATH. hosts: the only nodes that may run it; empty for all.
    """

    argv: tuple[str, ...]
    ranks: int
    cwd: str = ""
    path: str = ""
    hosts: tuple[str, ...] = ()


class _Question(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The base of all questions."""


class Spawn(_Question, frozen=True):
    """Starts new tasks. given: values by key that the new tasks can read."""

    commands: tuple[Command, ...]
    given: dict[str, str]


class Publish(_Question, frozen=True):
    """Publishes a port under a name that is not in use."""

    name: str
    port: str


class Lookup(_Question, frozen=True):
    """Finds the port of a name."""

    name: str


class Unpublish(_Question, frozen=True):
    """Removes a name."""

    name: str


Question = Spawn | Publish | Lookup | Unpublish


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """The root's answer. error: one line; empty if all went well. value: the port."""

    error: str = ""
    value: str = ""
