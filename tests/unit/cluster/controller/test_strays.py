"""Tests which nodes take no job because they have tasks that they should not have."""

from types import SimpleNamespace

import pytest

from cosched.cluster.engines.native.starts.strays import Strays


@pytest.fixture
def world():
    world = SimpleNamespace(ends=[], changes=[])
    world.strays = Strays(
        lambda to, message: world.ends.append((to, message.job, message.start)),
        lambda node: world.changes.append((node, world.strays.on(node))),
    )
    return world


def test_a_node_is_kept_away_until_its_last_stray_is_gone(world):
    world.strays.end("n1", 3, 1)
    world.strays.end("n1", 4, 1)
    assert world.ends == [("n1", 3, 1), ("n1", 4, 1)]
    assert world.changes == [("n1", True)]
    world.strays.ended("n1", 3, 1)
    world.strays.ended("n1", 9, 1)
    assert world.strays.on("n1")
    world.strays.ended("n1", 4, 1)
    assert world.changes == [("n1", True), ("n1", False)]


def test_a_node_that_joins_again_has_what_it_reports(world):
    world.strays.end("n1", 3, 1)
    world.strays.replace("n1", {(4, 2)})
    assert world.changes == [("n1", True)]  # no job starts in between
    world.strays.ended("n1", 3, 1)
    assert world.strays.on("n1")
    world.strays.replace("n1", set())
    assert not world.strays.on("n1")


def test_a_lost_node_has_none(world):
    world.strays.end("n1", 3, 1)
    world.strays.forget("n1")
    world.strays.forget("n1")
    assert world.changes == [("n1", True), ("n1", False)]
