"""A job object that the controller did not seal for a node's start is refused."""

from dataclasses import replace

import msgspec
import pytest

from cosched.cluster.agent.proofs import Proofs
from cosched.cluster.agent.route import Route
from cosched.core.cluster.startup.seal import Tied, seal, unseal
from cosched.core.cluster.startup.tree import Tree
from cosched.core.errors import CoschedError

TIED = Tied(7, 1, ((0, 2),), 2, "siblings")
SECRETS = [bytes([number]) * 32 for number in (1, 2, 3)]
SEALED = seal(b"object", TIED, SECRETS)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_each_node_gets_the_object(place):
    assert unseal(SEALED, TIED, place, [SECRETS[place]]) == b"object"


@pytest.mark.parametrize(
    "tied",
    [
        replace(TIED, job=8),
        replace(TIED, start=2),
        replace(TIED, nodes=((0, 1), (3, 3))),
        replace(TIED, arity=3),
        replace(TIED, exchange="through-root"),
    ],
)
def test_object_of_another_start_is_refused(tied):
    with pytest.raises(CoschedError, match="not the one that the controller sent"):
        unseal(SEALED, tied, 1, [SECRETS[1]])


def test_changed_objects_and_foreign_proofs_are_refused():
    data, proofs = msgspec.msgpack.decode(SEALED)
    for forged in (
        msgspec.msgpack.encode([b"evil", proofs]),
        msgspec.msgpack.encode([data, b""]),
        msgspec.msgpack.encode([data, proofs[16:] + proofs[:16]]),
        seal(b"evil", TIED, [SECRETS[0]] * 3),
        SEALED[:-1],
        b"\xc1",
    ):
        with pytest.raises(CoschedError):
            unseal(forged, TIED, 1, [SECRETS[1]])


def test_nothing_is_proved_without_a_secret():
    with pytest.raises(CoschedError, match="needs a secret"):
        seal(b"object", TIED, [b""] * 3)
    with pytest.raises(CoschedError, match="needs a secret"):
        unseal(SEALED, TIED, 0, [b""])


HOSTS = ("n1", "n2", "n3")
ROUTE = Route(7, 1, 1, TIED.nodes, HOSTS, Tree(3, 2), TIED.exchange, 0, HOSTS[0])


def test_start_that_comes_again_is_refused():
    proofs = Proofs()
    proofs.renew(SECRETS[1])
    assert proofs.open(ROUTE, SEALED) == b"object"
    with pytest.raises(CoschedError, match="was here before"):
        proofs.open(ROUTE, SEALED)


def test_start_of_the_controllers_earlier_life_is_accepted_and_none_of_before():
    proofs = Proofs()
    with pytest.raises(CoschedError, match="not the one that the controller sent"):
        proofs.open(ROUTE, SEALED)
    proofs.renew(SECRETS[1])
    proofs.renew(SECRETS[0])
    assert proofs.joined
    assert proofs.open(ROUTE, SEALED) == b"object"
    for _ in range(2):
        proofs.renew(SECRETS[2])
    with pytest.raises(CoschedError, match="not the one that the controller sent"):
        proofs.open(ROUTE, seal(b"object", TIED, SECRETS))
