"""Names the programs that must restart for a new value of a setting in ``domain.toml``."""

from __future__ import annotations

from collections.abc import Sequence

#: Jobs run on meanwhile.
CONTROLLER_ALONE = "the controller"
#: The jobs on a node end with its agent.
AGENTS = "all agents"
MEMBERS = "the controller and all agents"


def readers_of_keys(members: Sequence[str]) -> str:
    """Returns the programs that use the keys of some agents."""
    agents = "the agent" if len(members) == 1 else "the agents"
    return f"{CONTROLLER_ALONE} and {agents} of {', '.join(members)}"
