"""Measures what the members of a domain cost with the number of its nodes.

The nodes are those of a lab, with scheduler daemons, and share the CPUs of this machine.
So only CPU time, memory and packets count. At each size the domain is idle first. Then its
metrics are read, and a dashboard looks at all nodes. Then jobs of one task run one after
the other, and after them jobs with a task on each node. The tasks end at once.

With --loopback the members have addresses of the loopback, and the nodes have no scheduler
daemons: this finds the largest domain that a machine carries.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path

from benchmarks.domain_lab import domain, new_lab
from benchmarks.experiment import Bench, above_zero, numbers, positive
from benchmarks.micro.dashboard import running, served
from benchmarks.micro.observing import scrape_once
from benchmarks.micro.watchers import cpu_s
from benchmarks.progress_lines import steps_of
from cosched.bench.run.interrupts import interruptible
from cosched.cluster.client import Client
from cosched.cluster.paths import DomainPaths
from cosched.cluster.submission import make_submission
from cosched.cluster.up.domain import start_domain, stop_domain, write_domain
from cosched.cluster.up.nodes import DomainNode
from cosched.config.domain import PORT, DomainConfig, MetricsSettings
from cosched.lab.plan import plan_crowded_nodes
from cosched.linux.cpu_surroundings import usable_siblings
from cosched.linux.namespaces import network_of
from cosched.tables import table

#: The programs whose cost is measured.
KINDS = ("controller", "agent", "scheduler", "timer")
#: The start of the members does not count.
SETTLE_S = 5.0
#: The pause between two looks of the dashboard, and between two requests for its news.
LOOK_S = 2.0
SCRAPES = 20
METRICS = MetricsSettings("127.0.0.1:9435")
FIRST_ADDRESS = IPv4Address("127.1.0.1")
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
MIB = 1 << 20
Work = Callable[[], object]


@dataclass(frozen=True)
class RunningDomain:
    """A domain that is up."""

    run_dir: Path  #: its run directory
    nodes: int  #: the number of its nodes
    within: int  #: a process in the network of its controller
    daemons: bool  #: whether its nodes have scheduler daemons


@dataclass(frozen=True)
class Cost:
    """The cost of some work."""

    seconds: float  #: how long it took
    cpu_s: dict[str, float]  #: the CPU time of all programs of a kind
    packets: int  #: that the machine of the controller sent and received

    def beyond_ms(self, idle: Cost, kind: str) -> float:
        """Returns the CPU time of a kind beyond that of idle members in the same time."""
        beside_s = idle.cpu_s[kind] * self.seconds / idle.seconds
        return 1e3 * (self.cpu_s[kind] - beside_s)


@contextlib.contextmanager
def in_a_lab(run_dir: Path, nodes: int) -> Iterator[RunningDomain]:
    """Runs a domain on the nodes of a lab."""
    planned = plan_crowded_nodes(nodes, 1, usable_siblings())
    with new_lab(run_dir, planned) as lab, domain(lab, slots=1, metrics=METRICS):
        yield RunningDomain(run_dir, nodes, lab.nodes[0].keeper.pid, daemons=True)


@contextlib.contextmanager
def on_the_loopback(run_dir: Path, nodes: int) -> Iterator[RunningDomain]:
    """Runs a domain of which each member has an address of the loopback."""
    places = [
        DomainNode(f"n{number + 1}", f"{FIRST_ADDRESS + number}:{PORT + 1}")
        for number in range(nodes)
    ]
    addresses = {place.name: place.address for place in places}
    controller = f"{FIRST_ADDRESS}:{PORT}"
    config = DomainConfig("bench", controller, addresses, slots=1, metrics=METRICS)
    paths = DomainPaths(run_dir)
    write_domain(paths, config)
    start_domain(paths, places)
    try:
        yield RunningDomain(run_dir, nodes, os.getpid(), daemons=False)
    finally:
        stop_domain(paths, places[0].name, end_jobs=True)


def pids_of(run_dir: Path) -> dict[str, list[int]]:
    """Returns the processes of members and daemons by their kind."""
    found: dict[str, list[int]] = {kind: [] for kind in KINDS}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            words = (place / "cmdline").read_bytes().split(b"\0")
            for kind, pids in found.items():
                if {f"cosched_daemons.{kind}".encode(), bytes(run_dir)} <= {*words}:
                    pids.append(int(place.name))
    return found


def used_s(pids: Sequence[int]) -> float:
    """Returns the CPU time of processes, with that of their children that have ended."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):  # a spare process of an agent has ended
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += cpu_s(pid) + (int(fields[13]) + int(fields[14])) * TICK_S
    return total


def pss_mib(pids: Sequence[int]) -> float:
    """Returns the memory of processes; several that share a page count a part of it."""
    texts = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in pids]
    return sum(int(t.partition("\nPss:")[2].split()[0]) for t in texts) * 1024 / MIB


def packets_of(live: RunningDomain) -> int:
    """Returns the packets that the machine of the controller has sent and received. Those
    between two of its own processes count once."""
    lines = Path(f"/proc/{live.within}/net/dev").read_text().splitlines()[2:]
    return sum(
        int(fields[1]) + (0 if name.strip() == "lo" else int(fields[9]))
        for name, fields in (
            (n, f.split()) for n, _, f in (x.partition(":") for x in lines)
        )
    )


