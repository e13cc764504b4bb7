"""A number of a node is given once, whatever nodes come and go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cosched.core.cluster.numbering import Numbering

NAMES = st.sampled_from(["n1", "n2", "n3", "n4"])
CHANGES = st.lists(
    st.tuples(st.sampled_from(["follow", "remove"]), st.lists(NAMES, unique=True)),
    max_size=20,
)


@given(CHANGES)
def test_no_number_is_given_twice_and_no_node_gets_another(changes):
    numbering, owners, lives = Numbering(), {}, {}
    for what, names in changes:
        before = numbering
        if what == "follow":
            numbering = before.following({name: f"{name}:1" for name in names})
        else:
            numbering = before.without(names)
            for name in names:
                lives[name] = lives.get(name, 0) + 1
        numbers = [node.number for node in numbering.nodes]
        assert numbers == sorted(set(numbers))
        for node in numbering.nodes:
            life = node.name, lives.get(node.name, 0)
            assert owners.setdefault(node.number, life) == life
        assert (numbering.version > before.version) is (numbering.nodes != before.nodes)
        assert numbering.unused >= before.unused


def test_nodes_that_the_file_lacks_stay_until_they_are_removed():
    both = Numbering().following({"n1": "a:1", "n2": "b:1"})
    after = both.following({"n2": "b:1", "n3": "c:1"})
    assert after.addresses == {"n1": "a:1", "n2": "b:1", "n3": "c:1"}
    left = after.without({"n1"})
    assert [(node.number, node.name) for node in left.nodes] == [(1, "n2"), (2, "n3")]
    assert left.following({"n1": "a:1"}).nodes[-1].number == 3


def test_new_address_is_a_change():
    before = Numbering().following({"n1": "a:1"})
    after = before.following({"n1": "b:1"})
    assert (after.version, after.addresses) == (before.version + 1, {"n1": "b:1"})
    assert after.following({"n1": "b:1"}) is after
