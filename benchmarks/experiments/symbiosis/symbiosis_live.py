"""Runs the prototype's experiment live: section 2.4 of Weinberg and Snavely (ICS 2006).

Streams of 100 small and large jobs run on four lab nodes with an emulated bus and disk,
once on whole nodes and once under each placement on halves. At most twelve jobs wait at a
time, and large ones go first. The simulator gets the same streams, and the speeds of the
programs beside each other as they were measured before.

The nodes share the CPUs of this machine, so the programs only draw from the emulated nodes
and sleep (benchmarks/kernels/c/limited.c). All else is real: the domain, its agents and
daemons, MPI, the looks from which "learned" learns. No job gives way to another one here,
as in the paper.

A stream that --out has is not run again. --docs rewrites the part symbiosis-live of a page.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.domain_lab import shared_domain
from benchmarks.experiment import (
    Bench,
    above_zero,
    in_one_line,
    positive,
    write_json,
)
from benchmarks.experiments.section import check, rewrite
from benchmarks.experiments.stored import keep
from benchmarks.experiments.symbiosis.limited_jobs import (
    Speeds,
    build_programs,
    emulated_nodes,
    words_of,
)
from benchmarks.experiments.symbiosis.live_report import (
    ARMS,
    PART,
    WHOLE,
    section,
    stored,
    text_of,
)
from benchmarks.mpi import find
from benchmarks.progress_lines import counted_steps
from benchmarks.results import Results
from cosched import Client, Job
from cosched.cluster.answers import JobInfo, PairInfo
from cosched.config.queue import QueueSettings
from cosched.config.symbiosis import SymbiosisSettings
from cosched.core.cluster.queue.halves.placement import ALL
from cosched.core.errors import CoschedError
from cosched.core.symbiosis.resources import Resource
from cosched.core.units import NS_PER_S
from cosched.sim.symbiotic.matrix import Model, model_document
from cosched.sim.symbiotic.stream import StreamJob, StreamRecipe, make_stream
from cosched.sim.symbiotic.symbiotic_runs import (
    PROTOTYPE,
    Shared,
    SharingRun,
    compared_jobs,
    figures_of,
    simulate,
)

NODES = 4
#: The most jobs that wait at a time.
QUEUE_LIMIT = 12
#: The time between two looks at the queue.
PAUSE_S = 0.05
#: A job that takes longer is ended, beyond its time limit.
_GRACE_NS = 120 * NS_PER_S


@dataclass(frozen=True, slots=True)
class Live:
    """A stream that ran live."""

    shared: Shared  #: the times of its jobs
    pairs: Sequence[PairInfo]  #: what the domain learned


class Machine:
    """The programs and the speeds of one command."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._options = options
        self.mpi = find(options.mpi)
        self._programs = build_programs(self.mpi, folder)
        speeds = Speeds(self.mpi, self._programs, options.measure)
        self.model, self._rates = speeds.measure()

    def run(self, folder: Path, stream: Sequence[StreamJob], arm: str) -> Live:
        """Runs a stream on a domain of its own."""
        queue = QueueSettings("largest", grace_ns=_GRACE_NS)
        symbiosis = SymbiosisSettings(slowed_most=0.0, share_up_to=ALL)
        if arm != WHOLE:
            symbiosis = replace(symbiosis, parts=2, placement=arm)
        with (
            shared_domain(folder / "run", NODES, queue, symbiosis) as lab,
            emulated_nodes([node.name for node in lab.nodes]) as nodes,
        ):
            client = Client.connect(lab.run_dir, lab.nodes[0].name)
            jobs = [client.prepare(self._job(entry, nodes)) for entry in stream]
            numbers = []
            for job in jobs:
                while _waiting(client) >= QUEUE_LIMIT:
                    time.sleep(PAUSE_S)
                numbers.append(client.submit(job))
            for number in numbers:
                client.wait(number)
            found = [client.job(number) for number in numbers]
            pairs = [] if arm == WHOLE else client.pairs()
        return Live(shared_of(found), pairs)

    def _job(self, entry: StreamJob, nodes: Path) -> Job:
        kind, job = entry.job.application, entry.job
        seconds = entry.run_ns / NS_PER_S
        return Job(
            words_of(self._programs[kind], seconds, self._rates[kind], nodes),
            ranks=job.size,
            time_s=job.walltime_ns / NS_PER_S,
            name=kind,
            limited_by=[each.value for each in Resource if each in job.limits],
            output=os.devnull,
            mpi=self._options.mpi,
            cwd="/",
        )


def _waiting(client: Client) -> int:
    return sum(job["state"] == "queued" for job in client.queue())


def shared_of(jobs: Sequence[JobInfo]) -> Shared:
    """Returns the times of ended jobs, from the first submission on. Raises CoschedError if
    one did not end well."""
    for job in jobs:
        if job["state"] != "done":
            how = f"{job['state']}: {job['reason']}"
            raise CoschedError(f"job {job['job']} ({job['name']}) {how}")
    first = min(job["submitted_ns"] for job in jobs)

    def times(name: str) -> array[int]:
        return array("q", [(job[name] or 0) - first for job in jobs])  # type: ignore[literal-required]

    submitted, started = times("submitted_ns"), times("started_ns")
    return Shared(submitted, started, times("ended_ns"), (), {}, ())


