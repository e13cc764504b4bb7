"""Gives each member of a domain a network of its own, and each two of them a wire.

A wire that is cut drops all packets; both ends see no difference to a broken switch.
"""

import itertools
import os
import subprocess

NETWORK = "10.97.0"


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Wires:
    """Network namespaces for members, joined by a bridge for each two of them."""

    def __init__(self, members):
        self._members = list(members)
        self._mark = f"wires{os.getpid()}"
        self._fabric = f"{self._mark}-fabric"
        self.hosts = {name: f"{NETWORK}.{at}" for at, name in enumerate(self._members, 1)}
        self._made = []

    def __enter__(self):
        try:
            self._make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for space in self._made:
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)
        self._made.clear()

    def within(self, name):
        """Returns the words that run a command in the network of a member."""
        return ["ip", "netns", "exec", self._space(name)]

    def cut(self, one, other):
        """Cuts a wire."""
        ip("-n", self._fabric, "link", "set", self._bridge(one, other), "down")

    def mend(self, one, other):
        """Mends a wire."""
        ip("-n", self._fabric, "link", "set", self._bridge(one, other), "up")

    def _space(self, name):
        return f"{self._mark}-{name}"

    def _bridge(self, *names):
        return "wire" + "-".join(str(at) for at in sorted(map(self._members.index, names)))

    def _make(self):
        for space in (self._fabric, *map(self._space, self._members)):
            ip("netns", "add", space)
            self._made.append(space)
        for name, host in self.hosts.items():
            ip("-n", self._space(name), "link", "set", "lo", "up")
            ip("-n", self._space(name), "addr", "add", f"{host}/32", "dev", "lo")
        for pair in itertools.combinations(self._members, 2):
            bridge = self._bridge(*pair)
            ip("-n", self._fabric, "link", "add", bridge, "type", "bridge")
            for name, other in (pair, pair[::-1]):
                self._plug(bridge, name, other)
            self.mend(*pair)

    def _plug(self, bridge, name, other):
        at, to = self._members.index(name), self._members.index(other)
        space, port = self._space(name), f"p{at}-{to}"
        peer = ["peer", "name", f"to{to}", "netns", space]
        ip("-n", self._fabric, "link", "add", port, "type", "veth", *peer)
        ip("-n", self._fabric, "link", "set", port, "master", bridge, "up")
        ip("-n", space, "link", "set", f"to{to}", "up")
        route = [f"{self.hosts[other]}/32", "dev", f"to{to}", "src", self.hosts[name]]
        ip("-n", space, "route", "add", *route)
