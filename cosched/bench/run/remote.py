"""Changes the settings of nodes that this machine cannot reach, by a command of the user's.

The command gets the settings as further words: ``pdsh -w n1,n2 cosched config set`` with
``slice=15s gmet=5s``. Without further words it prints a line or two for each node, as
``cosched config set`` does: ``node n1: slice=1s gmet=auto align=on``. So a bench can
restore the earlier settings.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from functools import cached_property

from cosched.core.errors import CoschedError

TIMEOUT_S = 60.0
_NODE_LINE = re.compile(r"\bnode (\S+): ((?:\w+=\S+ ?)+)$", re.MULTILINE)


class RemoteSettings:
    """The settings of the nodes, which are the same on each, and the way to change them."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = tuple(command)

    @cached_property
    def now(self) -> dict[str, str]:
        """The nodes' settings; CoschedError if they differ or cannot be read."""
        found: dict[str, str] = {}
        for node, line in _NODE_LINE.findall(self._run()):
            found[node] = f"{found[node]} {line}" if node in found else line
        if not any("slice=" in texts for texts in found.values()):
            raise CoschedError(
                f"'{' '.join(self._command)}' does not print the nodes' settings, so they "
                "could not be restored; use a command that runs 'cosched config set'"
            )
        if len(set(found.values())) > 1:
            raise CoschedError(
                f"the nodes have different settings ({'; '.join(sorted(found.values()))}); "
                "set them alike first, because one command restores them all"
            )
        words = next(iter(found.values())).split()
        return {name: text for name, _, text in (word.partition("=") for word in words)}

    def change(self, changes: Mapping[str, str]) -> None:
        """Sets these on all nodes; CoschedError with the command's last line on failure."""
        self._run(*(f"{name}={text}" for name, text in changes.items()))
        self.now.update(changes)

    def _run(self, *words: str) -> str:
        command = [*self._command, *words]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=TIMEOUT_S,
                check=False,
            )
        except OSError as error:
            raise CoschedError(f"cannot run '{command[0]}': {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise CoschedError(
                f"'{command[0]}' did not finish in {TIMEOUT_S:g} s"
            ) from error
        if done.returncode != 0:
            lines = done.stdout.strip().splitlines() or [f"status {done.returncode}"]
            raise CoschedError(f"'{' '.join(command)}' failed: {lines[-1]}")
        return done.stdout
