"""Numbers the nodes of a domain.

Messages name nodes by their numbers. So a node keeps its number as long as it is in the
domain, and no number is given twice: no node ever gets that of a removed one. A node that
comes again under the same name gets another number.

The numbering also has the nodes that leave: domain.toml lacks them already, and jobs still
have them.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

import msgspec

from cosched.core.bounds import Name, Natural, Slots


class NumberedNode(msgspec.Struct, frozen=True):
    """A node with its number."""

    number: Slots  #: no other node of the domain ever has it
    name: Name  #: as in domain.toml
    address: Name  #: ``HOST:PORT`` of its agent


class Numbering(msgspec.Struct, frozen=True):
    """The nodes of a domain and their numbers."""

    version: Natural = 0  #: grows with each change
    unused: Slots = 0  #: the least number that no node has had
    nodes: tuple[NumberedNode, ...] = ()  #: by number, ascending

    @property
    def addresses(self) -> dict[str, str]:
        """``HOST:PORT`` of each agent by the name of its node."""
        return {node.name: node.address for node in self.nodes}

    def following(self, wanted: Mapping[str, str]) -> Numbering:
        """Returns the numbering after a change of domain.toml. wanted: its addresses by
        name. New nodes get new numbers; nodes that it lacks stay."""
        known = self.addresses
        kept = (
            msgspec.structs.replace(node, address=wanted.get(node.name, node.address))
            for node in self.nodes
        )
        added = [name for name in wanted if name not in known]
        new = (
            NumberedNode(number, name, wanted[name])
            for number, name in enumerate(added, self.unused)
        )
        return self._changed((*kept, *new), self.unused + len(added))

    def without(self, names: Container[str]) -> Numbering:
        """Returns the numbering without these nodes; their numbers stay unused."""
        kept = tuple(node for node in self.nodes if node.name not in names)
        return self._changed(kept, self.unused)

    def _changed(self, nodes: tuple[NumberedNode, ...], unused: int) -> Numbering:
        if nodes == self.nodes:
            return self
        return Numbering(self.version + 1, unused, nodes)
