"""Connections of other users do not keep the dashboard from its user."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys

import pytest

from cosched.dashboard.server import CONNECTIONS_MOST, LOOPBACK, listen, serve
from cosched.linux.peers import uid_of_peer

NOBODY = 65534
#: Holds more connections than the dashboard takes, until its standard input ends.
HOLD = """
import os, socket, sys
os.setuid(int(sys.argv[1]))
kept = [socket.socket() for _ in range(40)]
for one in kept:
    one.connect((b"127.0.0.1", int(sys.argv[2])))  # as bytes: it needs no encoding
    one.send(b"GET / HT")
print("held", flush=True)
sys.stdin.read()
"""


def answer(environ, start_response):
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_the_user_of_a_connection_is_found(family):
    with socket.create_server((LOOPBACK, 0)) as listening:
        here = listening.getsockname()
        with socket.socket(family) as client:
            mapped = f"::ffff:{LOOPBACK}"
            client.connect((LOOPBACK if family is socket.AF_INET else mapped, here[1]))
            connection, peer = listening.accept()
            with connection:
                assert uid_of_peer(peer, here) == os.geteuid()
        assert uid_of_peer((LOOPBACK, 1), here) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="root becomes another user")
def test_other_users_hold_no_connection():
    assert CONNECTIONS_MOST < 40
    listening = listen(0)
    port = listening.getsockname()[1]
    serve(listening, answer)
    command = [sys.executable, "-c", HOLD, str(NOBODY), str(port)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as others:
        assert others.stdout.readline() == b"held\n"
        client = http.client.HTTPConnection(LOOPBACK, port, timeout=5)
        client.request("GET", "/")
        assert client.getresponse().read() == b"ok"
        client.close()
        others.stdin.close()
