"""Clients of the metrics server share one account: a flood waits, and ends no thread.
Silent ones keep no descriptors."""

from __future__ import annotations

import contextlib
import socket
import time
import urllib.error
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.registry import Collector

from cosched.core.errors import NoDaemon
from cosched.service import metrics_server
from cosched.service.allowance import LONG_REST
from cosched.service.metrics_server import MetricsServer
from cosched.service.tcp import listen_at


class Silent(Collector):
    """Figures of a daemon that does not answer."""

    def describe(self):
        return ()

    def collect(self):
        raise NoDaemon("node n1: no scheduler daemon is up")


@contextlib.contextmanager
def serving(*collectors):
    """Serves one figure and those of the collectors; yields the port."""
    registry = CollectorRegistry()
    Gauge("answers", "An example", registry=registry).set(7)
    for collector in collectors:
        registry.register(collector)
    listening = listen_at("127.0.0.1:0", "metrics")
    end = MetricsServer(listening, registry).start()
    try:
        yield listening.getsockname()[1]
    finally:
        end()


def ask(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        return answer.read()


def test_flood_is_paced_and_answers_go_on(monkeypatch):
    monkeypatch.setattr(metrics_server, "_BURST_NS", 10 * metrics_server._COST_NS)
    with serving() as port:
        began = time.monotonic()
        for _ in range(30):
            assert b"answers 7.0" in ask(port)
        rest_s = LONG_REST * metrics_server._COST_NS / 1e9
        assert time.monotonic() - began >= 15 * rest_s


def test_silent_clients_keep_few_descriptors_and_a_new_one_is_answered():
    with serving() as port, contextlib.ExitStack() as stack:
        address = ("127.0.0.1", port)
        silent = [
            stack.enter_context(socket.create_connection(address, 5))
            for _ in range(metrics_server.CONNECTIONS_MOST + 2)
        ]
        for each in silent[:2]:
            each.sendall(b"GET /metrics HTTP/1.1\r\n")  # and nothing more
        assert b"answers 7.0" in ask(port)
        assert [each.recv(1) for each in silent[:3]] == [b"", b"", b""]
        silent[-1].setblocking(False)
        with pytest.raises(BlockingIOError):  # it is still open
            silent[-1].recv(1)


def test_silent_client_leaves_no_line(monkeypatch, capfd):
    monkeypatch.setattr(metrics_server._Handler, "timeout", 0.1)
    with serving() as port, socket.create_connection(("127.0.0.1", port), 5) as silent:
        assert silent.recv(1) == b""
    assert capfd.readouterr().err == ""


def test_daemon_that_does_not_answer_is_one_line(capfd):
    with serving(Silent()) as port, pytest.raises(urllib.error.HTTPError) as refused:
        ask(port)
    with refused.value as answer:
        assert answer.code == 503
        assert answer.read() == b"node n1: no scheduler daemon is up\n"
    assert capfd.readouterr().err == ""
