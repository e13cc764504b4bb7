"""Gives the paths of a domain's files and sockets."""

from __future__ import annotations

from pathlib import Path

from cosched.core.named_tuples import NamedTuple


class DomainPaths(NamedTuple):
    """The files of a domain in a run directory."""

    run_dir: Path  #: all paths are below it

    @property
    def directory(self) -> Path:
        return self.run_dir / "domain"

    @property
    def config(self) -> Path:
        return self.directory / "domain.toml"

    @property
    def former_config(self) -> Path:
        """The settings that ``cluster up`` has replaced by others."""
        return self.directory / "domain.toml.before"

    @property
    def keys(self) -> Path:
        return self.directory / "keys"

    @property
    def store(self) -> Path:
        return self.directory / "jobs.sqlite"

    @property
    def numbering(self) -> Path:
        """Returns the numbers of the nodes."""
        return self.directory / "nodes.json"

    @property
    def controller_socket(self) -> Path:
        return self.directory / "controller.sock"

    @property
    def controller_lock(self) -> Path:
        return self.directory / "controller.lock"

    @property
    def controller_log(self) -> Path:
        return self.directory / "controller.log"

    @property
    def private_lock(self) -> Path:
        """Returns the lock of commands that start members of a private domain. It stays
        when that domain has ended."""
        return self.directory / "start.lock"

    @property
    def gate_socket(self) -> Path:
        """Returns where the gates of Slurm's jobs connect."""
        return self.directory / "gate.sock"

    @property
    def mates(self) -> Path:
        """Returns the store of a coupled domain's decisions."""
        return self.directory / "mates.sqlite"

    @property
    def peers(self) -> Path:
        """Returns the directory of the coupled domains' keys."""
        return self.directory / "peers"

    def node(self, name: str) -> Path:
        """Returns the directory of a node, which its scheduler daemon also uses."""
        return self.run_dir / name

    def agent_socket(self, name: str) -> Path:
        return self.node(name) / "agent.sock"

    def agent_lock(self, name: str) -> Path:
        return self.node(name) / "agent.lock"

    def agent_log(self, name: str) -> Path:
        return self.node(name) / "agent.log"

    def topology(self, name: str) -> Path:
        """Returns the file that describes a node's hardware."""
        return self.node(name) / "topology.xml"

    def spool(self, name: str) -> Path:
        """Returns the directory of a node's jobs' private files."""
        return self.node(name) / "jobs"
