"""Describes how long the steps of a start take on a node and on its link.

A calibration is a TOML file. Keys that it lacks have the defaults::

    format = "cosched-startup-1"

    [costs]
    link_mb_s = 12.5
    message_us = 180
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from cosched.core.config.suggestions import suggest
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S, NS_PER_US
from cosched.documents import read_toml

FORMAT = "cosched-startup-1"
#: Beyond these no time of a start could be computed.
_LINK_LEAST_MB_S = 1e-9
_COST_MOST = 1e12


@dataclass(frozen=True, slots=True)
class Costs:
    """Times and sizes of a start. The defaults are a cluster as the paper's: InfiniBand at
    100 to 200 MB/s. The paper has no value for the others."""

    #: 10^6 bytes/s that a node sends, to all its neighbours together.
    link_mb_s: float = 150.0
    latency_us: float = 20.0  #: from the end of sending to the arrival
    #: CPU time of a message, at the sender and again at the receiver.
    message_us: float = 10.0
    byte_ns: float = 0.0  #: CPU time of a byte of a message, at either end
    overhead_bytes: float = 64.0  #: on the link, beside the content of a message
    #: The bytes of a connection that the link queues before others have their turn; 0: a
    #: whole message.
    window_bytes: float = 0.0
    #: CPU time to read or write a byte of a job object, or to read a byte of the tables.
    codec_ns: float = 50.0
    assign_us: float = 100.0  #: CPU time to assign resources, on a node
    assign_task_us: float = 10.0  #: the same, for each task
    start_us: float = 5000.0  #: CPU time to start a node's tasks
    start_task_us: float = 0.0  #: the same, for each task

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            least = _LINK_LEAST_MB_S if each.name == "link_mb_s" else 0
            if not least <= value <= _COST_MOST:
                raise CoschedError(f"{each.name}: {value:g} is not a cost")

    @property
    def latency_ns(self) -> int:
        return round(self.latency_us * NS_PER_US)

    def handling_ns(self, size: float) -> int:
        """Returns the CPU time of a message of ``size`` bytes at one end."""
        return round(self.message_us * NS_PER_US + self.byte_ns * size)

    def sending_ns(self, size: float) -> int:
        """Returns how long a message of ``size`` bytes has the link."""
        return round((size + self.overhead_bytes) * NS_PER_S / (self.link_mb_s * 1e6))

    def codec_of_ns(self, size: float) -> int:
        """Returns the CPU time to read or write ``size`` bytes of an object."""
        return round(self.codec_ns * size)

    def assigning_ns(self, tasks: int) -> int:
        """Returns the CPU time to assign resources to the tasks of a node."""
        return round((self.assign_us + self.assign_task_us * tasks) * NS_PER_US)

    def starting_ns(self, tasks: int) -> int:
        """Returns the CPU time to start the tasks of a node."""
        return round((self.start_us + self.start_task_us * tasks) * NS_PER_US)


def read_costs(path: Path) -> Costs:
    """Reads a calibration. CoschedError names the file and what is wrong in it."""
    document = read_toml(path)
    try:
        return _parse(document)
    except CoschedError as error:
        raise CoschedError(f"{path}: {error}") from None


def _parse(document: dict[str, Any]) -> Costs:
    if document.get("format") != FORMAT:
        raise CoschedError(f'not a calibration of starts: format is not "{FORMAT}"')
    table = document.get("costs", {})
    if not isinstance(table, dict) or set(document) - {"format", "costs"}:
        raise CoschedError("expected the key format and the table [costs] alone")
    known = [each.name for each in fields(Costs)]
    for key, value in table.items():
        if key not in known:
            raise CoschedError(f"costs.{key}: no such cost{suggest(key, known)}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise CoschedError(f"costs.{key}: must be a number")
    return Costs(**table)
