"""Reads the states of nodes from the text that ``sinfo`` prints. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

#: The columns of sinfo: a node's name and state, and whether its partition shares nodes,
#: whose name is the last one. A node has a line in each of its partitions.
COLUMNS = "%N %T %h %R"
_GONE = ("down", "drain", "fail", "error")
_OUT = (*_GONE, "power")
_NOT_SHARED = ("NO", "EXCLUSIVE")


def in_service(text: str) -> int:
    """Returns the number of nodes in service."""
    states = {name: state for name, state, _, _ in _rows(text)}
    return sum(not state.startswith(_OUT) for state in states.values())


def may_be_free(text: str, partitions: Collection[str]) -> int | None:
    """Returns how many nodes of these partitions may have room for a job now, at most; None
    if they are not shown. A node has no room if other jobs have all of it, and none of them
    is ending. A node that starts up may have room soon."""
    rooms: dict[str, bool] = {}
    for name, state, shares, partition in _rows(text):
        if partition in partitions:
            full = state.startswith("allocated") and "+" not in state
            gone = state.startswith(_GONE) or (full and shares in _NOT_SHARED)
            rooms[name] = rooms.get(name, False) or not gone
    return sum(rooms.values()) if rooms else None


def _rows(text: str) -> Iterator[list[str]]:
    """Yields the columns of each line; a line of another form is a message of sinfo."""
    for line in text.splitlines():
        columns = line.split()
        if len(columns) == len(COLUMNS.split()):
            yield columns


def preempts(config: Mapping[str, str]) -> bool:
    """Returns whether jobs can take the nodes of others. config: as ``scontrol show
    config`` prints it."""
    return config.get("PreemptType", "(null)") not in ("(null)", "none", "preempt/none")
