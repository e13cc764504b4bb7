"""Starts a node's qemu, and waits until the nodes report that they are up.

Each node has four things of the host: the two disks, of which it changes a copy that ends
with it; the lab's folder, read-only; the shared home. Its console goes to a file. On a
second serial port it reports one line when it is up (``guest/lab-ready``).

A qemu outlives the command that starts it, and ends by SIGTERM.
"""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.linux.namespaces import ProcessId
from scripts.vmlab.debian import Image
from scripts.vmlab.plan import INSIDE, Guest, Shape, network_group
from scripts.vmlib.machine import QEMU, has_kvm

HEALTHY = "running"
SHOWN_LINES = 3


@dataclass(frozen=True, slots=True)
class Hardware:
    """Describes the machine that each node gets."""

    shape: Shape  #: number of nodes, CPUs and memory
    image: Image  #: the system from which each node boots
    opt: Path  #: the disk of /opt, in a file
    folder: Path  #: folder of the lab

    def command(self, guest: Guest, port: int) -> list[str]:
        """Returns the node's qemu command. ``port``: where the host's ssh reaches it."""
        accelerator = ["-accel", "tcg,thread=multi", "-cpu", "max"]
        if has_kvm():
            accelerator = ["-accel", "kvm", "-cpu", "host"]
        ssh = f"restrict=on,hostfwd=tcp:127.0.0.1:{port}-{INSIDE}:22"
        group = f"mcast={network_group(self.folder)},localaddr=127.0.0.1"
        shared = "security_model=passthrough"
        return [
            *(QEMU, "-machine", "q35", *accelerator, "-name", guest.name),
            *("-smp", str(self.shape.cpus), "-m", str(self.shape.memory_mib)),
            *("-nodefaults", "-no-reboot", "-display", "none"),
            *("-kernel", str(self.image.kernel), "-initrd", str(self.image.initrd)),
            *("-append", guest.kernel_options),
            *("-serial", f"file:{console(self.folder, guest.name)}"),
            *("-chardev", f"socket,id=ready,path={ready(self.folder, guest.name)}"),
            *("-serial", "chardev:ready"),
            *("-drive", f"file={self.image.disk},format=raw,if=virtio,snapshot=on"),
            *("-drive", f"file={self.opt},format=raw,if=virtio,snapshot=on"),
            *(
                "-virtfs",
                f"local,path={self.folder}/share,mount_tag=lab,{shared},readonly=on",
            ),
            *("-virtfs", f"local,path={self.folder}/home,mount_tag=home,{shared}"),
            *("-netdev", f"socket,id=nodes,{group}"),
            *("-device", f"virtio-net-pci,netdev=nodes,mac={guest.mac}"),
            *("-netdev", f"user,id=host,{ssh}", "-device", "virtio-net-pci,netdev=host"),
        ]


def console(folder: Path, name: str) -> Path:
    """Returns the file of a node's console."""
    return folder / f"console.{name}"


def ready(folder: Path, name: str) -> Path:
    """Returns the socket on which a node reports that it is up."""
    return folder / f"ready.{name}"


class Nodes:
    """The qemus that start, each with the socket on which its node reports."""

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware
        self._sockets: dict[str, socket.socket] = {}
        self.processes: dict[str, ProcessId] = {}

    def start(self, guest: Guest, port: int) -> ProcessId:
        """Starts a node's qemu in a session of its own."""
        folder = self._hardware.folder
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sockets[guest.name] = server
        server.bind(str(ready(folder, guest.name)))
        server.listen(1)
        log = folder / f"qemu.{guest.name}"
        with log.open("wb") as out:
            qemu = subprocess.Popen(
                self._hardware.command(guest, port),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        process = ProcessId.of(qemu.pid)
        if process is None:
            raise CoschedError(f"{guest.name}: {_why(folder, guest.name)}")
        self.processes[guest.name] = process
        return process

    def wait(self, within_s: float, report: Callable[[str], None]) -> None:
        """Waits until each node is up; CoschedError that names one that is not."""
        deadline = time.monotonic() + within_s
        folder = self._hardware.folder
        with selectors.DefaultSelector() as selector:
            watched = []
            for name, server in self._sockets.items():
                selector.register(server, selectors.EVENT_READ, (name, "connects"))
                end = os.pidfd_open(self.processes[name].pid)
                watched.append(end)
                selector.register(end, selectors.EVENT_READ, (name, "ended"))
            try:
                self._collect(selector, deadline, report, folder)
            finally:
                for end in watched:
                    os.close(end)

    def _collect(
        self,
        selector: selectors.BaseSelector,
        deadline: float,
        report: Callable[[str], None],
        folder: Path,
    ) -> None:
        said: dict[str, str] = dict.fromkeys(self._sockets, "")
        while waiting := [name for name, text in said.items() if "\n" not in text]:
            events = selector.select(max(0.0, deadline - time.monotonic()))
            if not events:
                raise CoschedError(
                    f"{', '.join(waiting)} did not come up in time; the last lines of the "
                    f"console: {_last(console(folder, waiting[0]))}"
                )
            for key, _ in events:
                name, event = key.data
                if event == "connects":
                    selector.unregister(key.fileobj)
                    line, _address = self._sockets[name].accept()
                    self._sockets[name].close()
                    self._sockets[name] = line
                    selector.register(line, selectors.EVENT_READ, (name, "says"))
                elif event == "ended":
                    raise CoschedError(f"{name}: {_why(folder, name)}")
                elif text := os.read(key.fd, 4096).decode(errors="replace"):
                    said[name] += text.replace("\r", "")
                    if "\n" in said[name]:
                        report(f"{name} is up")
                else:
                    selector.unregister(key.fileobj)
        _require_healthy(said)

    def close(self) -> None:
        """Closes the sockets; the qemus go on."""
        for line in self._sockets.values():
            line.close()


def _require_healthy(said: Mapping[str, str]) -> None:
    for name, text in said.items():
        state = text.partition("\n")[0]
        if state != HEALTHY:
            raise CoschedError(f"{name} came up with a fault: {state}")


def _why(folder: Path, name: str) -> str:
    lines = (folder / f"qemu.{name}").read_text(errors="replace").strip().splitlines()
    if lines:
        return f"its qemu ended: {lines[-1]}"
    return f"its machine stopped: {_last(console(folder, name))}"


def _last(file: Path) -> str:
    try:
        text = file.read_text(errors="replace")
    except FileNotFoundError:
        return "none"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-SHOWN_LINES:]) or "none"
