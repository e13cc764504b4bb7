"""Chooses free ports for a test. Tests that run at the same time have different ones: a
member that a test has killed leaves its port free until it is started again."""

import itertools
import os
import secrets

from cosched.linux import ports

#: The most processes that run tests at the same time.
WORKERS = 16


def _places():
    """Yields the ports of this process one after the other, beginning anywhere."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
    usual = ports.usual_ports()
    width = len(usual) // WORKERS
    own = usual[worker * width : (worker + 1) * width]
    begin = secrets.randbelow(width)
    return itertools.cycle((*own[begin:], *own[:begin]))


_PLACES = _places()


def free_ports(count):
    """Returns the first of ``count`` free ports in a row."""
    while True:
        row = [next(_PLACES) for _ in range(count)]
        if row[-1] - row[0] == count - 1 and ports.are_free(row):
            return row[0]


def free_address():
    """Returns ``HOST:PORT`` of a free port on the loopback."""
    return f"127.0.0.1:{free_ports(1)}"
