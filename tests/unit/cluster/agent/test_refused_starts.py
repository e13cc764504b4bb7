"""An agent or a controller that cannot start ends with one line about what to do."""

import asyncio
import os
import tempfile
from argparse import Namespace
from pathlib import Path

import pytest
from cosched_daemons import controller

from cosched.cluster.agent.agent import serve
from cosched.cluster.agent.steps import NoStepNotes
from cosched.cluster.paths import DomainPaths
from cosched.cluster.up.domain import write_domain
from cosched.cluster.user_socket import UserSocket
from cosched.config.domain import DomainConfig
from cosched.core.errors import CoschedError

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two users")


@pytest.fixture
def paths():
    """A domain in a folder that all users may read, as /run/cosched."""
    with tempfile.TemporaryDirectory(prefix="cosched-t-") as name:
        Path(name).chmod(0o755)
        paths = DomainPaths(Path(name))
        nodes = {"n1": "127.0.0.1:2", "n2": "127.0.0.1:3"}
        write_domain(paths, DomainConfig("d", "127.0.0.1:1", nodes))
        yield paths


def refusal(paths, node="n1", uid=None):
    """Returns the line with which an agent ends."""
    return line_of(lambda: serve(paths.run_dir, node, NoStepNotes()), uid)


def line_of(start, uid=None):
    own = os.geteuid()
    os.seteuid(own if uid is None else uid)
    try:
        with pytest.raises(CoschedError) as raised:
            start()
    finally:
        os.seteuid(own)
    line = str(raised.value)
    assert "\n" not in line
    return line


def test_agent_of_an_unknown_node(paths):
    assert refusal(paths, "n3") == (
        f"{paths.config}: node 'n3' is none of n1, n2; name one with --node, or add it: "
        "cosched cluster add n3=HOST:PORT"
    )


def test_agent_without_a_domain_file(paths):
    paths.config.unlink()
    assert refusal(paths) == (
        f"{paths.config}: is missing; start a domain with: cosched cluster up, or copy the "
        "file from the controller's machine"
    )


@pytest.mark.parametrize("name", ["n1.secret", "n1.public", "controller.public"])
def test_agent_without_a_key(paths, name):
    (paths.keys / name).unlink()
    assert refusal(paths) == (
        f"{paths.keys / name}: No such file or directory; make keys with: cosched cluster "
        "keygen, or copy the file from where it made them"
    )


def test_agent_with_the_key_of_another_node(paths):
    (paths.keys / "n1.secret").write_bytes((paths.keys / "n2.secret").read_bytes())
    assert refusal(paths) == (
        f"{paths.keys / 'n1.secret'}: does not belong to n1.public; copy both from where "
        "they were made together"
    )


@needs_root
def test_agent_of_an_ordinary_user_in_a_domain_of_root(paths):
    assert refusal(paths, uid=NOBODY) == (
        f"{paths.keys / 'n1.secret'}: Permission denied; start this as root, who may read "
        "it"
    )


@needs_root
def test_agent_whose_node_has_a_folder_that_cannot_be_made(paths):
    for place in (paths.keys, *paths.keys.iterdir()):
        os.chown(place, NOBODY, NOBODY)
    assert refusal(paths, uid=NOBODY) == (
        f"{paths.node('n1')}: cannot be made: Permission denied; start the agent as root, "
        f"the owner of {paths.run_dir}"
    )


@needs_root
def test_members_of_an_ordinary_user_in_a_closed_folder(paths):
    paths.run_dir.chmod(0o700)
    assert refusal(paths, uid=NOBODY) == (
        f"{paths.directory}: Permission denied; use another --run-dir"
    )
    options = Namespace(run_dir=paths.run_dir, idle=None, ending=False, companion=None)
    assert line_of(lambda: controller.serve(options, {}), NOBODY) == (
        f"{paths.config}: cannot be read: Permission denied"
    )


def test_socket_whose_path_is_too_long(tmp_path):
    place = tmp_path / ("d" * 100) / "agent.sock"
    place.parent.mkdir()
    users = UserSocket(place, lambda _person: None, print)
    assert line_of(lambda: asyncio.run(users.open())) == (
        f"{place}: cannot listen there: AF_UNIX path too long; use another --run-dir"
    )
