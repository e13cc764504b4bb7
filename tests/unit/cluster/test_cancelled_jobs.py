"""A cancel that was accepted is never forgotten, and a domain that ends starts no job."""

from __future__ import annotations

import asyncio
import secrets

import pytest

from cosched.cluster.config import DomainConfig, LifeSettings
from cosched.cluster.controller.jobs import Jobs
from cosched.cluster.controller.members import Members, NodeState
from cosched.cluster.controller.recovery import Recovery
from cosched.cluster.controller.requests import Requests
from cosched.cluster.desk import Person
from cosched.cluster.messages import (
    End,
    Failure,
    GiveInput,
    NodeEnded,
    Order,
    StartReport,
    SubtreeEnded,
    SubtreePrepared,
)
from cosched.cluster.store import JobStore, Record, State
from cosched.cluster.submission import Submission
from cosched.core.cluster.startup.gate import Stage
from cosched.core.errors import CoschedError

FULL = "jobs.sqlite: database or disk is full"


class Domain:
    """A controller with a real store, whose nodes are those of the test."""

    def __init__(self, path, *, slots=4, life=None):
        names = {"n1": "127.0.0.1:2", "n2": "127.0.0.2:2"}
        life = life or LifeSettings()
        self.config = DomainConfig("test", "127.0.0.1:1", names, slots, life=life)
        self.path = path
        self.ended = False
        self.restart(reports=())

    def restart(self, reports, lost=()):
        """Starts the controller again. All nodes but ``lost`` answer with these reports."""
        self.store = JobStore(self.path)
        self.sent, self.log = [], []
        self.members = Members(self.config)
        self.jobs = Jobs(self.config, self.store, self.members, self.send, self.log.append)
        self.requests = Requests(
            self.config, self.jobs, self.store, self.members, self.end, None
        )
        recovery = Recovery(self.jobs, self.members, self.send, self.store.live())
        for member in self.members.by_number:
            if member.name not in lost:
                member.state, member.slots = NodeState.UP, 4
                member.agent, member.secret = 1, bytes(32)
                member.starts = tuple(reports)
                self.jobs.node_joined(member)
        recovery.resolve()

    def send(self, to, message):
        self.sent.append((to, message))

    def end(self):
        self.ended = True

    def submit(self, nodes=2, *, requeue=False, held=False, at_once=False):
        job = Submission(
            token=secrets.token_hex(8),
            name="a",
            argv=("/bin/true",),
            environ={},
            cwd="/",
            nodes=nodes,
            ppn=1,
            requeue=requeue,
            held=held,
            at_once=at_once,
        )
        state = State.HELD if held else State.QUEUED
        return self.jobs.submit(Record(0, 7, 7, job, 0, state)).number

    def begin(self, number):
        """Lets the nodes of a job's start prepare it, and begin."""
        start = self.jobs.starts.active[number]
        self.jobs.starts.take(start.root, SubtreePrepared(number, start.record.start))

    def state(self, number):
        return self.store.find(number).state

    def ends_of(self, number):
        return [m for _, m in self.sent if isinstance(m, End) and m.job == number]


@pytest.fixture
def run(tmp_path):
    """Runs a scenario with a domain in an event loop."""

    def run(scenario, **options):
        async def inside():
            domain = Domain(tmp_path / "jobs.sqlite", **options)
            await scenario(domain)
            domain.store.close()

        asyncio.run(inside())

    return run


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


def test_cancel_counts_after_the_loss_of_a_node(run):
    """Without it the job would wait again, because it may be requeued."""

    async def scenario(domain):
        number = domain.submit(requeue=True)
        await settle()
        domain.begin(number)
        domain.jobs.node_lost(domain.members.by_name["n2"])
        domain.jobs.cancel(number)
        domain.jobs.starts.take("n1", NodeEnded(number, 1))
        assert domain.state(number) is State.CANCELLED

    run(scenario)


def test_cancel_counts_for_a_start_that_took_too_long(run):
    async def scenario(domain):
        number = domain.submit()
        await settle()
        while not domain.ends_of(number):
            await asyncio.sleep(0)
        domain.jobs.cancel(number)
        for name in ("n1", "n2"):
            domain.jobs.starts.take(name, NodeEnded(number, 1))
        assert domain.state(number) is State.CANCELLED

    run(scenario, life=LifeSettings(prepare_ns=1))


