"""Nodes that are lost, several at a time or in a bad moment, and return."""

import asyncio

import pytest

from cosched.core.names import CONTROLLER
from tests.unit.cluster.cuts import stewards
from tests.unit.cluster.cuts.domain import LOST_S, NODES, User, keys
from tests.unit.cluster.cuts.test_cuts import job, nothing_happens, run_story

__all__ = ["keys"]


class Endless:
    """A job on some nodes that does not end by itself. ``then`` happens while it runs."""

    def __init__(self, domain, nodes, then):
        self.domain, self.nodes, self.then = domain, nodes, then
        domain.network.watch = nothing_happens
        self.answers = {}

    async def run(self):
        domain = self.domain
        for name in (CONTROLLER, *NODES):
            domain.start(name)
        await domain.until_at_rest()
        user = User(domain, "n3")
        argv = [stewards.ENDLESS]
        await user.insist("submit", job=job("t1", nodes=self.nodes, ppn=1, argv=argv))
        await user.insist("wait", job=1, until="running")
        await asyncio.sleep(0.1)
        self.then(domain)
        self.answers["lost"] = await user.insist("wait", job=1)
        await asyncio.sleep(5 * LOST_S)
        brief = job("t2", nodes=3, ppn=4, argv=[stewards.BRIEF])
        last = await user.insist("submit", job=brief)
        assert last == {"ok": {"job": 2}}
        self.answers["last"] = await user.insist("wait", job=2)
        await domain.until_at_rest()
        await domain.end()


def cut(domain, *names, seconds=3 * LOST_S):
    for name in names:
        domain.network.cut(frozenset((CONTROLLER, name)), seconds)


def both(story):
    found = [story.answers[what]["ok"] for what in ("lost", "last")]
    return [(job["state"], job["starts"]) for job in found]


def test_node_takes_no_job_while_tasks_of_a_lost_one_end(tmp_path, monkeypatch, keys):
    """The end of the lost job is stored, and the node may forget it, long before its tasks
    are gone."""

    def make(domain):
        domain.ran.grace_s["n1"] = 8 * LOST_S
        return Endless(domain, 1, lambda domain: cut(domain, "n1"))

    story = run_story(tmp_path, monkeypatch, keys, make)
    assert both(story) == [("node lost", 1), ("done", 1)], story.domain.log


@pytest.mark.parametrize("slow", NODES)
@pytest.mark.parametrize("lost", [("n1", "n2"), ("n2", "n3"), ("n1", "n3")])
def test_nodes_of_a_job_that_are_lost_together(tmp_path, monkeypatch, keys, lost, slow):
    """The order to end that one node had is dropped when it is lost itself, and the job
    is not over before the slow node has ended."""

    def make(domain):
        domain.ran.grace_s[slow] = 6 * LOST_S
        return Endless(domain, 3, lambda domain: cut(domain, *lost))

    story = run_story(tmp_path, monkeypatch, keys, make)
    assert both(story) == [("node lost", 1), ("done", 1)], story.domain.log


class Ending:
    """A domain that ends while the link to a node is cut for a moment."""

    def __init__(self, domain, node):
        self.domain, self.node = domain, node
        domain.network.watch = nothing_happens
        self.answers = {}

    async def run(self):
        domain = self.domain
        for name in (CONTROLLER, *NODES):
            domain.start(name)
        await domain.until_at_rest()
        cut(domain, self.node, seconds=LOST_S / 2)
        self.answers["down"] = await User(domain, self.node).insist("down")
        await domain.until_ended()
        domain.store.close()


@pytest.mark.parametrize("node", NODES)
def test_agent_ends_with_its_domain_though_its_link_is_cut(
    tmp_path, monkeypatch, keys, node
):
    story = run_story(tmp_path, monkeypatch, keys, lambda domain: Ending(domain, node))
    assert story.answers == {"down": {"ok": {"ended_jobs": []}}}


def test_agent_ends_with_its_domain_though_leave_was_lost(tmp_path, monkeypatch, keys):
    def make(domain):
        story = Ending(domain, "n1")

        def watch(pair, count):  # the second message to n2 is Leave
            return (
                (LOST_S / 2, 0.0) if pair == {CONTROLLER, "n2"} and count == 2 else (0, 0)
            )

        domain.network.watch = watch
        return story

    run_story(tmp_path, monkeypatch, keys, make)
