"""Plans a lab of virtual machines: names, addresses, kernel options. Pure.

The nodes share a network of their own. A second interface of each reaches nothing: the
host's ssh comes in by it, through a port of the loopback address.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from cosched.core.errors import CoschedError
from scripts.vmlab.release import DEFAULT, release_of

NETWORK = IPv4Network("10.78.0.0/24")
#: The address of a node's second interface, where qemu passes on the host's ssh.
INSIDE = "10.0.2.15"
MOST_NODES = 32
LEAST_MIB = 512
#: Memory of qemu itself, beside that of its node.
OVERHEAD_MIB = 150

#: On a host with other work udev takes longer than the usual 90 s to find a disk. The
#: older systemd of Debian 12 does not know the last two options, and ignores them.
KERNEL_OPTIONS = (
    "root=/dev/vda rw console=ttyS0 quiet net.ifnames=0 systemd.show_status=0 "
    "mitigations=off nowatchdog tsc=reliable random.trust_cpu=on fsck.mode=skip "
    "systemd.default_device_timeout_sec=900 systemd.ssh_auto=no"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """Describes the size of a lab."""

    nodes: int = 3  #: number of nodes
    cpus: int = 1  #: CPUs of each node
    memory_mib: int = 1024  #: memory of each node, in MiB
    release: str = DEFAULT  #: name of the nodes' Debian

    def check(self, available_mib: int) -> None:
        """CoschedError unless the lab fits into the host's free memory."""
        release_of(self.release)
        if not 1 <= self.nodes <= MOST_NODES:
            raise CoschedError(f"{self.nodes} nodes: a lab has 1 to {MOST_NODES}")
        if self.cpus < 1:
            raise CoschedError(f"{self.cpus} CPUs a node: give each at least 1")
        if self.memory_mib < LEAST_MIB:
            raise CoschedError(
                f"{self.memory_mib} MiB a node: Debian needs at least {LEAST_MIB}"
            )
        needed = self.nodes * (self.memory_mib + OVERHEAD_MIB)
        if needed > available_mib:
            raise CoschedError(
                f"{self.nodes} nodes of {self.memory_mib} MiB need {needed} MiB, and "
                f"{available_mib} MiB are free: ask for fewer --nodes or less --memory"
            )


@dataclass(frozen=True, slots=True)
class Guest:
    """Describes a node before it runs."""

    name: str  #: name of the node, such as ``n1``
    address: str  #: in the network of the nodes
    mac: str  #: address of its network card

    @property
    def kernel_options(self) -> str:
        """The kernel's command line."""
        return f"{KERNEL_OPTIONS} systemd.hostname={self.name}"


def plan_guests(nodes: int) -> tuple[Guest, ...]:
    """Returns the nodes n1, n2, ..."""
    return tuple(
        Guest(f"n{i}", str(NETWORK[i]), f"52:54:00:78:00:{i:02x}")
        for i in range(1, nodes + 1)
    )


def hosts_file(guests: tuple[Guest, ...]) -> str:
    """Returns the /etc/hosts of each node."""
    lines = "".join(f"{guest.address}\t{guest.name}\n" for guest in guests)
    return f"127.0.0.1\tlocalhost\n{lines}"


def network_group(folder: Path) -> str:
    """Returns the multicast address and port that join the nodes of the lab in a folder.

    Two labs of a machine have different ones.
    """
    number = zlib.crc32(str(folder).encode())
    address = f"239.78.{number >> 8 & 0xFF}.{number & 0xFF}"
    return f"{address}:{20000 + (number >> 16) % 10000}"
