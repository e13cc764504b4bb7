"""Gives each member of a domain a network of its own.

``Wires`` joins each two of them by a wire, ``Switch`` joins all of them. What is cut drops
all packets; both ends see no difference to a broken switch.
"""

import itertools
import os
import subprocess

NETWORK = "10.97.0"


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Networks:
    """Network namespaces for members, and one more for what joins them."""

    def __init__(self, members):
        self._members = list(members)
        self._mark = f"wires{os.getpid()}"
        self._fabric = f"{self._mark}-fabric"
        self.hosts = {name: f"{NETWORK}.{at}" for at, name in enumerate(self._members, 1)}
        self._made = []

    def __enter__(self):
        try:
            self._make_spaces()
            self._join()
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
        return ["nsenter", f"--net=/run/netns/{self._space(name)}", "--"]

    def _space(self, name):
        return f"{self._mark}-{name}"

    def _make_spaces(self):
        for space in (self._fabric, *map(self._space, self._members)):
            ip("netns", "add", space)
            self._made.append(space)
        for name in self._members:
            ip("-n", self._space(name), "link", "set", "lo", "up")

    def _join(self):
        """Joins the members."""
        raise NotImplementedError

    def _plug(self, bridge, port, space, end):
        """Makes a cable: ``port`` at a bridge, and ``end`` in the network of a member."""
        peer = ["peer", "name", end, "netns", space]
        ip("-n", self._fabric, "link", "add", port, "type", "veth", *peer)
        ip("-n", self._fabric, "link", "set", port, "master", bridge, "up")
        ip("-n", space, "link", "set", end, "up")

    def _set(self, device, state):
        ip("-n", self._fabric, "link", "set", device, state)


class Wires(Networks):
    """A wire, which is a bridge, for each two members."""

    def cut(self, one, other):
        """Cuts a wire."""
        self._set(self._bridge(one, other), "down")

    def mend(self, one, other):
        """Mends a wire."""
        self._set(self._bridge(one, other), "up")

    def _bridge(self, *names):
        return "wire" + "-".join(str(at) for at in sorted(map(self._members.index, names)))

    def _join(self):
        for name, host in self.hosts.items():
            ip("-n", self._space(name), "addr", "add", f"{host}/32", "dev", "lo")
        for pair in itertools.combinations(self._members, 2):
            bridge = self._bridge(*pair)
            ip("-n", self._fabric, "link", "add", bridge, "type", "bridge")
            for name, other in (pair, pair[::-1]):
                self._lay(bridge, name, other)
            self.mend(*pair)

    def _lay(self, bridge, name, other):
        at, to = self._members.index(name), self._members.index(other)
        space = self._space(name)
        self._plug(bridge, f"p{at}-{to}", space, f"to{to}")
        route = [f"{self.hosts[other]}/32", "dev", f"to{to}", "src", self.hosts[name]]
        ip("-n", space, "route", "add", *route)


class Switch(Networks):
    """A switch, which is a bridge, with a cable to each member."""

    def cut(self, name):
        """Cuts a member off."""
        self._set(self._port(name), "down")

    def mend(self, name):
        """Ends that."""
        self._set(self._port(name), "up")

    def _port(self, name):
        return f"p{self._members.index(name)}"

    def _join(self):
        ip("-n", self._fabric, "link", "add", "switch", "type", "bridge")
        self._set("switch", "up")
        for name, host in self.hosts.items():
            space = self._space(name)
            self._plug("switch", self._port(name), space, "eth0")
            ip("-n", space, "addr", "add", f"{host}/24", "dev", "eth0")
