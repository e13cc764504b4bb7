"""Settings of nodes whose daemons cannot be reached from here, by a command of the user's.

The command sets what is appended to it on every node of the bench, say
``pdsh -w n1,n2 cosched config set`` with ``slice=15s gmet=5s``. It cannot tell what was set
before, so what a bench changed goes back to cosched's defaults at its end.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from cosched.core.errors import CoschedError
from cosched.core.node.settings import USUAL

WITHIN_S = 60.0


class RemoteSettings:
    """What the nodes are set to, as far as this bench knows, and how to change it."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = tuple(command)
        self.now = USUAL.texts()

    def change(self, changes: Mapping[str, str]) -> None:
        """Sets these on all nodes; CoschedError with the command's words if it fails."""
        words = [*self._command, *(f"{name}={text}" for name, text in changes.items())]
        try:
            done = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=WITHIN_S,
                check=False,
            )
        except OSError as error:
            raise CoschedError(f"cannot run '{words[0]}': {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise CoschedError(f"'{words[0]}' took over {WITHIN_S:g} s") from error
        if done.returncode != 0:
            said = done.stdout.strip().splitlines() or [f"status {done.returncode}"]
            raise CoschedError(f"'{' '.join(words)}' failed: {said[-1]}")
        self.now.update(changes)
