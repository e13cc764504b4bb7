"""Clients of the metrics server share one account: a flood waits, and ends no thread."""

from __future__ import annotations

import time
import urllib.request

from prometheus_client import CollectorRegistry, Gauge

from cosched.service import metrics_server
from cosched.service.allowance import LONG_REST
from cosched.service.metrics_server import MetricsServer
from cosched.service.tcp import listen_at


def test_flood_is_paced_and_answers_go_on(monkeypatch):
    monkeypatch.setattr(metrics_server, "_BURST_NS", 10 * metrics_server._COST_NS)
    registry = CollectorRegistry()
    Gauge("answers", "An example", registry=registry).set(7)
    listening = listen_at("127.0.0.1:0", "metrics")
    port = listening.getsockname()[1]
    end = MetricsServer(listening, registry).start()
    try:
        began = time.monotonic()
        for _ in range(30):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                assert b"answers 7.0" in answer.read()
        rest_s = LONG_REST * metrics_server._COST_NS / 1e9
        assert time.monotonic() - began >= 15 * rest_s
    finally:
        end()
