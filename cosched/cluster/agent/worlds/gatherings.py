"""Brings nodes of one job's worlds together, at the job's root."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cosched.cluster.messages import LONGEST
from cosched.core.cluster.startup.questions import Gather, RootAnswer, World, WorldRanks
from cosched.core.errors import CoschedError

#: Bytes of all parts together: the answer must fit into a message.
PARTS_MOST = LONGEST - (LONGEST >> 4)
#: Gatherings that are open at once, so that a program without end cannot fill the memory.
GATHERINGS_MOST = 10_000

Reply = Callable[[RootAnswer], None]
#: A world's number, and the place of a node in it.
Server = tuple[int, int]


@dataclass(slots=True)
class _Gathering:
    """A gathering. servers: all that must come."""

    worlds: tuple[World, ...]
    servers: frozenset[Server]
    parts: dict[Server, bytes] = field(default_factory=dict)
    replies: list[Reply] = field(default_factory=list)


class Gatherings:
    """The gatherings of one job that are not complete yet."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, tuple[WorldRanks, ...]], _Gathering] = {}

    def take(
        self,
        asker: tuple[int, str],
        question: Gather,
        worlds: Mapping[int, World],
        reply: Reply,
    ) -> None:
        """Adds a node; answers all once the last has come. asker: a world and one of its
        hosts. worlds: those that the job has now. Raises CoschedError for members that the
        job lacks, and for a node that does not run one of them."""
        key = question.what, question.members
        gathering = self._open.get(key)
        if gathering is None:
            gathering = _begin(question.members, worlds)
        number, host = asker
        server = number, _place(worlds[number], host) if number in worlds else -1
        if server not in gathering.servers or server in gathering.parts:
            raise CoschedError(f"{host}: runs none of the members that come together")
        if key not in self._open and len(self._open) >= GATHERINGS_MOST:
            raise CoschedError(f"{GATHERINGS_MOST} gatherings of the job are open")
        self._open[key] = gathering
        gathering.parts[server] = question.part
        gathering.replies.append(reply)
        if len(gathering.parts) == len(gathering.servers):
            del self._open[key]
            answer = _answer(gathering)
            for each in gathering.replies:
                each(answer)

    def leave(self, world: int) -> None:
        """Ends the gatherings that can never be complete: a world has ended."""
        for key, gathering in list(self._open.items()):
            missing = gathering.servers - gathering.parts.keys()
            if any(number == world for number, _ in missing):
                del self._open[key]
                for each in gathering.replies:
                    each(RootAnswer(f"world {world} has ended"))


def _answer(gathering: _Gathering) -> RootAnswer:
    """Returns the answer to a gathering that is complete."""
    parts = tuple(part for _, part in sorted(gathering.parts.items()))
    size = sum(map(len, parts))
    if size > PARTS_MOST:
        return RootAnswer(f"the members' data have {size} bytes, more than {PARTS_MOST}")
    return RootAnswer(parts=parts, worlds=gathering.worlds)


def _place(world: World, host: str) -> int:
    """Returns a host's place; -1 if the world lacks it."""
    return world.hosts.index(host) if host in world.hosts else -1


def _begin(members: tuple[WorldRanks, ...], worlds: Mapping[int, World]) -> _Gathering:
    servers: set[Server] = set()
    for each in members:
        if each.world not in worlds:
            raise CoschedError(f"world {each.world} has ended")
        places = worlds[each.world].places(each.ranks)
        servers.update((each.world, place) for place in places)
    found = tuple(worlds[number] for number in sorted({each.world for each in members}))
    return _Gathering(found, frozenset(servers))
