"""Runs the users' streams of Figs. 15 and 16 and Table 3 on a live domain of many nodes,
and sets the figures beside the simulator's.

The nodes share the CPUs of this machine, so the programs are paced: a job sleeps as long as
Table 1's problem computes, scaled (benchmarks/programs/paced.py). Everything else is real:
the domain, its agents, MPI, the changes of size and the data that moves. The simulator gets
the same jobs, and three figures as they were live: the mean time that a change took, the
mean time that its job stood still for it, and the time of a start: the median wait of the
jobs that do not wait in virtual time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.domain_lab import crowded_domain
from benchmarks.experiment import Bench, in_one_line, positive, write_json
from benchmarks.experiments.malleable.live_streams import (
    POLICIES,
    QUANTITIES,
    Stream,
    queue_of,
    simulated,
)
from benchmarks.experiments.verdicts import over_cases
from benchmarks.mpi import PROGRAMS, find
from benchmarks.progress_lines import counted_steps
from cosched import Client, Job
from cosched.cluster.answers import ChangeInfo, JobInfo
from cosched.core.cluster.queue.sizes.execution import AdaptationCost
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.sim.malleable.jobs import TEMPLATES
from cosched.tables import table


@dataclass(frozen=True, slots=True)
class Costs:
    """The times of the starts and changes of one live run."""

    least_ns: int  #: the shortest job, from its start to its end
    waits_ns: tuple[int, ...]  #: the wait of each job, from its submission to its start
    grown_ns: tuple[int, ...]  #: how long each job that grew stood still
    shrunk_ns: tuple[int, ...]  #: the same for jobs that shrank
    grown_after_ns: tuple[int, ...]  #: from the order of each growth to its end
    shrunk_after_ns: tuple[int, ...]  #: the same for jobs that shrank
    refused: int  #: changes after which a job was as before

    def stands(self) -> AdaptationCost:
        """Returns how long a job stands still, as the simulator's model of a change."""
        return _means(self.grown_ns, self.shrunk_ns)

    def lasts(self) -> AdaptationCost:
        """Returns the time from an order to the end of the change, as such a model."""
        return _means(self.grown_after_ns, self.shrunk_after_ns)


def _means(grown_ns: Sequence[int], shrunk_ns: Sequence[int]) -> AdaptationCost:
    base_ns = round(statistics.fmean(shrunk_ns or (0,)))
    more_ns = round(statistics.fmean(grown_ns or (0,))) - base_ns
    return AdaptationCost(base_ns, added_ns=max(0, more_ns))


def job_of(job: MalleableJob, rigid: bool, options: argparse.Namespace) -> Job:
    """Returns the paced program that a domain runs for a job of the stream."""
    seconds = job.walltime_ns / NS_PER_S
    words = ["--ideal", job.size, "--seconds", seconds, "--kilobytes", options.kilobytes]
    return Job(
        [sys.executable, str(PROGRAMS / "paced.py"), *map(str, words)],
        nodes=job.size if rigid else 0,
        ppn=1,
        minimum=0 if rigid else job.minimum,
        ideal=0 if rigid else job.size,
        time_s=seconds,
        name="paced",
        output=os.devnull,
        mpi=options.mpi,
        shim=False,
        cwd="/",
    )


def run(
    folder: Path, stream: Stream, policy: str, options: argparse.Namespace
) -> tuple[dict[str, float], Costs]:
    """Runs a stream on a domain of its own; returns its figures and changes."""
    rigid = policy.startswith("ideal-")
    with crowded_domain(folder / "run", stream.nodes, 1, queue_of(policy)) as lab:
        client = Client.connect(lab.run_dir, lab.nodes[0].name)
        began = time.monotonic()
        numbers = []
        for job in stream.jobs():  # they arrive at their times
            time.sleep(max(0.0, began + job.submit_ns / NS_PER_S - time.monotonic()))
            numbers.append(client.submit(job_of(job, rigid, options)))
        for number in numbers:
            client.wait(number)
        found = [client.job(number) for number in numbers]
    for each in found:
        if each["state"] != "done":
            how = f"{each['state']}: {each['reason']}"
            raise CoschedError(f"{policy}: job {each['job']} {how}")
    return live_figures(found), costs_of(found)


def live_figures(jobs: Sequence[JobInfo]) -> dict[str, float]:
    """Returns the quantities of ended jobs, as ``policies.figures`` defines them."""
    waits = _waits_ns(jobs)
    totals = [(each["ended_ns"] or 0) - each["submitted_ns"] for each in jobs]
    first = min(each["submitted_ns"] for each in jobs)
    last = max(each["ended_ns"] or 0 for each in jobs)
    return {
        "mean_wait_s": statistics.fmean(waits) / NS_PER_S,
        "mean_total_s": statistics.fmean(totals) / NS_PER_S,
        "throughput_per_h": len(jobs) * 3600 * NS_PER_S / (last - first),
    }


