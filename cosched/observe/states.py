"""Names a job's states for people. Pure."""

from __future__ import annotations


def state_word(state: str) -> str:
    """Returns the word that people read for a job's state or mode in the JSON fields."""
    return {"raised": "boosted", "released": "detached"}.get(state, state)
