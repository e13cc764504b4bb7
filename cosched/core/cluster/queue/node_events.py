"""Lists what each event about nodes does to the place of the queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from cosched.core.cluster.queue.places.place import Place
from cosched.core.cluster.queue.queue_events import (
    CpusCounted,
    HalvesLimited,
    NodeOffered,
    NodesAdded,
    NodesDrained,
    NodesJoined,
    NodesRemoved,
    PairKnown,
    SpeedObserved,
)

Applied = Callable[[Place, Any], None]

#: Events after which the nodes are others, so that the plan must be made again.
CHANGES: Mapping[type, Applied] = MappingProxyType(
    {
        NodesAdded: lambda place, event: place.add(event.nodes),
        NodesRemoved: lambda place, event: place.remove(event.nodes),
        NodesDrained: lambda place, event: place.withdraw(event.nodes),
        NodesJoined: lambda place, event: place.admit(event.nodes),
        NodeOffered: lambda place, event: place.offer(event.offer),
        CpusCounted: lambda place, event: place.resize(event.cpus),
        HalvesLimited: lambda place, event: place.limit(event.share_up_to),
    }
)
#: Events that report how fast jobs run beside each other.
OBSERVATIONS: Mapping[type, Applied] = MappingProxyType(
    {
        SpeedObserved: lambda place, event: place.observe(
            event.primary, event.background, event.speedup
        ),
        PairKnown: lambda place, event: place.learn(
            event.pair, event.speed, event.runs, harmful=event.harmful
        ),
    }
)
