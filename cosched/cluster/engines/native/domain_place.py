"""Makes the place of a domain's queue: how jobs share its nodes."""

from __future__ import annotations

from cosched.config.domain import DomainConfig
from cosched.config.queue import CPU, RIGID
from cosched.core.cluster.queue.halves.halves import Halves
from cosched.core.cluster.queue.halves.learner import Learner
from cosched.core.cluster.queue.halves.placement import placement_of
from cosched.core.cluster.queue.nodes import Intervals
from cosched.core.cluster.queue.places.block_ledger import BlockLedger
from cosched.core.cluster.queue.places.cpus import Cpus
from cosched.core.cluster.queue.places.elastic import Elastic
from cosched.core.cluster.queue.places.place import Place
from cosched.core.cluster.queue.places.rows import Rows


def place_of(config: DomainConfig, nodes: Intervals) -> Place:
    """Returns the nodes of a domain as its queue sees them."""
    if config.symbiosis.divides:
        learner, sharing = Learner({}), config.symbiosis
        placement = placement_of(sharing.placement, learner)
        return Halves(nodes, placement, learner, share_up_to=sharing.largest_part)
    if config.queue.unit == CPU:
        licences = config.resources.licences
        return Cpus(nodes, config.slots, config.queue.jobs_per_node, licences)
    if config.queue.block:
        return BlockLedger(nodes, config.queue.block)
    if config.queue.size == RIGID:
        return Rows(nodes, config.queue.jobs_per_node)
    return Elastic(nodes)
