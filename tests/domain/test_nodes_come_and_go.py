"""Nodes come into a domain that is up, and leave it. Jobs run on."""

import json
import os
from dataclasses import replace

import pytest

from cosched.core.errors import CoschedError
from cosched.core.names import CONTROLLER
from tests.domain.user import User, as_user
from tests.tools.ports import free_ports


@pytest.fixture
def user(make_rig):
    rig = make_rig(2)
    rig.start()
    rig.until_up()
    return User(rig)


def add(user, name):
    """Adds a node, and starts its agent; returns what the command prints."""
    address = f"127.0.0.1:{free_ports(1)}"
    status, out, err = user.run("cluster", "add", f"{name}={address}")
    assert (status, err) == (0, ""), err
    rig = user.rig
    rig.config = replace(rig.config, nodes={**rig.config.nodes, name: address})
    rig.start(name)
    rig.until_up(name)
    return out


def nodes(rig):
    with rig.client() as client:
        return {node["node"]: node["state"] for node in client.nodes()}


def until_gone(rig, name):
    rig.until(lambda: name not in nodes(rig), f"{name} is not gone")


def begin(rig, **more):
    """Submits a job that runs until ``end``; returns its number once it runs."""
    script = "while ! test -e end.$COSCHED_DOMAIN_JOB; do sleep 0.05; done # comes"
    number = rig.shell(script, **more)
    rig.until_state(number, "running")
    return number


def end(rig, number):
    (rig.work / f"end.{number}").touch()
    return rig.wait(number)


def test_job_runs_through_an_addition_and_later_ones_start_on_the_new_node(user):
    rig = user.rig
    number = begin(rig, nodes=2)
    with pytest.raises(CoschedError, match="needs 3 nodes, the domain has 2"):
        rig.shell("true", nodes=3, ppn=1)
    text = rig.paths.config.read_text()
    rig.paths.config.write_text(f"# ours\n{text}")
    out = add(user, "n3")
    assert out.splitlines()[:2] == [
        "n3: in the domain now; start the agents.",
        f"Each node NAME needs, in {rig.paths.directory}:",
    ]
    assert "cosched-agent --run-dir" in out
    assert rig.paths.config.read_text().startswith("# ours\n")
    later = begin(rig, nodes=1)
    with rig.client() as client:
        assert client.job(later)["hosts"] == ["n3"]
    assert end(rig, later)["state"] == "done"
    assert end(rig, number)["state"] == "done"
    three = rig.wait(rig.shell("true", nodes=3, ppn=1))
    assert (three["state"], three["hosts"]) == ("done", ["n1", "n2", "n3"])
    assert all(process.poll() is None for process in rig.members.values())


def test_idle_node_is_removed_and_its_agent_ends_well(user):
    rig = user.rig
    assert user.run("cluster", "remove", "n2", "--wait") == (0, "removed n2\n", "")
    assert rig.members["n2"].wait(20) == 0
    assert rig.log("n2").splitlines()[-1].endswith("its node was removed")
    assert nodes(rig) == {"n1": "up"}
    assert "n2" not in rig.paths.config.read_text()
    assert rig.wait(rig.shell("true"))["state"] == "done"
    # The same name again is another node; it gets the next number.
    rig.config = replace(rig.config, nodes={"n1": rig.config.nodes["n1"]})
    add(user, "n2")
    assert rig.wait(rig.shell("true", nodes=2, ppn=1))["state"] == "done"
    stored = json.loads(rig.paths.numbering.read_text())["nodes"]
    assert [(each["number"], each["name"]) for each in stored] == [(0, "n1"), (2, "n2")]


def test_busy_node_leaves_after_its_jobs(user):
    rig = user.rig
    number = begin(rig, nodes=2)
    line = f"n2: to be removed after job {number}\n"
    assert user.run("cluster", "remove", "n2") == (0, line, "")
    assert nodes(rig) == {"n1": "up", "n2": "leaving"}
    waiting = rig.shell("true", nodes=1)
    with pytest.raises(CoschedError, match="needs 2 nodes, the domain has 1"):
        rig.shell("true", nodes=2, ppn=1)
    status, _, err = user.run("cluster", "undrain", "n2")
    assert (status, err) == (1, "cosched: node n2: is leaving the domain\n")
    assert end(rig, number)["state"] == "done"
    assert rig.members["n2"].wait(20) == 0
    until_gone(rig, "n2")
    assert rig.wait(waiting)["hosts"] == ["n1"]