def _waits_ns(jobs: Sequence[JobInfo]) -> list[int]:
    return [(each["started_ns"] or 0) - each["submitted_ns"] for each in jobs]


def costs_of(jobs: Sequence[JobInfo]) -> Costs:
    """Returns the times that the domain has recorded with its jobs."""
    changes = [
        each
        for job in jobs
        for each in job["changes"]
        if each["ended_ns"] is not None and not each["refused"]
    ]
    grown = [each for each in changes if each["after"] > each["before"]]
    shrunk = [each for each in changes if each["after"] <= each["before"]]
    took_ns = [(job["ended_ns"] or 0) - (job["started_ns"] or 0) for job in jobs]
    refused = sum(bool(each["refused"]) for job in jobs for each in job["changes"])
    return Costs(
        min(took_ns),
        tuple(_waits_ns(jobs)),
        _stood(grown),
        _stood(shrunk),
        _after(grown),
        _after(shrunk),
        refused,
    )


def _stood(changes: Sequence[ChangeInfo]) -> tuple[int, ...]:
    return tuple(round(each["stood_s"] * NS_PER_S) for each in changes)


def _after(changes: Sequence[ChangeInfo]) -> tuple[int, ...]:
    return tuple((each["ended_ns"] or 0) - each["ordered_ns"] for each in changes)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Runs each policy several times, in turns; returns the document of the results."""
    live: dict[str, list[dict[str, float]]] = {name: [] for name in options.policies}
    beside: dict[str, list[dict[str, float]]] = {name: [] for name in options.policies}
    costs: dict[str, list[Costs]] = {name: [] for name in options.policies}
    steps = options.repeat * len(options.policies)
    with counted_steps("streams", steps) as advance:
        for seed in range(1, options.repeat + 1):
            stream = replace(options.stream, seed=seed)
            for policy in options.policies:
                with tempfile.TemporaryDirectory(prefix="cosched-m-") as folder:
                    found, changed = run(Path(folder), stream, policy, options)
                live[policy].append(found)
                costs[policy].append(changed)
                beside[policy].append(
                    simulated(
                        stream.jobs(),
                        stream.nodes,
                        policy,
                        changed.stands(),
                        changed.lasts(),
                        changed.least_ns,
                        changed.waits_ns,
                    )
                )
                advance()
    return {
        "command": options.command,
        "mpi": find(options.mpi).title,
        "stream": asdict(options.stream),
        "live": live,
        "simulated": beside,
        "changes": {name: [asdict(each) for each in costs[name]] for name in costs},
    }


def text_of(document: Mapping[str, Any]) -> str:
    """Returns the table of a document."""
    rows = []
    for policy, runs in document["live"].items():
        for quantity, title in QUANTITIES.items():
            ours = [each[quantity] for each in runs]
            theirs = [each[quantity] for each in document["simulated"][policy]]
            off = [
                one / other - 1.0 for one, other in zip(ours, theirs, strict=True) if other
            ]
            spread = over_cases(ours)
            rows.append(
                (
                    *(policy, title, f"{spread.middle:.2f}"),
                    *(f"{spread.low:.2f}-{spread.high:.2f}",),
                    f"{statistics.median(theirs):.2f}",
                    f"{statistics.median(off):+.0%}" if off else "-",
                )
            )
    head = ("policy", "figure", "live", "spread", "simulated", "live is")
    return "\n".join(table(head, rows, "<<>>>>"))


def main(words: Sequence[str] | None = None) -> None:
    bench = Bench("malleable_live", __doc__, "--out FOLDER --beta 0.7 --repeat 3")
    add = bench.add_argument
    add("policies", nargs="*", metavar="POLICY", help=f"of {', '.join(POLICIES)} (all)")
    add("--template", choices=TEMPLATES, default="ge", help="the problems (default ge)")
    add("--nodes", type=positive, default=16, help="of the domain (default 16)")
    add("--count", type=positive, default=24, help="jobs of a stream (default 24)")
    add("--beta", type=float, default=0.7, help="time between arrivals (default 0.7)")
    add("--percent", type=positive, default=25, help="minimum of the ideal (default 25)")
    add("--mean", type=float, default=12.0, help="run time of the mean job, s (default 12)")
    add("--kilobytes", type=positive, default=1024, help="that a job has (default 1024)")
    add("--mpi", help="the MPI, as in cosched-run")
    bench.add_repeat(3, "streams of each policy")
    bench.add_folder()
    options = bench.parse(words)
    options.policies = options.policies or list(POLICIES)
    for name in options.policies:
        if name not in POLICIES:
            bench.error(f"'{name}' is none of {', '.join(POLICIES)}")
    options.stream = Stream(
        options.template,
        options.count,
        options.nodes,
        options.beta,
        options.percent,
        options.mean,
        seed=1,
    )
    with in_one_line("malleable_live"):
        options.out.mkdir(parents=True, exist_ok=True)
        document = measure(options)
        write_json(options.out / "malleable_live.json", document)
        print(text_of(document))


if __name__ == "__main__":
    main()
