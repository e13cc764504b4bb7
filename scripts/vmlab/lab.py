"""Makes, finds and ends a lab of virtual machines.

The lab's folder holds its state, key, consoles, the share that the nodes read (``share``),
and their home (``home``). Everything ends with ``down``; only the caches stay.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from cosched.core.decoding import Malformed, convert
from cosched.core.errors import CoschedError
from cosched.lab.files import locked
from cosched.linux.namespaces import ProcessId, end_processes
from cosched.linux.ports import free_ports
from scripts.vmlab import debian, opt
from scripts.vmlab.machine import Hardware, Nodes
from scripts.vmlab.plan import Shape, hosts_file, plan_guests
from scripts.vmlab.release import Release, release_of
from scripts.vmlab.remote import USER, Remote

USER_ID = 1000
#: Debian 13 takes four minutes under emulation on a host with other work.
BOOT_WITHIN_S = 900.0
END_WITHIN_S = 3.0


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """Describes one node of a lab that is up."""

    name: str  #: name of the node, such as ``n1``
    address: str  #: in the network of the nodes
    port: int  #: on the host, for ssh into the node
    qemu: ProcessId  #: the process of its machine


@dataclass(frozen=True, slots=True)
class VmLab:
    """Holds a lab that is up."""

    folder: Path  #: with the lab's state, key and logs
    shape: Shape  #: the size that its user asked for
    nodes: tuple[NodeRecord, ...]  #: n1 first

    @classmethod
    def load(cls, folder: Path) -> VmLab:
        """Returns the lab in a folder; CoschedError if none is up there."""
        lab = read_state(folder)
        if lab is None:
            raise CoschedError(f"no lab is up in {folder}: run 'scripts/vm-lab up'")
        dead = [node.name for node in lab.nodes if not node.qemu.alive()]
        if dead:
            raise CoschedError(
                f"the machine of {', '.join(dead)} has stopped: run 'scripts/vm-lab down'"
            )
        return lab

    def remote(self, name: str) -> Remote:
        """Returns the way into a node."""
        for node in self.nodes:
            if node.name == name:
                return Remote(self.folder, node.name, node.port)
        names = ", ".join(node.name for node in self.nodes)
        raise CoschedError(f"no node '{name}'; the nodes are {names}")

    @property
    def remotes(self) -> tuple[Remote, ...]:
        """Returns the ways into all nodes, the first first."""
        return tuple(self.remote(node.name) for node in self.nodes)


def up(
    folder: Path, cache: Path, shape: Shape, fresh: bool, report: Callable[[str], None]
) -> VmLab:
    """Boots a lab; removes everything if a node does not come up.

    ``fresh``: the nodes have cosched's sources, and cosched is not installed.
    """
    require_root()
    shape.check(psutil.virtual_memory().available >> 20)
    with locked(folder, create=True):
        if read_state(folder) is not None:
            raise CoschedError(
                f"a lab is up already in {folder}: run 'scripts/vm-lab down' first"
            )
        image, disk = make_disks(cache, release_of(shape.release), fresh, report)
        try:
            _write_files(folder, shape)
            return _boot(Hardware(shape, image, disk, folder), report)
        except BaseException:
            _end(folder)
            raise


def make_disks(
    cache: Path, release: Release, fresh: bool, report: Callable[[str], None]
) -> tuple[debian.Image, Path]:
    """Returns the image and the disk of /opt, and makes what the cache does not have."""
    require_root()
    debian.require_tools()
    log = cache / "log"
    image = debian.image(cache, release, log, report)
    return image, opt.disk(cache, image, release, fresh, log)


def _write_files(folder: Path, shape: Shape) -> None:
    folder.chmod(0o700)
    share, home = folder / "share", folder / "home"
    share.mkdir()
    home.mkdir()
    key = folder / "key"
    debian.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], folder / "log"
    )
    shutil.copy(key.with_suffix(".pub"), share)
    (share / "hosts").write_text(hosts_file(plan_guests(shape.nodes)))
    own = home / USER
    (own / ".ssh").mkdir(parents=True, mode=0o700)
    shutil.copy(key.with_suffix(".pub"), own / ".ssh" / "authorized_keys")
    for place in (own, own / ".ssh", own / ".ssh" / "authorized_keys"):
        os.chown(place, USER_ID, USER_ID)


def _boot(hardware: Hardware, report: Callable[[str], None]) -> VmLab:
    folder, shape = hardware.folder, hardware.shape
    nodes = Nodes(hardware)
    records: list[NodeRecord] = []
    try:
        for guest in plan_guests(shape.nodes):
            port = free_ports(1)
            process = nodes.start(guest, port)
            records.append(NodeRecord(guest.name, guest.address, port, process))
            lab = VmLab(folder, shape, tuple(records))
            write_state(lab)
        nodes.wait(BOOT_WITHIN_S, report)
    finally:
        nodes.close()
    return lab


def down(folder: Path) -> bool:
    """Ends the lab and removes its folder; False if there was none."""
    require_root()
    if not folder.exists():
        return False
    with locked(folder):
        was_up = read_state(folder) is not None
        _end(folder)
    return was_up


def _end(folder: Path) -> None:
    lab = read_state(folder)
    if lab is not None:
        _close_connections(lab)
        qemus = [node.qemu for node in lab.nodes]
        end_processes(lambda: [qemu for qemu in qemus if qemu.alive()], END_WITHIN_S)
    shutil.rmtree(folder)


def _close_connections(lab: VmLab) -> None:
    for master in lab.folder.glob("ssh.*.*"):
        words = ["ssh", "-o", f"ControlPath={master}", "-O", "exit", "127.0.0.1"]
        subprocess.run(words, stderr=subprocess.DEVNULL, check=False)


def write_state(lab: VmLab) -> None:
    """Replaces the state file in one step."""
    path = _state(lab.folder)
    fresh = path.with_suffix(".new")
    content = {"shape": asdict(lab.shape), "nodes": [asdict(node) for node in lab.nodes]}
    fresh.write_text(json.dumps(content) + "\n")
    fresh.replace(path)


def read_state(folder: Path) -> VmLab | None:
    """Reads the state of a lab; None if there is none."""
    path = _state(folder)
    try:
        return convert({"folder": folder, **json.loads(path.read_text())}, VmLab, str(path))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, Malformed) as error:
        raise CoschedError(f"{path} is not the state of a lab; remove {folder}") from error


def _state(folder: Path) -> Path:
    return folder / "lab.json"


def require_root() -> None:
    """CoschedError unless this process may make images and share files as any user."""
    if os.geteuid() != 0:
        raise CoschedError("images and virtual machines of the lab need root: use sudo")
