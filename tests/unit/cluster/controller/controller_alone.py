"""A controller with a real store, whose agents are those of the test."""

import asyncio
import json
import secrets

from cosched.cluster.controller.requests import Requests
from cosched.cluster.engines.native.after_restart import Recovery
from cosched.cluster.engines.native.engine import NativeEngine
from cosched.cluster.engines.native.job_requests import JobRequests
from cosched.cluster.engines.native.jobs import Jobs
from cosched.cluster.engines.native.node_entries import NodeEntries, NodeState
from cosched.cluster.engines.native.submitting import Submitting
from cosched.cluster.messages import Chunk, SubtreePrepared
from cosched.cluster.record import Record, State
from cosched.cluster.submission import Submission
from cosched.cluster.user_socket import Person
from cosched.config.domain import DomainConfig, LifeSettings
from cosched.config.queue import QueueSettings

NODES = ("n0", "n1", "n2")


def requests_about(config, jobs, store, members, end=lambda: None):
    """Returns what answers the requests to a domain that is coupled with no other."""
    native = JobRequests(config, jobs, Submitting(jobs), store, members, end)

    async def reload(_person, _request):
        return {}

    handlers = {"reload": reload, **native.handlers}
    return Requests(handlers, native.may_vouch, NativeEngine.unknown)


class Controller:
    """A controller without agents. sent: its messages to them. ended: whether it has ended
    its domain."""

    def __init__(self, store, nodes=NODES, rows=1, life=None, queue=None, **more):
        addresses = {name: f"127.0.0.{at}:2" for at, name in enumerate(nodes, 1)}
        queue = queue or QueueSettings(jobs_per_node=rows)
        config = self.config = DomainConfig(
            *("test", "127.0.0.1:1", addresses, 0, queue),
            life=life or LifeSettings(),
            **more,
        )
        self.sent, self.log, self.ended = [], [], False
        self.store = store
        self.members = NodeEntries(config)
        self.jobs = Jobs(config, store, self.members, self._send, self.log.append)
        self.submitting = Submitting(self.jobs)
        self.requests = requests_about(config, self.jobs, store, self.members, self._end)
        self.recovery = Recovery(self.jobs, self.members, self._send, store.live())

    def _send(self, to, message):
        self.sent.append((to, message))

    def _end(self):
        self.ended = True

    def join(self, name, slots=1, reports=(), part_slots=0):
        member = self.members.by_name[name]
        member.part_slots = part_slots
        member.state, member.slots, member.secret = NodeState.UP, slots, bytes(32)
        member.starts = tuple(reports)
        self.jobs.node_joined(member)

    def submit(self, **more):
        return self.submitting.submit(self._record(**more)).number

    def submit_unchecked(self, **more):
        """Stores a job as an earlier version of the controller did."""
        record = self._record(**more)
        return self.store.add(record.submission.token, record)

    def _record(self, **more):
        submission = Submission(
            token=secrets.token_hex(8),
            name="a",
            argv=("/bin/true",),
            environ={},
            cwd="/",
            **more,
        )
        state = State.HELD if submission.held else State.QUEUED
        return Record(0, 7, 7, submission, self.jobs.clock.now_ns(), state)

    def starts(self):
        """Returns job, start and nodes of the objects that were sent."""
        chunks = (message for _, message in self.sent if isinstance(message, Chunk))
        return [(each.job, each.start, each.nodes) for each in chunks]

    def take(self, sender, message):
        self.jobs.take(sender, message)

    async def ask(self, uid=7, **request):
        body = json.dumps(request).encode()
        return json.loads(await self.requests.answer(Person(uid, uid), body))


async def passes():
    """Lets the passes of this moment happen."""
    for _ in range(5):
        await asyncio.sleep(0)


async def run_jobs(controller, *jobs):
    """Runs jobs on all nodes, with one slot each."""
    for name in controller.members.by_name:
        controller.join(name)
    controller.recovery.resolve()
    numbers = []
    for job in jobs:
        numbers.append(controller.submit(**job))
        await passes()
    for number in numbers:
        root = controller.jobs.starts.active[number].root
        controller.take(root, SubtreePrepared(number, 1))
    assert all(controller.store.find(number).state is State.RUNNING for number in numbers)
