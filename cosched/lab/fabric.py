"""Makes the fabric: a bridge in a separate namespace that joins the nodes.

Every node has ``eth0``; its other end is a port of the bridge with the node's name. A token
bucket at ``eth0`` can limit what a node sends, and so what each link carries. The machine's
own network is not changed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from ipaddress import IPv4Network
from typing import Any

from cosched.core.errors import CoschedError
from cosched.lab.state import NodeRecord
from cosched.linux.namespaces import network_of
from cosched.linux.waiting import comes_true

BRIDGE = "fabric0"
CARRIER_WITHIN_S = 5.0
CARRIER_POLL_S = 0.005

_ETHERNET = "eth0"
#: The bytes that a link of the lab sends at once, and the longest wait of a packet.
BURST_BYTES = 256 << 10
LONGEST_QUEUE_S = 0.05
#: The handle of a node's first queueing discipline, 1: in tc's notation.
_HANDLE = 0x10000


@dataclass(frozen=True, slots=True)
class Bucket:
    """A token bucket at a node's interface."""

    rate: int  #: bytes a second
    burst: int  #: the bytes that it sends at once after a pause
    limit: int  #: the bytes that wait; further ones are dropped


def bucket_of(rate: int) -> Bucket:
    """Returns the bucket of a link of the lab. rate: bits a second."""
    a_second = rate // 8
    return Bucket(a_second, BURST_BYTES, BURST_BYTES + int(a_second * LONGEST_QUEUE_S))


def join_nodes(fabric_pid: int, nodes: Sequence[NodeRecord], network: IPv4Network) -> None:
    """Makes the bridge and the nodes' interfaces; returns once packets can flow."""
    with (
        _explained("make the lab's network", "modules 'bridge' and 'veth'"),
        _netlink(fabric_pid) as fabric,
    ):
        fabric.link("add", ifname=BRIDGE, kind="bridge")
        bridge = _index(fabric, BRIDGE)
        fabric.link("set", index=bridge, state="up")
        for node in nodes:
            _plug_in(fabric, bridge, node)
            _set_up(node, network.prefixlen)
        _wait_for_carrier(fabric, {node.name for node in nodes})


def limit_links(nodes: Sequence[NodeRecord], bucket: Bucket) -> None:
    """Lets each node send only as its own bucket allows. They have none so far."""
    with _explained("limit the lab's links", "module 'sch_tbf'"):
        for node in nodes:
            with _netlink(node.keeper.pid) as inside:
                index = _index(inside, _ETHERNET)
                inside.tc("add", "tbf", index, _HANDLE, **asdict(bucket))


@contextmanager
def _explained(what: str, needed: str) -> Iterator[None]:
    """Raises CoschedError for the kernel's refusal to do ``what``."""
    # Imported here: it takes long, and most commands do not need it.
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        yield
    except NetlinkError as error:
        code = int(error.code)
        lacking = code in (errno.EOPNOTSUPP, errno.ENODEV, errno.ENOENT)
        hint = f": this kernel needs the {needed}" if lacking else ""
        raise CoschedError(f"cannot {what}: {os.strerror(code)}{hint}") from error


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
        peer={"ifname": _ETHERNET, "net_ns_pid": node.keeper.pid},
    )
    fabric.link("set", index=_index(fabric, node.name), master=bridge, state="up")


def _set_up(node: NodeRecord, prefixlen: int) -> None:
    with _netlink(node.keeper.pid) as inside:
        inside.link("set", index=_index(inside, "lo"), state="up")
        ethernet = _index(inside, _ETHERNET)
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
