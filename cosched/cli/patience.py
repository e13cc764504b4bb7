"""Reports that a command waits for its domain."""

from __future__ import annotations

import sys

from cosched.cluster.client import Patience

#: For a shell that completes a word: the user waits at the prompt.
AT_THE_PROMPT = Patience(within_s=1.0)


def patient(command: str = "cosched") -> Patience:
    """Returns how a command waits. command: the first word of its line on stderr."""

    def note_slow() -> None:
        print(
            f"{command}: the domain has not answered yet; waiting for its controller",
            file=sys.stderr,
        )

    return Patience(note_slow=note_slow)