@pytest.mark.parametrize("stage", [Stage.PREPARED, Stage.GONE])
def test_cancel_outlives_the_controller(run, stage):
    async def scenario(domain):
        number = domain.submit(requeue=True)
        await settle()
        if stage is Stage.GONE:
            domain.begin(number)
        domain.jobs.cancel(number)
        domain.store.close()
        since_ns = 1 if stage is Stage.GONE else 0
        domain.restart([StartReport(number, 1, stage.value, since_ns, True)])
        await settle()
        if stage is Stage.GONE:
            assert len(domain.ends_of(number)) == 1
            failure = Failure(143, "cancelled")
            domain.jobs.starts.take("n1", SubtreeEnded(number, 1, failure))
        assert domain.state(number) is State.CANCELLED
        assert not [m for _, m in domain.sent if isinstance(m, Order)]

    run(scenario)


def test_cancelled_job_of_a_lost_node_is_cancelled_after_a_restart(run):
    async def scenario(domain):
        number = domain.submit(requeue=True)
        await settle()
        domain.begin(number)
        domain.jobs.cancel(number)
        domain.store.close()
        domain.restart([StartReport(number, 1, Stage.GONE.value, 1, True)], lost=("n2",))
        assert domain.state(number) is State.CANCELLED

    run(scenario)


def test_job_is_not_cancelled_before_the_nodes_have_reported_it(run):
    async def scenario(domain):
        number = domain.submit()
        await settle()
        domain.begin(number)
        jobs = Jobs(domain.config, domain.store, domain.members, domain.send, print)
        with pytest.raises(CoschedError, match=r"asks its nodes; try again$"):
            jobs.cancel(number)

    run(scenario)


def test_domain_that_ends_starts_no_job_that_waits(run):
    async def scenario(domain):
        first, second = domain.submit(1), domain.submit(1)
        await settle()
        domain.begin(first)
        domain.begin(second)
        waits = domain.submit(1)
        down = asyncio.ensure_future(
            domain.requests.answer(Person(0, 0), b'{"do": "down", "end_jobs": true}')
        )
        for number in (first, second):
            await settle()
            assert domain.jobs.records.live[waits].state is State.QUEUED
            root = domain.jobs.starts.active[number].root
            domain.jobs.starts.take(root, SubtreeEnded(number, 1, None))
        await down
        await settle()
        assert domain.ended
        assert domain.state(waits) is State.QUEUED

    run(scenario)


def test_domain_goes_on_if_the_operator_does_not_wait_for_its_end(run):
    async def scenario(domain):
        number = domain.submit(2)
        await settle()
        domain.begin(number)
        down = asyncio.ensure_future(
            domain.requests.answer(Person(0, 0), b'{"do": "down", "end_jobs": true}')
        )
        await settle()
        down.cancel()
        await asyncio.wait({down})
        domain.jobs.starts.take("n1", SubtreeEnded(number, 1, None))
        other = domain.submit(2)
        await settle()
        assert other in domain.jobs.starts.active

    run(scenario)


def test_input_for_a_start_that_is_not_there_ends_nothing(run):
    """An agent passes on to the controller what its users give."""

    async def scenario(domain):
        domain.jobs.starts.take("n1", GiveInput(9, 1, 1, 7, 0, b"", True))
        assert domain.sent == []
        assert domain.log == ["n1: GiveInput is not for the controller"]

    run(scenario)


def test_release_without_nodes_changes_nothing(run):
    async def scenario(domain):
        number = domain.submit(1, held=True)
        domain.store.close()
        domain.restart([], lost=("n1", "n2"))
        with pytest.raises(CoschedError):
            domain.jobs.unhold(number)
        assert domain.state(number) is State.HELD

    run(scenario, slots=0)


def test_start_that_cannot_be_stored_ends_the_controller(run, monkeypatch):
    """The queue believes that the job runs, so no request may answer for it."""

    async def scenario(domain):
        def fail(_record):
            raise CoschedError(FULL)

        monkeypatch.setattr(domain.store, "save", fail)
        body = b'{"do": "submit", "job": {"token": "t", "name": "a", "argv": ["/bin/true"],'
        body += b' "environ": {}, "cwd": "/", "at_once": true}}'
        with pytest.raises(Exception, match=FULL) as caught:
            await domain.requests.answer(Person(0, 0), body)
        assert not isinstance(caught.value, CoschedError)

    run(scenario)
