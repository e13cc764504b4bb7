"""Connects commands to the domain; reports that they wait for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cosched.cluster.client import Patience
from cosched.cluster.paths import DomainPaths
from cosched.cluster.up.killed import has_killed_member
from cosched.jobs.client import Client

#: For a shell that completes a word: the user waits at the prompt.
AT_THE_PROMPT = Patience(within_s=1.0)


def connect(
    run_dir: Path | None, node: str | None = None, command: str = "cosched"
) -> Client:
    """Connects to the domain of a run directory as ``Client.connect`` does.

    Starts a killed member of the user's private domain again. command: the first word of
    the lines on stderr that report this, or that the domain does not answer.
    """
    patience = patient(command)
    client = Client.connect(run_dir, node, patience)
    here = node or os.environ.get("COSCHED_NODE") or os.uname().nodename
    if not has_killed_member(DomainPaths(client.run_dir), here):
        return client
    client.close()
    from cosched.cluster.up.private import restore_private

    restore_private(client.run_dir, here, lambda line: _print(command, line))
    return Client.connect(client.run_dir, node, patience)


def patient(command: str = "cosched") -> Patience:
    """Returns how a command waits. command: the first word of its line on stderr."""
    line = "the domain has not answered yet; waiting for its controller"
    return Patience(note_slow=lambda: _print(command, line))


def _print(command: str, line: str) -> None:
    print(f"{command}: {line}", file=sys.stderr)
