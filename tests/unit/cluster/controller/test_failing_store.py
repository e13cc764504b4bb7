"""A request whose effect cannot be stored changes nothing, and can be repeated."""

import asyncio
import json

import pytest

from cosched.cluster.engines.native.jobs import Jobs
from cosched.cluster.engines.native.node_entries import NodeEntries
from cosched.cluster.store import JobStore
from cosched.cluster.user_socket import Person
from cosched.config.domain import DomainConfig
from cosched.core.errors import CoschedError
from tests.unit.cluster.controller.controller_alone import requests_about

JOB = {"token": "t", "name": "a", "argv": ["/bin/true"], "environ": {}, "cwd": "/"}
FULL = "jobs.sqlite: database or disk is full"


class Desk:
    """Sends a user's requests to a controller whose store may be full."""

    def __init__(self, store):
        config = DomainConfig("test", "127.0.0.1:1", {"n1": "127.0.0.1:2"}, 4)
        members = NodeEntries(config)
        self.jobs = Jobs(config, store, members, lambda *_: None, lambda _: None)
        self.requests = requests_about(config, self.jobs, store, members)

    def ask(self, **request):
        body = json.dumps(request).encode()
        answer = self.requests.answer(Person(7, 7), body)
        return json.loads(asyncio.run(answer))

    def state(self):
        """Returns what the user sees of job 1, and whether it is in the queue."""
        return self.ask(do="job", job=1), 1 in self.jobs.queue


@pytest.fixture
def store(tmp_path):
    store = JobStore(tmp_path / "jobs.sqlite", ["n1"])
    yield store
    store.close()


@pytest.mark.parametrize(
    ("held", "what", "after"),
    [
        (False, "hold", "held"),
        (False, "cancel", "cancelled"),
        (True, "unhold", "queued"),
        (True, "cancel", "cancelled"),
    ],
)
def test_full_disk_changes_nothing(store, monkeypatch, held, what, after):
    desk = Desk(store)
    assert desk.ask(do="submit", job={**JOB, "held": held}) == {"ok": {"job": 1}}
    before = desk.state()

    def fail(record):
        raise CoschedError(FULL)

    with monkeypatch.context() as patch:
        patch.setattr(store, "save", fail)
        patch.setattr(store, "save_all", fail)
        assert desk.ask(do=what, job=1) == {"error": FULL}
        assert desk.state() == before
    assert desk.ask(do=what, job=1) == {"ok": {"job": 1}}
    found, waits = desk.state()
    assert (found["ok"]["state"], waits) == (after, after == "queued")
    assert store.find(1).state.value == after
