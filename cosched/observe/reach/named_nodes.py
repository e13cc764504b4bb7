"""Finds the way to nodes that a user has named: into the lab, or by a remote shell."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.lab.lab import Lab
from cosched.observe.reach.ways import (
    REMOTE_SHELL,
    Inside,
    Shell,
    Way,
    names_of_this_node,
)


def way_to_hosts(
    hosts: Sequence[str],
    run_dir: Path,
    environ: Mapping[str, str],
    shell: Sequence[str] = (),
) -> Way:
    """Returns the way to the hosts. A node of the lab in ``run_dir`` needs no shell.

    shell: the words of the remote shell; (): those of COSCHED_REMOTE_SHELL, otherwise ssh.
    CoschedError if these cannot be read, or the lab there is damaged.
    """
    words = tuple(shell) or _usual_shell(environ)
    beyond = Shell(words, tuple(hosts), names_of_this_node())
    lab = Lab.load(run_dir)
    if lab is None:
        return beyond
    of_lab = {node.name for node in lab.nodes}.intersection(hosts)
    entrances = {name: tuple(lab.enter_argv(name, "/")) for name in of_lab}
    return Inside(entrances, beyond)


def _usual_shell(environ: Mapping[str, str]) -> tuple[str, ...]:
    text = environ.get("COSCHED_REMOTE_SHELL") or REMOTE_SHELL
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise CoschedError(f"COSCHED_REMOTE_SHELL: '{text}': {error}") from None
