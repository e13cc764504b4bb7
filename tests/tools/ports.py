"""Chooses free ports for a test. Tests that run at the same time have different ones: a
member that a test has killed leaves its port free until it is started again."""

import itertools
import secrets
import socket

from cosched.linux import ports

#: The most processes that run tests at the same time, those of all sessions together.
PROCESSES = 64


def _claim():
    """Returns the number of this process, and a socket whose name keeps it for us."""
    for number in range(PROCESSES):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0cosched-tests-ports-{number}")
        except OSError:
            claim.close()
        else:
            return number, claim
    raise RuntimeError(f"more than {PROCESSES} processes run tests that need ports")


def _places():
    """Yields the ports of this process one after the other, beginning anywhere."""
    number, claim = _claim()
    usual = ports.usual_ports()
    width = len(usual) // PROCESSES
    own = usual[number * width : (number + 1) * width]
    begin = secrets.randbelow(width)
    with claim:
        yield from itertools.cycle((*own[begin:], *own[:begin]))


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
