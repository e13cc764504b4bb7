"""Defines what is stored about the size of a malleable job.

A *place* is a number of a node in its job. Each place is given once: a node that leaves and
returns has another one.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cosched.cluster.size_messages import PhaseTimes
from cosched.core.bounds import Name, Natural, Slots
from cosched.core.cluster.resizing.change import Generation
from cosched.core.decoding import JsonDecoder
from cosched.core.errors import CoschedError


class OpenChange(msgspec.Struct, frozen=True):
    """A change that was ordered, and whose end is not known."""

    generation: Generation  #: its number in the start of the job
    ordered_ns: Natural  #: when, by the wall clock
    by_ns: Natural | None  #: it is late from then on; None: never
    after: tuple[Slots, ...]  #: the places of the job after it
    reason: str  #: one line
    sent: bool = False  #: whether the root may have it
    prepare_ns: Natural = 0  #: from the order until the root got it; 0: not yet


class JobSize(msgspec.Struct, frozen=True):
    """The places of a malleable job that has nodes."""

    #: Places with ranks now: those of its start, then those of each growth.
    growths: tuple[tuple[Slots, ...], ...]
    generation: Natural = 0  #: of the last change; 0: there was none
    change: OpenChange | None = None  #: the open one
    since_ns: Natural = 0  #: when it got its present size; 0: it began with it
    node_ns: Natural = 0  #: the time of its nodes until then, added up

    @property
    def places(self) -> tuple[int, ...]:
        """Returns the places with ranks now, ascending."""
        return tuple(sorted(place for growth in self.growths for place in growth))

    @property
    def leaving(self) -> tuple[int, ...]:
        """Returns the places that leave by the open change."""
        if self.change is None:
            return ()
        after = frozenset(self.change.after)
        return tuple(place for place in self.places if place not in after)

    @property
    def arriving(self) -> tuple[int, ...]:
        """Returns the places that come by the open change."""
        if self.change is None:
            return ()
        before = frozenset(self.places)
        return tuple(place for place in self.change.after if place not in before)

    def ordered(self, change: OpenChange) -> JobSize:
        """Returns the size with an open change."""
        return msgspec.structs.replace(self, change=change, generation=change.generation)

    def refused(self) -> JobSize:
        """Returns the size after the open change is refused."""
        return msgspec.structs.replace(self, change=None)

    def done(self, now_ns: int, began_ns: int) -> JobSize:
        """Returns the size after the open change. began_ns: when the job began."""
        after = frozenset(self.places if self.change is None else self.change.after)
        stay = (tuple(each for each in growth if each in after) for growth in self.growths)
        growths = tuple(growth for growth in (*stay, self.arriving) if growth)
        node_ns = self.used_ns(now_ns, began_ns)
        return JobSize(growths, self.generation, None, now_ns, node_ns)

    def used_ns(self, now_ns: int, began_ns: int) -> int:
        """Returns the time of all nodes of the job until now, added up."""
        since_ns = max(self.since_ns, began_ns)
        return self.node_ns + len(self.places) * max(0, now_ns - since_ns)


class PastChange(msgspec.Struct, frozen=True):
    """A change that has ended."""

    generation: Generation  #: its number in the start of the job
    ordered_ns: Natural  #: when it was ordered, by the wall clock
    ended_ns: Natural  #: when it was done or refused, by the wall clock
    before: Slots  #: the number of nodes before it
    after: Slots  #: the number of nodes after it, also if it was refused
    left: tuple[Name, ...]  #: the nodes that left
    came: tuple[Name, ...]  #: the nodes that came
    reason: str  #: why it was ordered, in one line
    refused: str = ""  #: why the job is as it was; empty: the change is done
    cost_ns: Natural = 0  #: how long the job stood still
    times: PhaseTimes | None = None  #: how long its phases took; None: not known
    prepare_ns: Natural = 0  #: from the order until all its nodes had admitted the job

    @property
    def text(self) -> str:
        """Returns one line about it."""
        if self.refused:
            return f"keeps {self.before} nodes ({self.reason}): {self.refused}"
        return f"{self.before} to {self.after} nodes: {self.reason}"


def cost_ns(times: PhaseTimes | None, most_ns: int) -> int:
    """Returns how long a job stood still for a change with these phases, which are those of
    its own page. most_ns: the time from the order to the end, which bounds it."""
    if times is None:
        return 0
    sum_ns = (
        times.wait_ns
        + times.spawn_ns
        + times.connect_ns
        + times.start_ns
        + times.move_ns
        + times.resume_ns
    )
    return max(0, min(sum_ns, most_ns))


def names_at(hosts: Sequence[str], places: Sequence[int]) -> tuple[str, ...]:
    """Returns the names of the nodes at these places of a job."""
    return tuple(hosts[place] for place in places)


_size_decoder: JsonDecoder[JobSize] = JsonDecoder(JobSize, "the size of a job")
change_decoder: JsonDecoder[PastChange] = JsonDecoder(
    PastChange, "a change of a job's size"
)


def decode_size(data: bytes, hosts: int) -> JobSize:
    """Returns the stored size of a job. hosts: the number of its places. Raises
    CoschedError if it is damaged."""
    size = _size_decoder.decode(data)
    if not size.places or max((*size.places, *size.arriving)) >= hosts:
        raise CoschedError("its size does not fit its nodes")
    return size
