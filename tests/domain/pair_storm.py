"""Starts pairs of jobs in coupled domains under faults, and checks that each is whole.

usage: python -m tests.domain.pair_storm [--pairs N] [--faults N] [--domains N] [--seed N]

The controllers talk over real sockets with real keys and stores; the batch systems are
doubles. Faults: a controller dies, at once or between two commands, and comes back. Two
domains are cut off, in one direction or both. A job that is ready loses its nodes. A start
fails. All the time messages are dropped, doubled and delayed, and jobs without mates take
nodes.

In the end each job has begun once, and those of a group by the same decision. No job began
alone. No node was held past its lease, but for the time in which its controller was away or
the vote of its job was open.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from cosched.core.cluster.coupling.state import Counts, Stage
from tests.unit.cluster.coupled_live import EngineDouble, LiveDomain, free_ports

NODES = 12
RELEASE_S = 2.0
SETTINGS = {
    "release": "2s",
    "release_wait": "300ms",
    "yield_wait": "300ms",
    "again": "300ms",
    "answer": "2s",
    "unknown": "1h",
    "when_down": "yield",
}
KINDS = ("death", "death later", "cut", "lost nodes", "failed start")
WEIGHTS = (25, 25, 20, 20, 10)
DROP, TWICE, LATE = 0.05, 0.05, 0.1
LONGEST_OUTAGE_S = 3.0
#: A lease ends in the first turn of the loop after it, which may be late on a busy machine.
SLACK_S = 1.0


@dataclass
class Report:
    """The result. apart_s: between the starts of each pair."""

    faults: collections.Counter = field(default_factory=collections.Counter)
    problems: list[str] = field(default_factory=list)
    apart_s: list[float] = field(default_factory=list)
    counts: dict[str, Counts] = field(default_factory=dict)
    longest_hold_s: float = 0.0
    took_s: float = 0.0

    def lines(self):
        apart = sorted(self.apart_s)
        yield f"faults: {dict(self.faults)}"
        if apart:
            median, p99 = apart[len(apart) // 2], apart[int(len(apart) * 0.99)]
            yield (
                f"{len(apart)} groups started; apart: median {median * 1e3:.1f} ms, "
                f"p99 {p99 * 1e3:.0f} ms, most {apart[-1] * 1e3:.0f} ms"
            )
        yield f"longest hold {self.longest_hold_s:.2f} s (lease {RELEASE_S:g} s)"
        for name, counts in self.counts.items():
            yield (
                f"{name}: {counts.rounds} rounds, {counts.holds} holds, {counts.yields} "
                f"yields, {counts.releases} releases, {counts.started_alone} alone"
            )
        yield f"took {self.took_s:.0f} s"


class Storm:
    """One run in a folder."""

    def __init__(self, folder, pairs, faults, domains, seed):
        self.folder = folder
        self.pairs, self.faults = pairs, faults
        self.chance = random.Random(seed)
        self.names = "abcd"[:domains]
        self.addresses = free_ports(self.names)
        self.log = []
        self.engines = {
            name: EngineDouble(name, NODES, [n for n in self.names if n != name])
            for name in self.names
        }
        self.live: dict[str, LiveDomain | None] = dict.fromkeys(self.names)
        self.away: dict[str, list[tuple[float, float]]] = {n: [] for n in self.names}
        self.cut: collections.Counter = collections.Counter()
        self.report = Report()
        self.calm = False
        self.returns: set[asyncio.Task] = set()

    # --- domains --------------------------------------------------------------------------

    def start(self, name):
        scheme = ("hold", "yield")[self.names.index(name) % 2]
        if self.chance.random() < 0.5:
            scheme = "hold"

        def deliver(send, to):
            self.deliver(name, send, to)

        live = LiveDomain(
            self.folder,
            name,
            self.addresses,
            self.engines[name],
            self.log.append,
            deliver,
            scheme=scheme,
            **SETTINGS,
        )
        live.domain.on_death = lambda: self.bury(name)
        self.live[name] = live

    def bury(self, name):
        """Ends a controller that has died, and starts another one later."""
        live, self.live[name] = self.live[name], None
        if live is None:
            return
        task = asyncio.ensure_future(self.come_back(name, live))
        self.returns.add(task)
        task.add_done_callback(self.returns.discard)

    async def come_back(self, name, live):
        began = time.monotonic()
        await live.close()
        away_s = self.chance.choice((0.05, 0.3, LONGEST_OUTAGE_S))
        await asyncio.sleep(self.chance.uniform(0, away_s))
        self.start(name)
        # A new controller waits for reports of jobs that had nodes before.
        self.away[name].append((began, time.monotonic() + 3.0))

    def deliver(self, by, send, to):
        if self.calm:
            send()
            return
        if self.cut[by, to] or self.chance.random() < DROP:
            return
        loop = asyncio.get_running_loop()
        for _ in range(2 if self.chance.random() < TWICE else 1):
            if self.chance.random() < LATE:
                loop.call_later(self.chance.uniform(0, 0.5), send)
            else:
                send()

    # --- faults ---------------------------------------------------------------------------

    def strike(self):
        """Makes a fault; returns whether there was something to hit."""
        (kind,) = self.chance.choices(KINDS, WEIGHTS)
        name = self.chance.choice(self.names)
        live, engine = self.live[name], self.engines[name]
        ready = [number for number, job in engine.jobs.items() if job.state == "ready"]
        if kind in ("death", "death later") and live is None:
            return False
        if kind == "death":
            live.domain.die()
        elif kind == "death later":
            live.domain.left = self.chance.randrange(12)
        elif kind == "cut":
            self.cut_off(name)
        elif kind == "lost nodes":
            if not ready:
                return False
            engine.lose(self.chance.choice(ready))
        else:
            engine.fails_next += 1
        self.report.faults[kind] += 1
        return True

    def cut_off(self, name):
        other = self.chance.choice([each for each in self.names if each != name])
        ways = [(name, other), (other, name)][: self.chance.choice((1, 2))]
        end_s = self.chance.uniform(0, LONGEST_OUTAGE_S)
        for way in ways:
            self.cut[way] += 1
        loop = asyncio.get_running_loop()
        loop.call_later(end_s, lambda: self.cut.subtract(ways))

    # --- the run --------------------------------------------------------------------------

    async def run(self):
        began = time.monotonic()
        for name in self.names:
            self.start(name)
        submits = asyncio.ensure_future(self.submit_all())
        made = 0
        while made < self.faults:
            await asyncio.sleep(self.chance.uniform(0, 0.2))
            made += self.strike()
            engine = self.engines[self.chance.choice(self.names)]
            engine.occupy(self.chance.randint(1, 4), self.chance.uniform(0.1, 1.0))
        await submits
        self.calm = True
        await self.until_over(within_s=120)
        while self.returns:
            await asyncio.gather(*self.returns)
        self.check()
        for live in self.live.values():
            await live.close()
        self.report.took_s = time.monotonic() - began
        return self.report

    async def submit_all(self):
        """Submits pairs so that they are under way while faults come."""
        pause_s = 0.1 * self.faults / max(1, self.pairs)
        for number in range(self.pairs):
            names = list(self.names)
            self.chance.shuffle(names)
            for name in names:
                mates = ",".join(
                    f"mate=g{number}@{other}" for other in names if other != name
                )
                size, run_s = self.chance.randint(1, 4), self.chance.uniform(0.1, 0.4)
                late_s = self.chance.uniform(0, 1.0)
                asyncio.get_running_loop().call_later(
                    late_s, self.engines[name].submit, number, mates, size, run_s
                )
            await asyncio.sleep(self.chance.uniform(0, 2 * pause_s))
        await asyncio.sleep(1.0)

    async def until_over(self, within_s):
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            jobs = [job for engine in self.engines.values() for job in engine.jobs.values()]
            if all(job.state == "over" for job in jobs):
                return
            await asyncio.sleep(0.05)

    # --- the end --------------------------------------------------------------------------

    def check(self):
        problems = self.report.problems
        for number in range(self.pairs):
            jobs = [engine.jobs[number] for engine in self.engines.values()]
            if any(job.state != "over" or len(job.began) != 1 for job in jobs):
                states = [(job.state, len(job.began)) for job in jobs]
                problems.append(f"pair {number}: state and starts {states}")
                continue
            begins = [job.began[0] for job in jobs]
            self.report.apart_s.append(max(begins) - min(begins))
        for name, live in self.live.items():
            self.check_domain(name, live)
        for number in range(self.pairs):
            members = [live.coupling.state.members[number] for live in self.live.values()]
            if len({member.went for member in members}) > 1:
                rounds = [(member.went, member.alone) for member in members]
                problems.append(f"pair {number}: began by different decisions {rounds}")

    def check_domain(self, name, live):
        problems, state = self.report.problems, live.coupling.state
        self.report.counts[name] = state.counts
        if state.counts.started_alone:
            alone = [m.number for m in state.members.values() if m.alone]
            problems.append(f"{name}: jobs {alone} began alone")
        if self.engines[name].refused:
            problems.append(f"{name}: refused {self.engines[name].refused}")
        left = [m.number for m in state.members.values() if m.stage is not Stage.OVER]
        if left or live.coupling.held:
            problems.append(f"{name}: jobs {left} are not over; {live.coupling.held} held")
        for number, job in self.engines[name].jobs.items():
            for begin, end in job.held:
                own_s = end - begin - self.absent_s(begin, end)
                self.report.longest_hold_s = max(self.report.longest_hold_s, own_s)
                if own_s > RELEASE_S + LONGEST_OUTAGE_S + SLACK_S:
                    problems.append(f"{name}: job {number} held nodes for {own_s:.1f} s")

    def absent_s(self, begin, end):
        """The time between two moments in which some controller was away."""
        times = sorted(time for away in self.away.values() for time in away)
        total, until = 0.0, begin
        for first, last in times:
            left_s = min(last, end) - max(first, until)
            if left_s > 0:
                total, until = total + left_s, last
        return total


def run(folder, pairs, faults, domains, seed):
    """Runs a storm; returns its report."""
    return asyncio.run(Storm(folder, pairs, faults, domains, seed).run())


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--pairs", type=int, default=500)
    options.add_argument("--faults", type=int, default=1000)
    options.add_argument("--domains", type=int, default=2)
    options.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="pair-storm-") as folder:
        print(f"seed {given.seed}", flush=True)
        report = run(Path(folder), given.pairs, given.faults, given.domains, given.seed)
    for line in report.lines():
        print(line)
    for problem in report.problems:
        print(problem)
    print(f"{given.pairs} groups, {len(report.problems)} problems")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