def overhead_ns(stream: Sequence[StreamJob], lives: Sequence[Shared]) -> int:
    """Returns what a start and an end add to a job: by the jobs that nothing slows."""
    added = [
        one.end_ns[place] - one.start_ns[place] - entry.run_ns
        for one in lives
        for place, entry in enumerate(stream)
        if entry.job.limits == frozenset({Resource.CPU})
    ]
    return max(0, round(statistics.median(added))) if added else 0


def simulated(
    stream: Sequence[StreamJob], model: Model, recipe: StreamRecipe, added_ns: int
) -> dict[str, Shared]:
    """Returns the same stream in virtual time. added_ns: to each job's time."""
    run = SharingRun(model, recipe, NODES, queue_limit=QUEUE_LIMIT, placements=ARMS)
    longer = [replace(entry, run_ns=entry.run_ns + added_ns) for entry in stream]
    return {arm: simulate(run, longer, NODES, arm) for arm in ARMS}


def all_figures(
    stream: Sequence[StreamJob], shared: Mapping[str, Shared]
) -> dict[str, dict[str, float]]:
    """Returns the figures of each arm."""
    compared = compared_jobs(stream, shared[PROTOTYPE])
    return {arm: figures_of(stream, one, compared) for arm, one in shared.items()}


@dataclass(frozen=True, slots=True)
class StreamRun:
    """A stream that runs once under each arm."""

    mpi: str  #: its title
    recipe: StreamRecipe  #: with the seed of the stream


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns the results of each stream; runs those that the folder lacks."""
    seeds = range(options.seed, options.seed + options.repeat)
    recipes = [replace(options.recipe, seed=seed) for seed in seeds]
    wanted = [StreamRun(find(options.mpi).title, recipe) for recipe in recipes]
    results = Results(options.out / "symbiosis_live.jsonl")
    left = results.left(wanted)
    if left:
        _run_streams(options, left, results)
    return [results.last(run) for run in wanted]


def _run_streams(
    options: argparse.Namespace, left: Sequence[StreamRun], results: Results
) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="cosched-s-") as folder,
        counted_steps("streams", len(left) * len(ARMS)) as advance,
    ):
        machine = Machine(options, Path(folder))
        for run in left:
            stream = make_stream(run.recipe, machine.model)
            lives = {}
            for arm in ARMS:
                place = Path(folder) / f"{run.recipe.seed}-{arm}"
                lives[arm] = machine.run(place, stream, arm)
                advance()
            results.add(run, run_of(run.recipe, stream, lives, machine.model))


def run_of(
    recipe: StreamRecipe,
    stream: Sequence[StreamJob],
    lives: Mapping[str, Live],
    model: Model,
) -> dict[str, Any]:
    """Returns the results of a stream, live and simulated."""
    shared = {arm: live.shared for arm, live in lives.items()}
    added_ns = overhead_ns(stream, list(shared.values()))
    virtual = simulated(stream, model, recipe, added_ns)
    return {
        "seed": recipe.seed,
        "model": model_document(model),
        "added_s": added_ns / NS_PER_S,
        "live": all_figures(stream, shared),
        "simulated": all_figures(stream, virtual),
        "pairs": {arm: list(live.pairs) for arm, live in lives.items()},
    }


def main(words: Sequence[str] | None = None) -> None:
    bench = Bench("symbiosis_live", __doc__, "--out FOLDER --repeat 3")
    add = bench.add_argument
    add("--count", type=positive, default=100, help="jobs of a stream (default 100)")
    add("--least", type=above_zero, default=1.6, help="shortest run, s (default 1.6)")
    add("--most", type=above_zero, default=16.0, help="longest run, s (default 16)")
    add("--measure", type=above_zero, default=2.0, help="s for each speed (default 2)")
    add("--seed", type=positive, default=1, help="of the first stream (default 1)")
    add("--mpi", help="the MPI, as in cosched-run")
    bench.add_repeat(3, "streams under each placement")
    bench.add_folder()
    bench.add_page()
    options = bench.parse(words)
    with in_one_line("symbiosis_live"):
        span = (options.least, options.most)
        options.recipe = StreamRecipe(jobs=options.count, run_s=span)
        options.out.mkdir(parents=True, exist_ok=True)
        if options.docs is not None:
            check(options.docs, PART)
        runs = measure(options)
        document = {"command": options.command, "runs": runs}
        write_json(options.out / "symbiosis_live.json", document)
        text = text_of(runs)
        (options.out / "symbiosis_live.txt").write_text(text + "\n")
        print(text)
        if options.docs is not None:
            rewrite(options.docs, PART, section(runs))
            keep(options.docs, stored(options.docs, runs))


if __name__ == "__main__":
    main()
