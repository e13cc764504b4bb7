"""Makes the fabric: a bridge in a separate namespace that joins the nodes.

Every node has ``eth0``; its other end is a port of the bridge with the node's name. The
machine's own network is not changed.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from cosched.core.errors import CoschedError
from cosched.linux.namespaces import network_of

BRIDGE = "fabric0"
CARRIER_WITHIN_S = 5.0
CARRIER_POLL_S = 0.005


@dataclass(frozen=True, slots=True)
class Port:
    """One node's place on the fabric."""

    name: str
    address: str
    keeper_pid: int


def join_nodes(fabric_pid: int, ports: Sequence[Port], network: IPv4Network) -> None:
    """Makes the bridge and the nodes' interfaces; returns once packets can flow."""
    # Imported here: it takes long, and most commands do not need it.
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        with _netlink(fabric_pid) as fabric:
            fabric.link("add", ifname=BRIDGE, kind="bridge")
            bridge = _index(fabric, BRIDGE)
            fabric.link("set", index=bridge, state="up")
            for port in ports:
                _plug_in(fabric, bridge, port)
                _set_up(port, network.prefixlen)
            _wait_for_carrier(fabric, {port.name for port in ports})
    except NetlinkError as error:
        code = int(error.code)
        hint = (
            ": this kernel needs the modules 'bridge' and 'veth'"
            if code in (errno.EOPNOTSUPP, errno.ENODEV)
            else ""
        )
        raise CoschedError(
            f"cannot make the lab's network: {os.strerror(code)}{hint}"
        ) from error


def _netlink(pid: int) -> Any:
    from pyroute2 import IPRoute

    with network_of(pid):
        return IPRoute()


def _index(netlink: Any, interface: str) -> int:
    return int(netlink.link_lookup(ifname=interface)[0])


def _plug_in(fabric: Any, bridge: int, port: Port) -> None:
    fabric.link(
        "add",
        ifname=port.name,
        kind="veth",
        peer={"ifname": "eth0", "net_ns_pid": port.keeper_pid},
    )
    fabric.link("set", index=_index(fabric, port.name), master=bridge, state="up")


def _set_up(port: Port, prefixlen: int) -> None:
    with _netlink(port.keeper_pid) as node:
        node.link("set", index=_index(node, "lo"), state="up")
        ethernet = _index(node, "eth0")
        node.addr("add", index=ethernet, address=port.address, prefixlen=prefixlen)
        node.link("set", index=ethernet, state="up")


def _wait_for_carrier(fabric: Any, ports: set[str]) -> None:
    """Waits until the kernel reports each port as up; only then it forwards."""
    deadline = time.monotonic() + CARRIER_WITHIN_S
    while True:
        up = {
            link.get_attr("IFLA_IFNAME")
            for link in fabric.get_links()
            if link.get_attr("IFLA_OPERSTATE") == "UP"
        }
        if ports <= up:
            return
        if time.monotonic() >= deadline:
            missing = ", ".join(sorted(ports - up))
            raise CoschedError(
                f"the network of {missing} did not come up in {CARRIER_WITHIN_S:g} s: "
                "run 'cosched lab down' and try again"
            )
        time.sleep(CARRIER_POLL_S)
