"""Starts pairs of jobs in coupled domains under faults, and checks that each is whole.

usage: python -m tests.domain.pair_storm [--pairs N] [--faults N] [--schemes HY] [--seed N]

The controllers talk over real sockets with real keys and stores; the batch systems are
doubles. Faults: a controller dies, at once or between two commands, and comes back. Two
domains are cut off, in one direction or both. A job that is ready loses its nodes. A start
fails. All the time messages are dropped, doubled and delayed, and jobs without mates take
nodes.

In the end each job has begun once, and those of a group by the same decision. No job began
alone. While a controller is up, none of its jobs has nodes past the end of its hold, of its
part in a round, or of its vote.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import random
import re
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from cosched.core.cluster.coupling.state import Counts, Stage
from tests.unit.cluster.coupling.live.live_domains import (
    EngineDouble,
    LiveDomain,
    free_addresses,
)

NODES = 12
SCHEMES = {"H": "hold", "Y": "yield"}
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
#: A lease ends in the first turn of the loop after it.
SLACK_S = 1.0
WATCH_S = 0.05


@dataclass
class Report:
    """The result. apart_s: between the starts of each group. latest_s: how late a lease
    ended at most. log: lines of the controllers, and how often each came."""

    faults: collections.Counter = field(default_factory=collections.Counter)
    problems: list[str] = field(default_factory=list)
    apart_s: list[float] = field(default_factory=list)
    counts: dict[str, Counts] = field(default_factory=dict)
    latest_s: float = 0.0
    log: collections.Counter = field(default_factory=collections.Counter)
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
        yield f"leases ended at most {self.latest_s * 1e3:.0f} ms late"
        for name, counts in self.counts.items():
            yield (
                f"{name}: {counts.rounds} rounds, {counts.holds} holds, {counts.yields} "
                f"yields, {counts.releases} releases, {counts.started_alone} alone"
            )
        yield f"took {self.took_s:.0f} s"


class Storm:
    """One run in a folder."""

    def __init__(self, folder, pairs, faults, schemes, seed):
        self.folder = folder
        self.pairs, self.faults = pairs, faults
        self.chance = random.Random(seed)
        self.names = "abcd"[: len(schemes)]
        self.schemes = dict(zip(self.names, map(SCHEMES.get, schemes), strict=True))
        self.addresses = free_addresses(self.names)
        self.engines = {
            name: EngineDouble(name, NODES, [n for n in self.names if n != name])
            for name in self.names
        }
        self.live: dict[str, LiveDomain | None] = dict.fromkeys(self.names)
        self.cut: collections.Counter = collections.Counter()
        self.report = Report()
        self.calm = False
        self.returns: set[asyncio.Task] = set()

    # --- domains --------------------------------------------------------------------------

    def start(self, name):
        def deliver(send, to):
            self.deliver(name, send, to)

        live = LiveDomain(
            self.folder,
            name,
            self.addresses,
            self.engines[name],
            self.note,
            deliver,
            scheme=self.schemes[name],
            **SETTINGS,
        )
        live.domain.on_death = lambda: self.bury(name)
        self.live[name] = live

    def note(self, line):
        self.report.log[re.sub(r"\d+", "N", line)] += 1

    def bury(self, name):
        """Ends a controller that has died, and starts another one later."""
        live, self.live[name] = self.live[name], None
        if live is None:
            return
        task = asyncio.ensure_future(self.come_back(name, live))
        self.returns.add(task)
        task.add_done_callback(self.returns.discard)

    async def come_back(self, name, live):
        await live.close()
        away_s = self.chance.choice((0.05, 0.3, LONGEST_OUTAGE_S))
        await asyncio.sleep(self.chance.uniform(0, away_s))
        self.start(name)

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
        watch = asyncio.ensure_future(self.watch())
        made = 0
        while made < self.faults:
            await asyncio.sleep(self.chance.uniform(0, 0.2))
            made += self.strike()
            engine = self.engines[self.chance.choice(self.names)]
            engine.occupy(self.chance.randint(1, 4), self.chance.uniform(0.1, 1.0))
        await submits
        self.calm = True
        await self.until_over(within_s=200)
        while self.returns:
            await asyncio.gather(*self.returns)
        watch.cancel()
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

    async def watch(self):
        """Looks for leases that have not ended in time."""
        before = time.monotonic()
        while True:
            await asyncio.sleep(WATCH_S)
            # All controllers share this loop: one that ends or starts delays the others.
            delay_s, before = time.monotonic() - before, time.monotonic()
            if delay_s > 2 * WATCH_S:
                continue
            for name, live in self.live.items():
                if live is None or live.domain.dead or live.coupling.state.recovering:
                    continue
                for member in live.coupling.waiting:
                    self.watch_one(name, member, live.pairs.clock.now_ns())

    def watch_one(self, name, member, at_ns):
        end_ns = {
            Stage.HOLDING: member.turn.lease_ns
            if member.turn.round is None
            else member.turn.pin_ns,
            Stage.READY: member.turn.pin_ns,
            Stage.PREPARED: member.turn.vote_ns,
        }.get(member.stage)
        if end_ns is None:
            return
        late_s = (at_ns - end_ns) / 1e9
        self.report.latest_s = max(self.report.latest_s, late_s)
        if late_s > SLACK_S:
            self.report.problems.append(
                f"{name}: job {member.number} is {member.stage.value} {late_s:.1f} s late"
            )

    # --- the end --------------------------------------------------------------------------

    def check(self):
        problems = self.report.problems
        for number in range(self.pairs):
            jobs = [engine.jobs[number] for engine in self.engines.values()]
            if any(job.state != "over" or len(job.began) != 1 for job in jobs):
                states = [(job.state, job.rests, len(job.began)) for job in jobs]
                why = [self.why(name, number) for name in self.names]
                problems.append(f"pair {number}: {states}: {why}")
                continue
            begins = [job.began[0] for job in jobs]
            self.report.apart_s.append(max(begins) - min(begins))
        for name, live in self.live.items():
            self.check_domain(name, live)
        for number in range(self.pairs):
            members = [live.coupling.state.members[number] for live in self.live.values()]
            if len({member.past.went for member in members}) > 1:
                rounds = [(member.past.went, member.past.alone) for member in members]
                problems.append(f"pair {number}: began by different decisions {rounds}")

    def why(self, name, number):
        return self.live[name].pairs.explain(number) or "unknown to its controller"

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


def run(folder, pairs, faults, schemes, seed):
    """Runs a storm; returns its report. schemes: a letter for each domain."""
    return asyncio.run(Storm(folder, pairs, faults, schemes, seed).run())


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--pairs", type=int, default=500)
    options.add_argument("--faults", type=int, default=1000)
    options.add_argument("--schemes", default="HY", help="H or Y for each domain, 2 to 4")
    options.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="pair-storm-") as folder:
        print(f"seed {given.seed}", flush=True)
        report = run(Path(folder), given.pairs, given.faults, given.schemes, given.seed)
    for line in report.lines():
        print(line)
    for problem in report.problems[:200]:
        print(problem)
    if report.problems:
        for line, count in report.log.most_common():
            print(f"{count} times: {line}")
    print(f"{given.pairs} groups, {len(report.problems)} problems")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
