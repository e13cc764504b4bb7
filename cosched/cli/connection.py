"""Connects commands to the domain; reports that they wait for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cosched.cluster.client import Patience
from cosched.cluster.paths import DomainPaths
from cosched.cluster.submission import JOB_VARIABLE
from cosched.cluster.up.killed import lacks_a_member
from cosched.core.errors import CoschedError
from cosched.jobs.client import Client

#: For a shell that completes a word: the user waits at the prompt.
AT_THE_PROMPT = Patience(within_s=1.0)


def connect(
    run_dir: Path | None, node: str | None = None, command: str = "cosched"
) -> Client:
    """Connects to the domain of a run directory as ``Client.connect`` does.

    Starts a missing member of the user's private domain again. command: the first word of
    the lines on stderr that report this, or that the domain does not answer.
    """
    client = Client.connect(run_dir, node, patient(command))
    # A member that a command of a job started would end with the job.
    if JOB_VARIABLE in os.environ or not lacks_a_member(DomainPaths(client.run_dir)):
        return client
    from cosched.cluster.up.private import restore_private

    try:
        restore_private(client.run_dir, lambda line: _print(command, line))
    except (CoschedError, OSError) as error:
        _print(command, f"it cannot be started: {error}")
        return client
    client.close()
    return Client.connect(client.run_dir, node, patient(command))


def patient(command: str = "cosched") -> Patience:
    """Returns how a command waits. command: the first word of its line on stderr."""
    line = "the domain has not answered yet; waiting for its controller"
    return Patience(note_slow=lambda: _print(command, line))


def _print(command: str, line: str) -> None:
    print(f"{command}: {line}", file=sys.stderr)