def test_node_is_removed_at_once_with_its_jobs(user):
    rig = user.rig
    number = begin(rig, nodes=2)
    assert user.run("cluster", "remove", "n2", "--now", "--wait")[0] == 0
    job = rig.wait(number)
    assert (job["state"], job["reason"]) == ("node lost", "node n2 was removed")
    assert rig.members["n2"].wait(20) == 0
    assert not rig.strays("# comes")
    assert nodes(rig) == {"n1": "up"}


def test_controller_that_is_killed_in_the_middle_goes_on(user):
    rig = user.rig
    add(user, "n3")
    number = begin(rig, nodes=3)
    with rig.client() as client:
        assert client.remove(["n2"]) == [number]
    rig.kill(CONTROLLER)
    rig.start(CONTROLLER)
    rig.until(lambda: nodes(rig).get("n2") == "leaving", "n2 does not leave")
    assert rig.state(number) == "running"
    add(user, "n4")
    assert end(rig, number)["state"] == "done"
    until_gone(rig, "n2")
    assert rig.members["n2"].wait(20) == 0
    job = rig.wait(rig.shell("true", nodes=3, ppn=1))
    assert (job["state"], job["hosts"]) == ("done", ["n1", "n3", "n4"])


def test_agents_and_controller_that_restart_have_the_same_nodes(user):
    rig = user.rig
    add(user, "n3")
    user.run("cluster", "remove", "n1", "--wait")
    for name in ("n2", CONTROLLER, "n3"):
        rig.kill(name)
        rig.start(name)
    rig.until_up("n2", "n3")
    job = rig.wait(rig.shell("true", nodes=2, ppn=1, by="n3"))
    assert (job["state"], job["hosts"]) == ("done", ["n2", "n3"])


def test_edited_file_does_the_same(user):
    rig = user.rig
    number = begin(rig, nodes=2)
    address = f"127.0.0.1:{free_ports(1)}"
    wanted = {"n3": address, "n1": rig.config.nodes["n1"]}
    rig.write_config(replace(rig.config, nodes=wanted))
    status, out, err = user.run("cluster", "reload")
    assert (status, out) == (1, "")
    assert "n3.public: No such file or directory; make keys with" in err
    assert user.run("cluster", "keygen")[0] == 0
    assert user.run("cluster", "reload") == (0, "changed: nodes\n", "")
    rig.config = replace(rig.config, nodes=wanted)
    rig.start("n3")
    rig.until_up("n3")
    assert end(rig, number)["state"] == "done"
    until_gone(rig, "n2")
    assert rig.wait(rig.shell("true", nodes=2, ppn=1))["hosts"] == ["n1", "n3"]


def test_wrong_changes_change_nothing(user):
    rig = user.rig
    text = rig.paths.config.read_text()
    first = rig.config.nodes["n1"]
    for words, problem in (
        (("add", "n1=127.0.0.1:9"), "node n1: is in this domain already"),
        (("add", f"n3={first}"), f"n3: {first} is the address of node n1"),
        (("add", "n3=127.0.0.1:9", "n4=127.0.0.1:9"), "is the address of node n3"),
        (("add", "controller=127.0.0.1:9"), "cannot be the name of a node"),
        (("add", "n3=here"), "node n3: "),
        (("remove", "n9"), "node n9: is not in this domain"),
        (("remove", "n1", "n2"), "is the last one; to end the domain: cosched cluster"),
    ):
        status, out, err = user.run("cluster", *words)
        assert (status, out, len(err.splitlines())) == (1, "", 1), words
        assert problem in err, err
    for words in (("add",), ("add", "n3"), ("add", "n3=a:1", "n3=a:2")):
        assert user.run("cluster", *words)[0] == 2
    assert rig.paths.config.read_text() == text
    assert nodes(rig) == {"n1": "up", "n2": "up"}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_only_the_operator_changes_nodes(open_folder, make_rig):
    rig = make_rig(2, folder=open_folder)
    rig.start()
    rig.until_up()

    def attempt(change):
        with rig.client() as client:
            try:
                return change(client)
            except CoschedError as error:
                return str(error)

    for change in (
        lambda client: client.add({"n3": "127.0.0.1:9"}),
        lambda client: client.remove(["n2"]),
    ):
        found = as_user(65534, lambda change=change: attempt(change))
        assert found == "only root, or the user of the controller, may do this"
