"""Cuts each link of a domain at each message, and restarts each member at each message.

In the end each user has the answer, each job has one end, nothing ran twice and nothing is
left. The job of ``stewards`` sends each kind of message over its links.
"""

import asyncio

import pytest

from cosched.core.names import CONTROLLER
from tests.unit.cluster.cuts import stewards
from tests.unit.cluster.cuts.domain import LOST_S, NODES, Domain, User, keys, plays
from tests.unit.cluster.cuts.virtual import virtual_time

__all__ = ["keys"]

SHORT_S, LONG_S = LOST_S / 2, 3 * LOST_S
LINKS = [
    (CONTROLLER, "n1"),
    (CONTROLLER, "n2"),
    (CONTROLLER, "n3"),
    ("n1", "n2"),
    ("n1", "n3"),
]
#: No link has so many messages.
MESSAGES_MOST = 200


def nothing_happens(_pair, _count):
    return 0.0, 0.0


def job(token, **more):
    fixed = {"name": token, "argv": ["./app"], "environ": {}, "cwd": "/", "output": "out"}
    return {"token": token, **fixed, **more}


class Story:
    """Requests of users while something happens to the network, and their answers."""

    def __init__(self, domain):
        self.domain = domain
        self.answers = {}

    async def run(self):
        domain = self.domain
        for name in (CONTROLLER, *NODES):
            domain.start(name)
        await domain.until_at_rest()
        first = User(domain, "n3")
        submitted = await first.insist("submit", job=job("t1", nodes=2, ppn=1, input="-"))
        assert submitted == {"ok": {"job": 1}}
        asking = [
            self._keep("input", User(domain, "n3").give_input(1)),
            self._keep("wait n2", User(domain, "n2").insist("wait", job=1)),
            self._keep("wait n3", first.insist("wait", job=1)),
            self._cancelled(),
        ]
        await asyncio.gather(*asking)
        await domain.until_at_rest()
        domain.network.watch = nothing_happens
        last = await User(domain, "n2").insist("submit", job=job("t9", nodes=3, ppn=3))
        number = last["ok"]["job"]
        self.answers["last"] = await User(domain, "n1").insist("wait", job=number)
        await domain.until_at_rest()
        await domain.end()

    async def _keep(self, what, asking):
        self.answers[what] = await asking

    async def _cancelled(self):
        user = User(self.domain, "n1")
        held = await user.insist("submit", job=job("t2", held=True))
        number = held["ok"]["job"]
        cancel = User(self.domain, "n2").insist("cancel", job=number)
        wait = user.insist("wait", job=number)
        await asyncio.gather(self._keep("cancelled", wait), self._keep("cancel", cancel))

    def check(self, may_be_lost):
        """Checks the answers. may_be_lost: whether the job may lose a node."""
        answers, ran, log = self.answers, self.domain.ran, self.domain.log
        ends = {
            what: answer["ok"].get("state")
            for what, answer in answers.items()
            if what not in ("input", "cancel")
        }
        state = ends["wait n3"]
        assert state == "done" or (may_be_lost and state == "node lost"), (ends, log)
        assert ends == {
            "wait n2": state,
            "wait n3": state,
            "cancelled": "cancelled",
            "last": "done",
        }
        assert answers["cancel"] == {"ok": {"job": answers["cancelled"]["ok"]["job"]}}
        ended = [line.split(":")[1] for line in log if line.startswith("controller: job ")]
        assert sorted(ended) == [" job 1", " job 2", " job 3"], log
        assert not ran.failures
        assert not {key: n for key, n in ran.begun.items() if n > 1}
        starts = {start for number, start, *_ in ran.begun if number == 1}
        assert len(starts) <= 1
        if state == "done":
            start = answers["wait n3"]["ok"]["starts"]
            worlds = [key for key in ran.begun if key[:2] == (1, start)]
            assert len(worlds) >= 3
            size = len(worlds) * stewards.LINES * len(stewards.LINE)
            assert ran.output[1, start] == size
            assert ran.input[1] == 10
            assert "ok" in answers["input"], answers["input"]


def run_story(tmp_path, monkeypatch, keys, make):
    """Runs a story once; returns it. make: returns the story of a domain."""
    with (
        monkeypatch.context() as patch,
        virtual_time(patch) as loop,
        plays(patch, loop) as (network, ran),
    ):
        asyncio.set_event_loop(loop)
        domain = Domain(tmp_path, keys, network, ran)
        story = make(domain)
        try:
            loop.run_until_complete(story.run())
        except BaseException:
            print(*domain.log, sep="\n")
            print(story.answers, *domain.problems(), sep="\n")
            raise
        finally:
            loop.stop_all()
            asyncio.set_event_loop(None)
    return story


def each_message(tmp_path, monkeypatch, keys, link, happens, may_be_lost, prepare=Story):
    """Tells the story with something at each message of a link, until it has no more.
    happens: called with the domain at the message; returns for how long the link is cut,
    before the message and after it. prepare: returns the story of a domain."""
    for at in range(1, MESSAGES_MOST):
        seen = []

        def make(domain, at=at, seen=seen):
            def watch(pair, count):
                if pair != frozenset(link) or count != at or seen:
                    return 0.0, 0.0
                seen.append(count)
                return happens(domain)

            domain.network.watch = watch
            return prepare(domain)

        story = run_story(tmp_path / str(at), monkeypatch, keys, make)
        try:
            story.check(may_be_lost)
        except BaseException:
            print(f"message {at} of {link}", *story.domain.log, sep="\n")
            raise
        if not seen:
            break
    assert 4 < at < MESSAGES_MOST - 1


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("cut_s", [SHORT_S, LONG_S], ids=["short", "long"])
@pytest.mark.parametrize("link", LINKS, ids="-".join)
def test_link_that_is_cut_at_any_message(tmp_path, monkeypatch, keys, link, cut_s, moment):
    cuts = (cut_s, 0.0) if moment == "before" else (0.0, cut_s)
    loses_a_node = cut_s == LONG_S and CONTROLLER in link and "n3" not in link
    each_message(tmp_path, monkeypatch, keys, link, lambda _domain: cuts, loses_a_node)


@pytest.mark.parametrize("name", [CONTROLLER, *NODES])
@pytest.mark.parametrize("link", LINKS, ids="-".join)
def test_member_that_restarts_at_any_message(tmp_path, monkeypatch, keys, link, name):
    restarts = []

    def happens(domain):
        restarts.append(asyncio.ensure_future(domain.restart(name)))
        return 0.0, 0.0

    each_message(tmp_path, monkeypatch, keys, link, happens, name in ("n1", "n2"))


def test_controller_that_restarts_while_a_start_fails(tmp_path, monkeypatch, keys):
    """A start that another start may follow is not taken for one that has run."""

    def prepare(domain):
        domain.ran.refusals["n2"] = 1
        return Story(domain)

    def happens(domain):
        domain.restarting = asyncio.ensure_future(domain.restart(CONTROLLER))
        return 0.0, 0.0

    link = CONTROLLER, "n1"
    each_message(tmp_path, monkeypatch, keys, link, happens, False, prepare)
