"""Defines what the tasks of a job ask the root of their job, and its answer.

The root counts the tasks on each node and keeps the published names. An agent carries a
question to it without a look at the PMI that brought it.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

import msgspec

from cosched.core.bounds import Name, Slots
from cosched.core.errors import CoschedError


class Command(msgspec.Struct, frozen=True, array_like=True):
    """A program of a job, on several ranks in a row."""

    argv: tuple[str, ...]  #: the program and its arguments
    ranks: Slots  #: how many ranks in a row run it
    cwd: str = ""  #: empty for the job's working directory
    path: str = ""  #: where the program is searched before PATH
    hosts: tuple[str, ...] = ()  #: the only nodes that may run it; empty for all
    environ: dict[str, str] = {}  #: variables that its tasks have besides those of the job


class _Question(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The base of all questions."""


class Spawn(_Question, frozen=True):
    """Starts new tasks. given: values by key that the new tasks can read. connects: MPI
    begins in them, and connects them to their parents."""

    commands: tuple[Command, ...]
    given: dict[str, str]
    connects: bool = False


class Publish(_Question, frozen=True):
    """Publishes a port under a name that is not in use. once: its first reader removes
    it."""

    name: str
    port: str
    once: bool = False


class Lookup(_Question, frozen=True):
    """Finds the port of a name. wait: the answer comes once the name is published."""

    name: str
    wait: bool = False


class Unpublish(_Question, frozen=True):
    """Removes a name."""

    name: str


class Joined(_Question, frozen=True):
    """Reports that MPI has begun in the tasks of a spawned world, which connect to their
    parents next. The root does not answer it."""


class WorldRanks(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Ranks of a world."""

    world: Slots  #: 0, or the number of a spawned world
    ranks: tuple[Slots, ...] = ()  #: ranks of the world; empty: all of them


class Gather(_Question, frozen=True):
    """Brings the nodes of these members together. Each such node of each world asks once;
    all are answered once the last has asked. what: tells apart gatherings of the same
    members. part: bytes for all of them."""

    what: str
    members: tuple[WorldRanks, ...]
    part: bytes


Question = Spawn | Publish | Lookup | Unpublish | Gather | Joined


class World(msgspec.Struct, frozen=True, array_like=True):
    """The nodes of a world."""

    number: Slots  #: 0, or the number of a spawned world
    hosts: tuple[Name, ...]  #: the names of its nodes, by place
    counts: tuple[Slots, ...]  #: the tasks on each

    def places(self, ranks: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the places of the nodes that run these ranks; all if there are none.
        Raises CoschedError for a rank that the world lacks."""
        if not ranks:
            return tuple(range(len(self.hosts)))
        ends = list(accumulate(self.counts))
        if min(ranks) < 0 or max(ranks) >= ends[-1]:
            raise CoschedError(f"world {self.number} lacks one of the ranks {ranks}")
        return tuple(sorted({bisect_right(ends, rank) for rank in ranks}))


class RootAnswer(msgspec.Struct, frozen=True, array_like=True):
    """The root's answer."""

    error: str = ""  #: one line; empty if all went well
    value: str = ""  #: the port, or the number of the new world
    #: The bytes of each node in a gathering, in a fixed order.
    parts: tuple[bytes, ...] = ()
    worlds: tuple[World, ...] = ()  #: its members' worlds
