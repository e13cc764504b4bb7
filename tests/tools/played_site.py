"""Plays a domain and the daemons of its nodes, for the dashboard: the same jobs for each
seed, and no processes behind them.

    python -m tests.tools.played_site DIRECTORY --nodes 64 --jobs 1000

Jobs take one to eight nodes, and a node takes three jobs, which run in turns. ``Site`` is
the schedule; ``Played`` answers at the sockets of a run directory.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import heapq
import json
import queue
import random
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from cosched.core.node.settings import Settings
from cosched.launch.environment import name_on_nodes

NS = 10**9
PLACES = 3
NAMES = ("lu", "sp", "cg", "ring", "wavefront", "heat-3d", "md", "sort")
UIDS = (0, 7, 1000, 1001)
#: The lengths of jobs are between these, in seconds.
LENGTHS_S = (40, 600)
#: The nodes of jobs; more have the numbers that are here twice.
SIZES = (1, 1, 2, 2, 4, 8)
#: How long before its start the site began to run jobs.
PAST_S = 420.0
#: A slice is this late on a node at most.
LATE_S = 0.04


@dataclass
class PlayedJob:
    number: int
    name: str
    uid: int
    nodes: list
    length_s: float
    size: int
    submitted_s: float
    place: int = 0
    began_s: float = 0.0

    @property
    def ended_s(self):
        return self.began_s + self.length_s

    @property
    def key(self):
        return f"{self.uid}.{name_on_nodes(self.name, self.number)}"


class Site:
    """The schedule of all jobs, first come first served. at_s: its first moment. lasting_s:
    for this time after it further jobs come, as many as end."""

    def __init__(self, nodes=64, jobs=1000, seed=1, slice_s=1.0, at_s=0.0, lasting_s=0.0):
        chance = random.Random(seed)
        self.slice_s = slice_s
        self.began_s = at_s - PAST_S
        width = len(str(nodes))
        self.nodes = [f"n{number:0{width}}" for number in range(1, nodes + 1)]
        self.late_s = {name: chance.uniform(0, LATE_S) for name in self.nodes}
        ends_a_s = PLACES * nodes / (sum(LENGTHS_S) / 2 * sum(SIZES) / len(SIZES))
        come_s = [self.began_s + number * 0.05 for number in range(1, jobs + 1)]
        come_s += [
            at_s + later / ends_a_s for later in range(1, int(lasting_s * ends_a_s) + 1)
        ]
        self.jobs = [
            PlayedJob(
                number,
                chance.choice(NAMES),
                chance.choice(UIDS),
                [],
                chance.uniform(*LENGTHS_S),
                chance.choice(SIZES),
                submitted_s,
            )
            for number, submitted_s in enumerate(come_s, 1)
        ]
        self._place()

    def _place(self):
        free = [{(place, name) for name in self.nodes} for place in range(PLACES)]
        running, now_s = [], self.began_s
        for job in self.jobs:
            job.size = min(job.size, len(self.nodes))
            now_s = max(now_s, job.submitted_s)
            while True:
                while running and running[0][0] <= now_s:
                    _, _, ended = heapq.heappop(running)
                    free[ended.place] |= {(ended.place, name) for name in ended.nodes}
                row = next((row for row in free if len(row) >= job.size), None)
                if row is not None:
                    break
                now_s = running[0][0]
            taken = sorted(row)[: job.size]
            row -= set(taken)
            job.place, job.nodes = taken[0][0], [name for _, name in taken]
            job.began_s = now_s
            heapq.heappush(running, (job.ended_s, job.number, job))
        self.by_node = {name: [] for name in self.nodes}
        for job in self.jobs:
            for name in job.nodes:
                self.by_node[name].append(job)

    def state(self, job, now_s):
        if now_s < job.began_s:
            return "queued"
        if now_s < job.ended_s:
            return "running"
        return "failed" if job.number % 17 == 0 else "done"

    def on(self, node, now_s):
        return [job for job in self.by_node[node] if job.began_s <= now_s < job.ended_s]

    def turn(self, node, at_s, there):
        """The job that has the CPUs: places take turns, at the same time on all nodes."""
        wanted = int((at_s - self.late_s[node]) / self.slice_s) % PLACES
        return min(there, key=lambda job: (job.place - wanted) % PLACES, default=None)

    def spans(self, node, since_s, now_s):
        """By key of a job: when it was scheduled since then."""
        found, late_s, before = {}, self.late_s[node], None
        while since_s < now_s:
            count = int((since_s - late_s) / self.slice_s + 1e-6) + 1
            until_s = min(now_s, count * self.slice_s + late_s)
            job = self.turn(node, since_s + 1e-3, self.on(node, since_s + 1e-3))
            if job is not None:
                spans = found.setdefault(job.key, [])
                if before is job:
                    spans[-1][1] = until_s
                else:
                    spans.append([since_s, until_s])
            before, since_s = job, until_s
        return {
            key: [[int(b * NS), None if e >= now_s else int(e * NS)] for b, e in spans]
            for key, spans in found.items()
        }


class Played:
    """Answers for a site at the sockets in a run directory."""

    def __init__(self, site, run_dir):
        self.site = site
        self.run_dir = run_dir
        self.hostile = ""
        self.is_coupled = False

    async def open(self):
        for name in self.site.nodes:
            folder = self.run_dir / name
            folder.mkdir(parents=True)
            await asyncio.start_unix_server(self._at_node(name), folder / "control.sock")
        folder = self.run_dir / "domain"
        folder.mkdir()
        await asyncio.start_unix_server(
            self._converse(self._domain), folder / "controller.sock"
        )

    def _at_node(self, name):
        return self._converse(lambda request: self._node(name, request))

    def _converse(self, answer):
        async def converse(reader, writer):
            while line := await reader.readline():
                writer.write(json.dumps(answer(json.loads(line))).encode() + b"\n")
                await writer.drain()
            writer.close()

        return converse

    # -- the domain --------------------------------------------------------------------

    def _domain(self, request):
        match request["do"]:
            case "queue":
                return {"ok": self._queue(request["ended"])}
            case "nodes":
                now_s = time.time()
                return {"ok": [self._node_info(name, now_s) for name in self.site.nodes]}
            case "job":
                job = self.site.jobs[request["job"] - 1]
                found = self._job(job, time.time())
                return {"ok": {**found, "why": self._why(found), "changes": []}}
            case "mates" if self.is_coupled:
                return {"ok": self._mates()}
            case "domains" if self.is_coupled:
                return {"ok": self._domains()}
        return {"error": "this domain is coupled with no other"}

    def _mates(self):
        """Returns the first two waiting jobs: they wait for mates."""
        now_s = time.time()
        waiting = [job for job in self.site.jobs if job.submitted_s <= now_s < job.began_s]
        return [
            {
                "job": job.number,
                "group": f"climate{job.number}{self.hostile}",
                "user": "ann",
                "state": state,
                "nodes": job.size,
                "held": state == "holding",
                "since_s": now_s - job.submitted_s,
                "yields": 0,
                "why": f"{words} climate{job.number}@{domain}{self.hostile}",
            }
            for job, state, words, domain in zip(
                waiting,
                ("holding", "queuing"),
                ("ready, holds its nodes for", "waits for nodes, to start with"),
                ("eureka", "lens"),
                strict=False,
            )
        ]

    def _domains(self):
        since_ns = int(self.site.began_s * NS)
        counts = {"waiting": 1, "running": 1}
        down = {"state": "down", "down_since_ns": since_ns, "waiting": 1, "running": 0}
        return [
            {"domain": "eureka", "state": "up", "down_since_ns": None, **counts},
            {"domain": "lens", **down},
        ]

    def _queue(self, ended):
        now_s = time.time()
        come = [job for job in self.site.jobs if job.submitted_s <= now_s]
        over = [job for job in come if job.ended_s <= now_s]
        live = [job for job in come if job.ended_s > now_s]
        shown = [self._job(job, now_s) for job in (over[-ended:] if ended else []) + live]
        waiting = [job for job in shown if job["state"] == "queued"]
        for place, job in enumerate(waiting):
            needs = f"needs {job['nodes']} nodes"
            job["reason"] = f"{place} before; {needs}" if place else f"{needs}, 0 free"
        if self.is_coupled:
            running = next(job for job in shown if job["state"] == "running")
            running["mates"] = "started with eureka:812"
        return shown

    def _job(self, job, now_s):
        state = self.site.state(job, now_s)
        began, over = state != "queued", state in ("done", "failed")
        return {
            "job": job.number,
            "name": job.name + self.hostile,
            "uid": job.uid,
            "state": state,
            "nodes": job.size,
            "tasks": job.size * 2,
            "hosts": job.nodes if began else [],
            "submitted_ns": int(job.submitted_s * NS),
            "started_ns": int(job.began_s * NS) if began else None,
            "ended_ns": int(job.ended_s * NS) if over else None,
            "expected_ns": None if began else int(job.began_s * NS),
            "time_ns": 3600 * NS,
            "run_ns": None,
            "ends_ns": None,
            "status": {"done": 0, "failed": 1}.get(state),
            "reason": {
                "failed": "rank 1 ended with status 1",
                "queued": f"needs {job.size} nodes",
            }.get(state, ""),
            "starts": int(began),
            "command": ["./" + job.name, "--size", str(job.size)],
            "cwd": "/home/user",
            "output": f"cosched-{job.number}.out",
            "error": "",
            "mates": "",
            "minimum": None,
            "ideal": None,
            "preferred": None,
            "resized": None,
            "node_s": 0.0,
            "limited_by": [],
            "shares": False,
            "halves": [],
            "neighbours": [],
            "array": None,
            "task": None,
            "waits_for": "",
            "suspensions": 0,
            "suspended_s": 0.0,
            "suspended_for": None,
            "lender": None,
        }

    def _why(self, found):
        if found["state"] == "queued":
            return f"waits: 0 nodes free, needs {found['nodes']}"
        return f"{found['state']} on {', '.join(found['hosts'])}{self.hostile}"

    def _node_info(self, name, now_s):
        jobs = [job.number for job in self.site.on(name, now_s)]
        return {
            "node": name,
            "state": "up",
            "reason": "",
            "slots": 16,
            "tasks_most": 16,
            "jobs": jobs,
        }

    # -- a node ------------------------------------------------------------------------

    def _node(self, name, request):
        if request["op"] == "why":
            return {"notes": [], "ranks": {}, "reaches_back_to_wall_ns": 0}
        now_s = time.time()
        began_s = self.site.began_s
        since_s = max(request.get("since_wall_ns", int(now_s * NS)) / NS, began_s)
        there = self.site.on(name, now_s)
        turn = self.site.turn(name, now_s, there)
        switches = int((now_s - began_s) / self.site.slice_s)
        return {
            "node": name,
            "version": "played",
            "pid": 1,
            "wall_ns": int(now_s * NS),
            "uptime_s": now_s - began_s,
            "daemon_cpu_s": (now_s - began_s) * 0.004,
            "private": False,
            "priority": "real-time 1",
            "class_scheduler": {"name": "cgroup2", "mode": "in place", "chosen": ""},
            "settings": {
                **Settings().texts(),
                "slice": f"{self.site.slice_s:g}s",
                "gmet": "100ms",
                "align": True,
                "lent": {},
                "slice_s": self.site.slice_s,
                "warnings": [],
            },
            "timer": {"pid": 2, "restarts": 0, "late_max_us": 900.0},
            "counters": {"turn_given": switches, "sch_refused_gmet": switches // 3},
            "waiting": [],
            "jobs": [self._live(job, job is turn, now_s, len(there)) for job in there],
            "scheduled": self.site.spans(name, since_s, now_s),
        }

    def _live(self, job, scheduled, now_s, sharing):
        ran_s = (now_s - job.began_s) / sharing
        return {
            "name": name_on_nodes(job.name, job.number),
            "uid": job.uid,
            "key": job.key,
            "carrier": "shadow",
            "scheduled": scheduled,
            "mode": "normal",
            "state": "on" if scheduled else "off",
            "share_percent": 99 if scheduled else 1,
            "class": {"ways": ["in place"], "groups": [], "reason": "", "bounded": None},
            "cpus": [0, 1],
            "epoch": 1,
            "began_after_s": 0.2,
            "scheduled_s": ran_s,
            "cpu_s": ran_s * 2,
            "switches": int(ran_s / self.site.slice_s),
            "came_by": "slice",
            "granted": 0,
            "refused": {"gmet": 0},
            "order": self._order(job, ran_s, sharing),
            "tasks": [
                {
                    "pid": job.number * 10 + rank,
                    "rank": rank,
                    "world": 2,
                    "counters": {"sent": 0, "waited_ns": 0, "paused_ns": 0},
                }
                for rank in range(2)
            ],
            "launchers": [],
        }

    def _order(self, job, ran_s, sharing):
        expected_s = job.length_s / sharing if job.number % 2 else None
        return {
            "place": job.place + 1,
            "reason": "left",
            "cost_s": 0.0,
            "age_s": ran_s,
            "expected_s": expected_s,
            "left_s": expected_s and expected_s - ran_s,
            "lengths": 4 if expected_s else 0,
        }


async def play(played, ready):
    """Plays until the event that it passes to ``ready`` is set."""
    end = asyncio.Event()
    await played.open()
    ready(end)
    await end.wait()


@contextlib.contextmanager
def playing(played):
    """Plays in a thread during the block."""
    started = queue.SimpleQueue()

    def ready(end):
        started.put((asyncio.get_running_loop(), end))

    thread = threading.Thread(target=lambda: asyncio.run(play(played, ready)))
    thread.start()
    loop, end = started.get(timeout=60)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join()


def main():
    parser = argparse.ArgumentParser(description="Plays a domain for the dashboard.")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--slice", type=float, default=1.0, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lasting", type=float, default=0.0, help="seconds of more jobs")
    given = parser.parse_args()
    sizes = (given.nodes, given.jobs, given.seed, given.slice)
    site = Site(*sizes, time.time(), given.lasting)
    asyncio.run(play(Played(site, given.run_dir), lambda _: print("ready", flush=True)))


if __name__ == "__main__":
    main()
