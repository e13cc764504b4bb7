"""Describes a lab: virtual nodes on one machine with separate networks, names and CPUs.

A node is a network, a UTS and a mount namespace held by a keeper (keeper.py); the fabric
joins them (fabric.py); life.py makes and ends them. The nodes share the machine's files,
processes and shared memory: /run, /tmp and /dev/shm are the same everywhere. The addresses
cannot be reached from outside, so launchers run inside a node.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from cosched.core.errors import CoschedError
from cosched.core.rates import format_rate
from cosched.lab import agent
from cosched.lab.state import LabState, NodeRecord, read_state


@dataclass(frozen=True, slots=True)
class Lab:
    """A lab that is up."""

    run_dir: Path  #: the daemons' run directory, which has the lab's files
    network: str  #: the nodes' network in CIDR notation
    agent: Path  #: the script that starts a command inside a node
    nodes: tuple[NodeRecord, ...]  #: the nodes, in the order of their numbers
    rate: int | None  #: the rate of each link, in bits a second; None: no limit

    @classmethod
    def load(cls, run_dir: Path) -> Lab | None:
        """Returns the lab of this run directory; None if none is up.

        If all keepers of a lab are dead, its files are removed. CoschedError if the lab is
        damaged or half made.
        """
        run_dir = run_dir.resolve()
        state = read_state(run_dir)
        if state is None:
            return None
        dead = [name for name, process in state.keepers if not process.alive()]
        if len(dead) == len(state.keepers):
            # Imported here: it takes long, and each launch in a lab calls this.
            from cosched.lab.files import forget_dead

            forget_dead(run_dir)
            return None
        if dead:
            raise CoschedError(
                f"the lab has lost {', '.join(dead)}: run 'cosched lab down'"
            )
        if not state.complete:
            raise CoschedError(
                "the lab is being made or was left half made: "
                "wait for 'cosched lab up', or run 'cosched lab down'"
            )
        return cls.of_state(run_dir, state)

    @classmethod
    def of_state(cls, run_dir: Path, state: LabState) -> Lab:
        """Returns the lab that ``state`` describes, complete or not."""
        return cls(
            run_dir=run_dir,
            network=state.network,
            agent=Path(state.agent),
            nodes=state.nodes,
            rate=state.rate,
        )

    @property
    def shares_cpus(self) -> bool:
        """Whether two nodes have a CPU in common, so that times mean little."""
        cpus = [cpu for node in self.nodes for cpu in node.cpus]
        return len(cpus) != len(set(cpus))

    def node(self, name: str) -> NodeRecord:
        """Returns the node with this name or address."""
        for node in self.nodes:
            if name in (node.name, node.address):
                return node
        names = ", ".join(node.name for node in self.nodes)
        raise CoschedError(f"host '{name}' is not in the lab; its nodes are {names}")

    def enter_argv(self, node_name: str, directory: str | None = None) -> list[str]:
        """Returns the words in front of a command that make it run inside the node.

        It runs there in ``directory``, by default the present one. Needs root.
        """
        node = self.node(node_name)
        if directory is None:
            directory = os.getcwd()
        tools = agent.Tools.find(shutil.which)
        return agent.enter_argv(tools, node.keeper.pid, node.cpus, directory)

    def exec(self, node_name: str, command: Sequence[str]) -> NoReturn:
        """Replaces this process by ``command`` inside the node."""
        require_root()
        argv = [*self.enter_argv(node_name), *command]
        sys.stdout.flush()
        sys.stderr.flush()
        # Python ignores these signals; the command needs the default.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execv(argv[0], argv)


def describe_links(rate: int | None) -> str:
    """Returns a lab's links in words. rate: bits a second; None: no limit."""
    return "links without a limit" if rate is None else f"links {format_rate(rate)}"


def require_root() -> None:
    """CoschedError unless this process may make and enter namespaces."""
    if os.geteuid() != 0:
        raise CoschedError("the lab needs root, to make and enter namespaces: use sudo")
