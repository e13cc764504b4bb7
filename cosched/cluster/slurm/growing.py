"""Lets a domain in an allocation of Slurm grow and shrink with its queue.

``core.cluster.growth`` decides. Each further node is a job of Slurm of its own
(``node_jobs``). When it runs, its node is added to the domain, and the job's agent joins. A
node that is removed ends its agent, and so its job.

The domain's own job has the other nodes. One of them stays, where the controller may be.
Another one that is not needed is removed from the domain first. Then the job is shrunk to
the nodes that are left, so Slurm can give that node to other jobs. Slurm lets a user shrink
a running job, but not extend it unless an operator permits that. So a further node always
is a job of its own.

Slurm and the domain report no events to this process, so it asks both again and again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from cosched.cluster.answers import JobInfo, NodeInfo
from cosched.cluster.client import Client
from cosched.cluster.slurm.node_jobs import NodeJob, NodeJobs
from cosched.core.cluster.growth import Ask, Bounds, Request, Withdraw, decide
from cosched.core.complaints import Complaints
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S

#: After Slurm has refused a job, or to shrink one, it is not asked again for this time.
PAUSE_NS = 30 * NS_PER_S


class Growing:
    """The further nodes of a domain.

    own: the names of the nodes of the domain's own job. kept: the one of them that stays.
    port: of each agent. log: takes one line about what happened.
    """

    def __init__(
        self,
        bounds: Bounds,
        own: Sequence[str],
        kept: str,
        port: int,
        jobs: NodeJobs,
        log: Callable[[str], None],
    ) -> None:
        self._bounds = bounds
        self._own = list(own)  # less those that were given back
        self._kept = kept
        self._shrinks = True  # Slurm did not refuse it last
        self._shrink_not_before_ns = 0
        # The nodes that may be given back, by numbers that no job of Slurm has.
        self._spare = {-at: name for at, name in enumerate(own, 1) if name != kept}
        self._port = port
        self._jobs = jobs
        self._log = log
        self._complaints = Complaints(log, time.monotonic_ns)
        self._node_of: dict[int, str] = {}  # by the number of each job that got its node
        self._idle_since_ns: dict[str, int] = {}  # by the name of each node
        self._out_since_ns: dict[str, int] = {}  # as above; out of service without a job
        self._not_before_ns = 0  # no job is sent until then

    def step(self, client: Client, now_ns: int) -> None:
        """Looks at Slurm and the domain, and does what is needed. Raises CoschedError if
        one of them refuses something; the next step tries again."""
        jobs = self._jobs.listed()
        nodes = {node["node"]: node for node in client.nodes()}
        if self._add(client, jobs, nodes):
            nodes = {node["node"]: node for node in client.nodes()}
        self._remove_lost(client, jobs, nodes)
        self._shrink(nodes, now_ns)
        self._note_idle(nodes, now_ns)
        waiting = [job["nodes"] or 1 for job in client.queue() if _needs_nodes(job)]
        staying = [node for node in nodes.values() if node["state"] != "leaving"]
        commands = decide(
            now_ns,
            self._bounds,
            sum(self._is_own(node) for node in staying),
            self._requests(jobs, nodes),
            sum(bool(node["jobs"]) for node in staying),
            waiting,
        )
        for command in commands:
            if isinstance(command, Ask):
                self._ask(command.nodes, [*nodes, *self._node_of.values()], now_ns)
            elif isinstance(command, Withdraw):
                self._log(f"job {command.number} of Slurm is not needed")
                self._jobs.cancel([command.number])
            elif command.number in self._spare:
                node = self._spare[command.number]
                self._log(f"node {node} of the domain's own job is given back")
                client.remove([node])
            else:
                node = self._node_of[command.number]
                self._log(f"node {node} is given back")
                if nodes[node]["state"] != "up":  # its agent may not end by itself
                    self._jobs.cancel([command.number])
                client.remove([node])

    def end(self) -> None:
        """Ends all jobs of Slurm that were asked for. Raises CoschedError."""
        self._jobs.cancel([job.number for job in self._jobs.listed()])

    def _add(
        self, client: Client, jobs: Sequence[NodeJob], nodes: Mapping[str, NodeInfo]
    ) -> bool:
        """Adds the nodes of jobs that have begun; returns whether there are any. A job
        whose node the domain has already is of no use. One with the node of an ended job
        waits until the domain has removed that."""
        before = len(self._node_of)
        live = {job.number for job in jobs}
        for job in jobs:
            if not job.node or job.number in self._node_of:
                continue
            former = {number for number, node in self._node_of.items() if node == job.node}
            if job.node in self._own or former & live:
                self._log(f"job {job.number} of Slurm has node {job.node} once more")
                self._jobs.cancel([job.number])
                continue
            if former or (job.node in nodes and nodes[job.node]["state"] == "leaving"):
                continue
            if job.node not in nodes:
                client.add({job.node: f"{job.node}:{self._port}"})
                self._log(f"job {job.number} of Slurm has node {job.node}")
            self._node_of[job.number] = job.node
        return len(self._node_of) > before

    def _remove_lost(
        self, client: Client, jobs: Sequence[NodeJob], nodes: Mapping[str, NodeInfo]
    ) -> None:
        """Removes the nodes whose jobs have ended."""
        live = {job.number for job in jobs}
        for number, node in list(self._node_of.items()):
            if number in live:
                continue
            if node in nodes:  # an error leaves it to the next step
                client.remove([node], now=True)
                self._log(f"job {number} of Slurm has ended, so node {node} is removed")
            del self._node_of[number]

    def _is_own(self, node: NodeInfo) -> bool:
        """Returns whether the domain has a node for good, and can use it."""
        name, usable = node["node"], node["state"] == "up" or bool(node["jobs"])
        return usable and (name == self._kept or self._is_stuck(name))

    def _is_stuck(self, name: str) -> bool:
        return name in self._own and not self._shrinks

    def _shrink(self, nodes: Mapping[str, NodeInfo], now_ns: int) -> None:
        """Gives Slurm the nodes of the own job that have left the domain. If Slurm refuses
        or does not answer, the job keeps its other nodes until Slurm shrinks it later."""
        left = [name for name in self._own if name in nodes or name == self._kept]
        if len(left) == len(self._own) or now_ns < self._shrink_not_before_ns:
            return
        gone = [name for name in self._own if name not in left]
        try:
            self._jobs.shrink(left)
        except CoschedError as error:
            self._shrinks = False
            self._shrink_not_before_ns = now_ns + PAUSE_NS
            kept = f"the job keeps {', '.join(gone)}, which the domain does not use"
            self._complaints.about(None, kept, str(error))
            return
        self._shrinks = True
        self._own = left
        self._log(f"Slurm has got {', '.join(gone)} back; the job has {', '.join(left)}")

    def _note_idle(self, nodes: Mapping[str, NodeInfo], now_ns: int) -> None:
        free = {name: each["state"] for name, each in nodes.items() if not each["jobs"]}
        idle = {name for name, state in free.items() if state == "up"}
        out = free.keys() - idle
        self._idle_since_ns = {name: self._idle_since_ns.get(name, now_ns) for name in idle}
        self._out_since_ns = {name: self._out_since_ns.get(name, now_ns) for name in out}

    def _requests(
        self, jobs: Sequence[NodeJob], nodes: Mapping[str, NodeInfo]
    ) -> list[Request]:
        """Returns the nodes that the domain may give back, those of its own job first, and
        those that it will have."""
        found = []
        for number, name in self._spare.items() if self._shrinks else ():
            if name in self._own and name in nodes and nodes[name]["state"] != "leaving":
                idle_ns = self._idle_since_ns.get(name)
                out_ns = self._out_since_ns.get(name)
                found.append(Request(number, True, idle_ns, out_ns))
        for job in jobs:
            if job.number not in self._node_of:
                found.append(Request(job.number, False))
            elif job.node in nodes and nodes[job.node]["state"] != "leaving":
                idle_ns = self._idle_since_ns.get(job.node)
                out_ns = self._out_since_ns.get(job.node)
                found.append(Request(job.number, True, idle_ns, out_ns))
        return found

    def _ask(self, count: int, taken: Sequence[str], now_ns: int) -> None:
        if now_ns < self._not_before_ns:
            return
        try:
            for _ in range(count):
                self._jobs.ask(taken)
        except CoschedError:
            self._not_before_ns = now_ns + PAUSE_NS
            raise
        self._log(f"asked Slurm for {count} more nodes")


def _needs_nodes(job: JobInfo) -> bool:
    """Returns whether a job could start if there were nodes. One that is kept back cannot:
    its nodes would be idle, at the user's cost, until other jobs have ended."""
    return job["state"] == "queued" and not job["waits_for"]
