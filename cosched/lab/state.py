"""Reads and writes the lab's state file, ``RUN_DIR/lab/lab.json``.

Only ``cosched lab up`` writes it, each time as a whole. It is written before the keepers
are confirmed, so it names every keeper that stays. ``complete`` becomes true at the end.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from cosched.core.bounds import Rate
from cosched.core.decoding import Malformed, convert, decode_json
from cosched.core.errors import CoschedError
from cosched.linux.files.whole import write_whole
from cosched.linux.namespaces import ProcessId

VERSION = 1


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node of a lab."""

    name: str  #: the node's host name
    address: str  #: the node's IPv4 address
    cpus: tuple[int, ...]  #: the node's CPUs by number
    keeper: ProcessId  #: the process that holds the node's namespaces


@dataclass(frozen=True, slots=True)
class LabState:
    """The contents of the state file."""

    complete: bool  #: whether ``lab up`` has ended; False: it is at work, or was cut short
    network: str  #: the nodes' network in CIDR notation
    agent: str  #: the path of the script that starts a command inside a node
    fabric: ProcessId  #: the process that holds the namespace of the network
    nodes: tuple[NodeRecord, ...]  #: the nodes, in the order of their numbers
    #: The rate of each link, in bits a second; None: no limit.
    rate: Rate | None = None

    @property
    def keepers(self) -> tuple[tuple[str, ProcessId], ...]:
        """Returns each keeper with the name of its node or fabric."""
        return (
            ("fabric", self.fabric),
            *((node.name, node.keeper) for node in self.nodes),
        )


def state_path(run_dir: Path) -> Path:
    return run_dir / "lab" / "lab.json"


def write_state(run_dir: Path, state: LabState) -> None:
    """Replaces the file in one step."""
    path = state_path(run_dir)
    write_whole(path, json.dumps({"version": VERSION, **asdict(state)}) + "\n")


def read_state(run_dir: Path) -> LabState | None:
    """Reads the state; None if there is none."""
    path = state_path(run_dir)
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CoschedError(f"{path}: {error.strerror}") from error
    try:
        data = decode_json(text, str(path))
        if data["version"] == VERSION:
            return convert(data, LabState, str(path))
        problem: Exception = ValueError(data["version"])
    except (Malformed, KeyError, TypeError) as error:
        problem = error
    raise CoschedError(
        f"{path} is not the state of a lab: run 'cosched lab down'"
    ) from problem