def cost_of(live: RunningDomain, work: Work) -> Cost:
    """Returns the cost of work for the programs that are there before it or after it."""
    before = {kind: used_s(pids) for kind, pids in pids_of(live.run_dir).items()}
    packets, began_s = packets_of(live), time.monotonic()
    work()
    took_s, packets = time.monotonic() - began_s, packets_of(live) - packets
    after = {kind: used_s(pids) for kind, pids in pids_of(live.run_dir).items()}
    return Cost(took_s, {kind: after[kind] - before[kind] for kind in KINDS}, packets)


def wait(seconds: float, what: str, each_s: float, step: Work) -> None:
    """Makes a step again and again, for so many seconds, and waits after each."""
    for _ in steps_of(range(max(1, round(seconds / each_s))), what):
        step()
        time.sleep(each_s)  # the time that is measured


def run_jobs(live: RunningDomain, count: int, nodes: int) -> None:
    """Runs jobs that end at once, one after the other."""
    with Client.connect(live.run_dir) as client:
        for _ in steps_of(range(count), f"jobs of {nodes}"):
            job = make_submission(
                ["/bin/true"],
                environ={"PATH": os.defpath},
                cwd="/",
                output="/dev/null",
                nodes=nodes,
                ppn=1,
            )
            client.wait(client.submit(job))


def read_metrics(live: RunningDomain) -> int:
    """Returns the bytes of the metrics of the controller, which are read several times."""
    assert METRICS.listen is not None
    with network_of(live.within):
        return max(scrape_once(METRICS.listen) for _ in range(SCRAPES))


def dashboard(live: RunningDomain, seconds: float) -> dict[str, float]:
    """Returns the cost of a dashboard in CPU seconds a minute, and its memory."""
    with running(*served(live.run_dir, f"{LOOK_S:g}")) as (server, url, _):

        def read() -> None:
            with urllib.request.urlopen(f"{url}news?run=&after=0") as answer:
                answer.read()

        wait(SETTLE_S, "dashboard", LOOK_S, read)
        before_s = cpu_s(server.pid)
        work = partial(wait, seconds, "dashboard", LOOK_S, read)
        found = cost_of(live, work)
        used = cpu_s(server.pid) - before_s
        minutes = found.seconds / 60
        return {
            "dashboard, s/min": used / minutes,
            "dashboard, MiB": pss_mib([server.pid]),
            "controller beside it, s/min": found.cpu_s["controller"] / minutes,
            "daemons of a node beside it, s/min": _daemons_s(found) / minutes / live.nodes,
        }


def _daemons_s(cost: Cost) -> float:
    return cost.cpu_s["scheduler"] + cost.cpu_s["timer"]


def measure(live: RunningDomain, seconds: float, jobs: int) -> dict[str, float]:
    """Returns the figures of a domain."""
    nodes = live.nodes
    time.sleep(SETTLE_S)
    idle = cost_of(live, partial(wait, seconds, f"{nodes} nodes, idle", 1.0, int))
    minutes = idle.seconds / 60
    pids = pids_of(live.run_dir)
    found = {
        "idle: controller, s/min": idle.cpu_s["controller"] / minutes,
        "an agent, s/min": idle.cpu_s["agent"] / minutes / nodes,
        "the controller's packets a second for each node": idle.packets
        / idle.seconds
        / nodes,
        "controller, MiB": pss_mib(pids["controller"]),
        "an agent, MiB": pss_mib(pids["agent"]) / nodes,
    }
    if live.daemons:
        daemons = [*pids["scheduler"], *pids["timer"]]
        found["daemons of a node, s/min"] = _daemons_s(idle) / minutes / nodes
        found["daemons of a node, MiB"] = pss_mib(daemons) / nodes
    read = cost_of(live, partial(read_metrics, live))
    found["metrics: controller, ms"] = read.beyond_ms(idle, "controller") / SCRAPES
    found["metrics, kB"] = read_metrics(live) / 1e3
    if live.daemons:
        found |= dashboard(live, seconds)
    for name, wide, count in (
        ("one node", 1, jobs),
        ("all nodes", nodes, max(1, jobs // 5)),
    ):
        cost = cost_of(live, partial(run_jobs, live, count, wide))
        for kind in ("controller", "agent"):
            ms = cost.beyond_ms(idle, kind) / count
            found[f"a job on {name}: {kind}, ms"] = ms
    return found


def run(options: argparse.Namespace) -> tuple[list[str], object]:
    """Returns a table with a column for each size, and the figures."""
    start = on_the_loopback if options.loopback else in_a_lab
    found: dict[int, dict[str, float]] = {}
    for nodes in options.nodes:
        with (
            interruptible(),
            tempfile.TemporaryDirectory(prefix="cosched-m-") as folder,
            start(Path(folder) / "run", nodes) as live,
        ):
            found[nodes] = measure(live, options.seconds, options.jobs)
    names = list(next(iter(found.values())))
    rows = [(name, *(f"{each[name]:.3f}" for each in found.values())) for name in names]
    heads = ("nodes", *map(str, found))
    return table(heads, rows, "<" + ">" * len(found)), found


def main() -> None:
    """Runs the benchmark."""
    bench = Bench("members", __doc__, "--nodes 4,16,64")
    add = bench.add_argument
    add("--nodes", type=numbers, default=[4, 16, 64], help="sizes (4,16,64)")
    add("--seconds", type=above_zero, default=60.0, help="of each idle time (60)")
    add("--jobs", type=positive, default=50, help="of one node; a fifth of all nodes (50)")
    add("--loopback", action="store_true", help="without a lab and daemons of nodes")
    bench.run(run)


if __name__ == "__main__":
    main()
