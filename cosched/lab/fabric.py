"""Makes the fabric: a bridge in a separate namespace that joins the nodes.

Every node has ``eth0``; its other end is a port of the bridge with the node's name. The
machine's own network is not changed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from ipaddress import IPv4Network
from typing import Any

from cosched.core.errors import CoschedError
from cosched.lab.state import NodeRecord
from cosched.linux.namespaces import network_of
from cosched.linux.waiting import comes_true

BRIDGE = "fabric0"
CARRIER_WITHIN_S = 5.0
CARRIER_POLL_S = 0.005


def join_nodes(fabric_pid: int, nodes: Sequence[NodeRecord], network: IPv4Network) -> None:
    """Makes the bridge and the nodes' interfaces; returns once packets can flow."""
    # Imported here: it takes long, and most commands do not need it.
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        with _netlink(fabric_pid) as fabric:
            fabric.link("add", ifname=BRIDGE, kind="bridge")
            bridge = _index(fabric, BRIDGE)
            fabric.link("set", index=bridge, state="up")
            for node in nodes:
                _plug_in(fabric, bridge, node)
                _set_up(node, network.prefixlen)
            _wait_for_carrier(fabric, {node.name for node in nodes})
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


def _plug_in(fabric: Any, bridge: int, node: NodeRecord) -> None:
    fabric.link(
        "add",
        ifname=node.name,
        kind="veth",
        peer={"ifname": "eth0", "net_ns_pid": node.keeper.pid},
    )
    fabric.link("set", index=_index(fabric, node.name), master=bridge, state="up")


def _set_up(node: NodeRecord, prefixlen: int) -> None:
    with _netlink(node.keeper.pid) as inside:
        inside.link("set", index=_index(inside, "lo"), state="up")
        ethernet = _index(inside, "eth0")
        inside.addr("add", index=ethernet, address=node.address, prefixlen=prefixlen)
        inside.link("set", index=ethernet, state="up")


def _wait_for_carrier(fabric: Any, ports: set[str]) -> None:
    """Waits until the kernel reports each port as up; only then it forwards."""
    missing = set(ports)

    def are_up() -> bool:
        missing.difference_update(
            link.get_attr("IFLA_IFNAME")
            for link in fabric.get_links()
            if link.get_attr("IFLA_OPERSTATE") == "UP"
        )
        return not missing

    if not comes_true(are_up, CARRIER_WITHIN_S, CARRIER_POLL_S):
        raise CoschedError(
            f"the network of {', '.join(sorted(missing))} did not come up in "
            f"{CARRIER_WITHIN_S:g} s: run 'cosched lab down' and try again"
        )
