"""Debian's Prometheus scrapes a live node by the configuration in docs/metrics.md, and
evaluates every expression of our dashboard and of that page."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import pytest

from cosched.core.node.settings import Settings
from cosched.node.lifetime.start import NodeOptions, start_node
from tests.live.conftest import eventually
from tests.places import ROOT
from tests.tools.ports import free_address

pytestmark = [
    pytest.mark.live,
    pytest.mark.long,
    pytest.mark.skipif(
        shutil.which("prometheus") is None, reason="Debian's prometheus is not installed"
    ),
]

DASHBOARD = json.loads((ROOT / "docs/grafana/cosched.json").read_text())
RULES = ROOT / "docs/prometheus/cosched.rules.yml"
PAGE = (ROOT / "docs/metrics.md").read_text()
#: What Grafana puts there: four scrapes, and all of a variable's values.
VARIABLES = {"$__rate_interval": "4s", "$instance": ".*", "$job": ".*"}
WITHIN_S = 60.0


def blocks(language):
    """The page's blocks in a language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def expressions():
    asked = [target["expr"] for p in DASHBOARD["panels"] for target in p["targets"]]
    for name, value in VARIABLES.items():
        asked = [expression.replace(name, value) for expression in asked]
    return asked + [line for text in blocks("promql") for line in text.splitlines()]


class Prometheus:
    """A server, and its API."""

    def __init__(self, directory, target):
        config = directory / "prometheus.yml"
        (text,) = blocks("yaml")
        assert "127.0.0.1:9434" in text
        assert "scrape_interval: 5s" in text
        text = text.replace("127.0.0.1:9434", target)
        shutil.copy(RULES, directory)
        config.write_text(text.replace("scrape_interval: 5s", "scrape_interval: 1s"))
        self.address = free_address()
        self.log = directory / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *("prometheus", f"--config.file={config}"),
                    f"--storage.tsdb.path={directory / 'data'}",
                    f"--web.listen-address={self.address}",
                ],
                stdout=log,
                stderr=log,
            )

    def ask(self, path, **query):
        """Returns the ``data`` of an answer; an error of the server fails the test."""
        url = f"http://{self.address}{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{query}: {error.read().decode()}") from None

    def is_ready(self):
        assert self.process.poll() is None, self.log.read_text()
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=30):
                return True
        except urllib.error.URLError:
            return False

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


@pytest.fixture
def prometheus(node, tmp_path):
    """It watches a node on which two jobs take turns."""
    target = free_address()
    settings = Settings().changed({"slice": "200ms", "gmet": "1ms"})
    start_node(node.paths, NodeOptions(settings, metrics=target))
    assert node.task("one").error == node.task("two").error == 0
    server = Prometheus(tmp_path, target)
    try:
        eventually(server.is_ready, "Prometheus is ready", WITHIN_S)
        yield server
    finally:
        server.end()


def test_each_dashboard_expression_has_data(prometheus):
    asked = expressions()
    assert len(asked) > 10

    def without_data():
        return [
            expression
            for expression in asked
            if not prometheus.ask("/api/v1/query", query=expression)["result"]
        ]

    try:
        eventually(lambda: not without_data(), "each expression has data", WITHIN_S)
    except AssertionError:
        assert without_data() == []
        raise


def test_rules_are_evaluated_without_error(prometheus):
    def rules():
        groups = prometheus.ask("/api/v1/rules")["groups"]
        found = [rule for group in groups for rule in group["rules"]]
        return found if all(rule["health"] != "unknown" for rule in found) else []

    found = eventually(rules, "the rules are evaluated", 2 * WITHIN_S)
    assert {rule["health"] for rule in found} == {"ok"}
    alerts = [rule for rule in found if rule["type"] == "alerting"]
    assert len(alerts) > 5
    assert not [rule["name"] for rule in alerts if rule["state"] == "firing"]


def test_no_label_is_hidden_by_prometheus(prometheus):
    ours = {"match[]": '{__name__=~"cosched_.+"}'}

    def series():
        return prometheus.ask("/api/v1/series", **ours)

    found = eventually(series, "a scrape", WITHIN_S)
    labels = {label for one in found for label in one}
    assert not {label for label in labels if label.startswith("exported_")}
    assert {one["job"] for one in found} == {"cosched"}  # the scrape's name, theirs
    asked = [
        re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["definition"]).groups()
        for variable in DASHBOARD["templating"]["list"]
        if variable["type"] == "query"
    ]
    values = {
        label: prometheus.ask(f"/api/v1/label/{label}/values", **{"match[]": metric})
        for metric, label in asked
    }
    assert values.pop("job_name") == ["one", "two"]
    assert len(values.pop("instance")) == 1
    assert not values
