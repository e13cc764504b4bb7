"""An agent vouches for root and for users of the system only where the configuration
allows it."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.cluster.engines.native.jobs import Jobs
from cosched.cluster.engines.native.node_entries import NodeEntries
from cosched.cluster.store import JobStore
from cosched.cluster.user_socket import Person
from cosched.config.domain import DomainConfig, SecuritySettings, parse_config
from cosched.core.errors import CoschedError
from cosched.core.names import CONTROLLER
from tests.unit.cluster.controller.controller_alone import requests_about

NODES = {"n1": "10.0.0.1:2", "n2": "10.0.0.2:2", "n3": "10.0.0.3:2"}
CONFIG = DomainConfig(
    "test", "10.0.0.1:1", NODES, 4, security=SecuritySettings(root_from=("n3",))
)
JOB = {"token": "t", "name": "a", "argv": ["/bin/true"], "environ": {}, "cwd": "/"}
REFUSED = "root's requests from node n2 are refused"


@pytest.mark.parametrize(
    ("member", "allowed"),
    [(CONTROLLER, True), ("n1", True), ("n2", False), ("n3", True)],
    ids=["kernel", "same host", "another host", "named"],
)
def test_member_may_vouch_for_root_and_its_group(member, allowed):
    assert CONFIG.may_vouch(member, 0, 0) is allowed
    assert CONFIG.may_vouch(member, 1000, 0) is allowed
    assert CONFIG.may_vouch(member, 0, 1000) is allowed
    assert CONFIG.may_vouch(member, 1000, 1000)


@given(st.sampled_from([CONTROLLER, *NODES]), st.integers(0, 2**32 - 2))
def test_member_may_vouch_for_users_from_the_least_on(member, uid):
    allowed = member in (CONTROLLER, "n1", "n3") or uid >= CONFIG.security.least_uid
    assert CONFIG.may_vouch(member, uid, 1000) is allowed


@pytest.fixture
def ask(tmp_path):
    store = JobStore(tmp_path / "jobs.sqlite", CONFIG.node_names)
    members = NodeEntries(CONFIG)
    for member in members.by_number:
        member.slots = 4
    jobs = Jobs(CONFIG, store, members, lambda *_: None, lambda _: None)
    requests = requests_about(CONFIG, jobs, store, members)

    def answer(person, **request):
        body = json.dumps(request).encode()
        return json.loads(asyncio.run(requests.answer(person, body)))

    yield answer
    store.close()


def test_root_of_another_node_may_read_and_change_nothing(ask):
    user = Person(1000, 1000, "n2")
    assert ask(user, do="submit", job=JOB) == {"ok": {"job": 1}}
    root = Person(0, 0, "n2")
    assert [job["job"] for job in ask(root, do="queue")["ok"]] == [1]
    for request in (
        {"do": "submit", "job": {**JOB, "token": "r"}},
        {"do": "cancel", "job": 1},
        {"do": "hold", "job": 1},
        {"do": "unhold", "job": 1},
        {"do": "drain", "names": ["n1"]},
        {"do": "undrain", "names": ["n1"]},
        {"do": "reload"},
        {"do": "down"},
    ):
        assert ask(root, **request)["error"].startswith(REFUSED), request
    assert ask(user, do="job", job=1)["ok"]["state"] == "queued"


def test_users_read_all_jobs_and_change_their_own(ask):
    secret = {**JOB, "environ": {"WORD": "of the user"}}
    ask(Person(1000, 1000, "n2"), do="submit", job=secret)
    other = Person(1001, 1001, "n2")
    (seen,) = ask(other, do="queue")["ok"]
    assert (seen["uid"], seen["command"]) == (1000, ["/bin/true"])
    assert "of the user" not in json.dumps([seen, ask(other, do="job", job=1)])
    for what in ("cancel", "hold", "unhold"):
        assert ask(other, do=what, job=1) == {"error": "job 1: belongs to another user"}


def test_user_of_the_system_may_read_and_changes_nothing(ask):
    service = Person(999, 1000, "n2")
    error = ask(service, do="submit", job=JOB)["error"]
    assert error.startswith("requests of user 999 from node n2 are refused: ")
    assert error.endswith("or lower security.least_uid in domain.toml")
    assert ask(service, do="queue") == {"ok": []}
    assert ask(Person(999, 1000, "n1"), do="submit", job=JOB) == {"ok": {"job": 1}}


@pytest.mark.parametrize("member", [CONTROLLER, "n1", "n3"])
def test_root_submits_where_its_node_may_vouch(ask, member):
    assert ask(Person(0, 0, member), do="submit", job=JOB) == {"ok": {"job": 1}}
    assert ask(Person(0, 0, member), do="cancel", job=1) == {"ok": {"job": 1}}


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("root_from", "n1", "security.root_from: 'n1' is not a list of texts"),
        ("root_from", ["n9"], "security.root_from: 'n9' is not in \\[nodes\\]"),
        ("least_uid", 0, "security.least_uid: 0 is not a whole number of 1 or more"),
        ("least_uid", "bin", "security.least_uid: 'bin' is not a whole number"),
    ],
)
def test_mistake_in_the_setting_is_named(name, value, problem):
    document = {"controller": "a:1", "nodes": NODES, "security": {name: value}}
    with pytest.raises(CoschedError, match=problem):
        parse_config(document)
