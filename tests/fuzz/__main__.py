"""Sends malformed messages over all borders to real daemons, and checks what they cost.

usage: python -m tests.fuzz [--messages N] [--seed N] [--json FILE]   (as root)

There are four kinds of sender at a time. Users connect to the sockets of a node and of a
domain. A thief has the key of a node. A coupled domain is hostile. Strangers connect to the
gates, the metrics servers and the ports. Meanwhile another user sends requests. The run
fails if a daemon ends, takes more than a quarter of a CPU, or delays the other user more
than three times, or if the logs grow by a megabyte.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from cosched.core.names import CONTROLLER
from tests.fuzz.senders import Job
from tests.fuzz.targets import (
    DOMAIN,
    PEER,
    THIEF,
    CoupledRig,
    Target,
    domain_target,
    node_target,
    slurm_target,
)
from tests.fuzz.watch import Watch, median_ms, memory_kb

MOST_SHARE = 0.25
MOST_DELAY = 3.0
MOST_LOG_BYTES = 1 << 20
QUIET_S = 10.0
USERS = (61_001, 61_002)
#: The part of all messages that goes over each border.
PARTS = {
    "users: node, control": 0.08,
    "users: node, registration": 0.08,
    "users: domain, controller": 0.07,
    "users: domain, agent": 0.07,
    "node key: controller": 0.2,
    "node key: agent": 0.15,
    "node key: envelopes": 0.1,
    "peer domain": 0.1,
    "peer domain: envelopes": 0.05,
    "strangers: gates": 0.03,
    "strangers: metrics": 0.03,
    "strangers: metrics of a domain": 0.02,
    "strangers: ports": 0.02,
}


@dataclass
class Result:
    """The result of a run. share: the largest part of a CPU of each daemon over ten
    seconds. quiet_ms, fuzz_ms: medians of another user's requests."""

    seed: int
    seconds: float
    sent: dict[str, int]
    ended: list[str]
    share: dict[str, float]
    mean_share: dict[str, float]
    quiet_ms: dict[str, float]
    fuzz_ms: dict[str, float]
    log_bytes: int
    memory_kb: dict[str, tuple[int, int]]
    problems: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Returns the result as lines of at most 80 columns."""
        found = [
            f"seed {self.seed}, {sum(self.sent.values())} messages in {self.seconds:.0f} s"
        ]
        found += [f"  {name:<34}{count:>10}" for name, count in self.sent.items()]
        found.append(f"{'daemon':<20}{'CPU, most':>12}{'mean':>8}{'memory':>20}")
        for name, share in self.share.items():
            before, after = self.memory_kb[name]
            memory = f"{before / 1024:.0f} -> {after / 1024:.0f} MiB"
            found.append(
                f"{name:<20}{share:>12.1%}{self.mean_share[name]:>8.1%}{memory:>20}"
            )
        found.append(
            f"{'request of a user':<20}{'quiet':>12}{'under fuzz':>14}{'ratio':>8}"
        )
        for name, quiet in self.quiet_ms.items():
            fuzz = self.fuzz_ms[name]
            found.append(f"{name:<20}{quiet:>9.2f} ms{fuzz:>11.2f} ms{fuzz / quiet:>8.2f}")
        found.append(f"logs: {self.log_bytes} bytes")
        return [*found, *(f"problem: {problem}" for problem in self.problems)]


def jobs(
    count: int,
    seed: int,
    seconds: float,
    node: Target,
    domain: Target,
    rig: CoupledRig,
    slurm: Target,
) -> list[Job]:
    """Returns a sender for each border."""
    keys, peers = str(rig.paths.keys), str(rig.paths.peers)
    address = rig.config.addresses
    first, second = USERS
    thief = {"kind": "member", "keys": keys, "own": THIEF}
    peer = {"kind": "member", "keys": peers, "own": PEER, "to": DOMAIN}
    controller = {"place": address[CONTROLLER], "to": CONTROLLER}
    control, register = node.places["control"], node.places["register"]
    where: list[tuple[str, dict[str, Any]]] = [
        ("node_request", {"place": control, "uid": first}),
        ("registration", {"place": register, "uid": second, "kind": "packet"}),
        ("domain_request", {"place": domain.places["controller"], "uid": first}),
        ("domain_request", {"place": domain.places["agent"], "uid": second}),
        ("member_message", {**thief, **controller}),
        ("member_message", {**thief, "place": address["n2"], "to": "n2"}),
        ("envelope", {**thief, **controller}),
        ("peer_message", {**peer, "place": rig.listen}),
        ("envelope", {**peer, "place": rig.listen}),
        ("gate_hello", {"place": slurm.places["gates"], "kind": "once"}),
        ("http_request", {"place": node.places["metrics"], "kind": "once", "uid": first}),
        (
            "http_request",
            {"place": domain.places["metrics"], "kind": "once", "uid": second},
        ),
        ("envelope", {"place": address[CONTROLLER], "kind": "garbage", "uid": first}),
    ]
    made = []
    for number, (border, (maker, more)) in enumerate(zip(PARTS, where, strict=True)):
        part = max(1, round(count * PARTS[border]))
        made.append(
            Job(border, maker, count=part, seed=seed + number, seconds=seconds, **more)
        )
    return made


def run(count: int, seed: int, seconds: float, folder: Path) -> Result:
    """Sends the messages; returns what was seen. seconds: when the senders end."""
    with contextlib.ExitStack() as held:
        node = held.enter_context(node_target(folder))
        domain, rig = held.enter_context(domain_target(folder / "domain"))
        slurm = held.enter_context(slurm_target(folder))
        watch = Watch([node, domain, slurm])
        held.callback(watch.close)
        quiet = _look(watch, time.monotonic() + min(QUIET_S, seconds))
        for process in watch.processes.values():
            process.samples.clear()
        began = time.monotonic()
        senders = {
            job.border: subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz.senders", msgspec.json.encode(job)],
                stdout=subprocess.PIPE,
            )
            for job in jobs(count, seed, seconds, node, domain, rig, slurm)
        }
        fuzz = _look(watch, began + 2 * seconds + 60, list(senders.values()))
        sent = {}
        for border, sender in senders.items():
            printed = sender.communicate()[0]
            sent[border] = json.loads(printed)["sent"] if printed else 0
        result = _result(watch, seed, time.monotonic() - began, sent, quiet, fuzz)
        if not result.ended:
            job = rig.wait(rig.shell("true", by="n2"))
            if job["state"] != "done":
                result.problems.append(f"a job of n2 afterwards: {job}")
        return result


def _look(watch: Watch, until: float, senders=None) -> dict[str, list[float]]:
    """Samples until a time, or until all senders have ended."""
    watch.took()
    while time.monotonic() < until:
        watch.sample()
        if watch.ended or (
            senders is not None and all(each.poll() is not None for each in senders)
        ):
            break
        time.sleep(0.5)
    for each in senders or []:
        if each.poll() is None:
            each.terminate()
    return watch.took()


def _result(watch: Watch, seed, seconds, sent, quiet, fuzz) -> Result:
    result = Result(
        seed,
        seconds,
        sent,
        watch.ended,
        {name: each.most_share() for name, each in watch.processes.items()},
        {name: each.mean_share() for name, each in watch.processes.items()},
        {name: median_ms(times) for name, times in quiet.items()},
        {name: median_ms(times) for name, times in fuzz.items()},
        watch.log_bytes(),
        {
            name: (each.memory_before_kb, memory_kb(each.pid))
            for name, each in watch.processes.items()
        },
    )
    result.problems += [f"{name} has ended" for name in result.ended]
    result.problems += [
        f"{name} took {share:.0%} of a CPU"
        for name, share in result.share.items()
        if share > MOST_SHARE
    ]
    for name, quiet_ms in result.quiet_ms.items():
        if result.fuzz_ms[name] > MOST_DELAY * quiet_ms:
            result.problems.append(f"{name}: {result.fuzz_ms[name] / quiet_ms:.1f} times")
    if result.log_bytes > MOST_LOG_BYTES:
        result.problems.append(f"the logs grew by {result.log_bytes} bytes")
    return result


def main() -> int:
    options = argparse.ArgumentParser(
        prog="scripts/dev fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("--messages", type=int, default=1_000_000)
    options.add_argument("--seconds", type=float, default=1200.0, help="when senders end")
    options.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options.add_argument("--json", type=Path, help="where the result goes, too")
    given = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="cosched-fuzz-"))
    print(f"seed {given.seed}, folder {folder}", flush=True)
    result = run(given.messages, given.seed, given.seconds, folder)
    print("\n".join(result.lines()), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(asdict(result)))
    if result.problems:
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
