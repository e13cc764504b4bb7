"""Measures the memory of the node and of its jobs, within the operator's settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cosched.core.config.schema import NodeConfig
from cosched.core.named_tuples import NamedTuple
from cosched.core.node.admission import MemoryNeed, Node
from cosched.linux.memory import held_bytes, machine_memory, pressure_percent


class MemoryTerms(NamedTuple):
    """The operator's settings for the node's memory."""

    #: The memory for all jobs together; None: the memory of the machine; 0: no limit, so no
    #: job waits.
    capacity_bytes: int | None = None
    patience_ns: int = NodeConfig().memory_wait_ns  #: the longest wait of a job


class MemoryMeter:
    """Measures with the functions of ``linux.memory``, or with others in tests."""

    def __init__(
        self,
        terms: MemoryTerms,
        held: Callable[[Iterable[int]], int] = held_bytes,
        pressure: Callable[[], float | None] = pressure_percent,
    ) -> None:
        self._terms = terms
        self._held = held
        self._pressure = pressure

    @property
    def limited(self) -> bool:
        """Whether a job may have to wait for memory."""
        return self._terms.capacity_bytes != 0

    def need(self, declared_bytes: int, pids: Iterable[int]) -> MemoryNeed:
        """Returns the memory need of a job with these processes."""
        return MemoryNeed(declared_bytes, self._held(pids))

    def node(self, held: int) -> Node:
        """Returns the node's memory; ``held``: the bytes of all jobs, waiting ones too."""
        pressure = self._pressure() or 0.0
        capacity = self._terms.capacity_bytes
        if capacity is not None:
            return Node(capacity, capacity, pressure, self._terms.patience_ns)
        machine = machine_memory()
        usable = min(machine.total_bytes, machine.available_bytes + held)
        return Node(machine.total_bytes, usable, pressure, self._terms.patience_ns)
