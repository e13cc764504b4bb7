"""Holds the ways to the nodes of a job: the words that make a command run there."""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

#: The shell for hosts, unless COSCHED_REMOTE_SHELL names another.
REMOTE_SHELL = "ssh -o BatchMode=yes -o ConnectTimeout=10"
_SLURM_NAME = r"(?:[0-9]+\.)?slurm-([0-9]+)\.[0-9]+"


class Way(Protocol):
    """A way to some nodes. ``nodes``: their names, in order."""

    @property
    def nodes(self) -> tuple[str, ...]: ...

    def command(self, node: str, words: Sequence[str]) -> list[str]:
        """Returns the command that runs ``words`` on the node as this user."""


@dataclass(frozen=True, slots=True)
class Slurm:
    """Through Slurm: a step beside the other steps of a job."""

    job: str  #: the number of the Slurm job
    nodes: tuple[str, ...]  #: the nodes to reach
    here: frozenset[str]  #: the names of this node, which needs no step

    def command(self, node: str, words: Sequence[str]) -> list[str]:
        if node in self.here:
            return list(words)
        return [
            *("srun", f"--jobid={self.job}", f"--nodelist={node}"),
            *("--nodes=1", "--ntasks=1", "--overlap", "--mem=0", "--cpu-bind=none"),
            *("--mpi=none", "--export=ALL", "--input=none", "--chdir=/", "--quiet"),
            *("--job-name=cosched", "--", *words),
        ]


@dataclass(frozen=True, slots=True)
class Shell:
    """Through a remote shell, such as ssh.

    A shell takes a command line as one word, and srun takes the command's words.
    """

    shell: tuple[str, ...]  #: the words of the remote shell
    nodes: tuple[str, ...]  #: the nodes to reach
    here: frozenset[str]  #: the names of this node, which needs no shell

    def command(self, node: str, words: Sequence[str]) -> list[str]:
        if node in self.here:
            return list(words)
        if Path(self.shell[0]).name == "srun":
            return [*self.shell, node, *words]
        return [*self.shell, node, shlex.join(words)]


@dataclass(frozen=True, slots=True)
class Inside:
    """Into the nodes of a lab on this machine."""

    #: The words in front of a command on a node, by the node's name.
    entrances: Mapping[str, tuple[str, ...]]
    beyond: Way  #: the way to all nodes, which serves those without an entrance

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.beyond.nodes

    def command(self, node: str, words: Sequence[str]) -> list[str]:
        entrance = self.entrances.get(node)
        if entrance is not None:
            return [*entrance, *words]
        return self.beyond.command(node, words)


def names_of_this_node() -> frozenset[str]:
    """Returns the names by which users may call this node."""
    name = socket.gethostname()
    return frozenset((name, name.partition(".")[0], "localhost"))


def slurm_job_in(name: str) -> str | None:
    """Returns the number of the Slurm job in a name that the partition's TaskProlog gave
    (``slurm-NUMBER.STEP``)."""
    match = re.fullmatch(_SLURM_NAME, name)
    return None if match is None else match[1]
