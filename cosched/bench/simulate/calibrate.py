"""Measures each program of a workload alone, as input for the simulator.

Each program runs twice: without cosched for its duration, and coscheduled for the counters
of its ranks: the number and length of waits and the size of messages. Alone, a job is
scheduled all the time, so all its waits are its own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TextIO

from cosched.bench.measure.speed import SpeedProbe, whole_cores
from cosched.bench.run import daemons
from cosched.bench.run.arms import Arm
from cosched.bench.run.interrupts import temporary_folder
from cosched.bench.run.processes import run_jobs
from cosched.bench.run.progress import Progress, open_progress
from cosched.bench.run.session import Session
from cosched.bench.run.testbed import TestbedOptions, open_testbed
from cosched.bench.run.watcher import Watcher
from cosched.bench.simulate.models import (
    EAGER_BYTES,
    EAGER_BYTES_OF_SOCKETS,
    Calibration,
    Model,
)
from cosched.bench.workload.file import JobInstance, load_workload
from cosched.core.decoding import is_whole
from cosched.core.errors import CoschedError
from cosched.core.trace.job_record import JobRecord
from cosched.launch.family import Family, Mpi
from cosched.sim.nodes.model import Pattern

#: Fewer messages a second count as none.
FEW_A_SECOND = 5.0

#: The first version of MPICH whose waits yield.
YIELDING_MPICH = 5

Counters = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Counted:
    """The measurements of one coscheduled run alone."""

    records: Sequence[JobRecord]  #: one for each node
    by_rank: Sequence[Counters]  #: the last counters that were seen, one table a rank


def calibrate(
    path: Path,
    options: TestbedOptions,
    repeats: int,
    environ: Mapping[str, str],
    log: TextIO,
) -> Calibration:
    """Measures the workload file ``path``. RunFailed if a program fails."""
    workload = load_workload(path)
    with open_testbed([workload], options, environ) as testbed:
        session = testbed.sessions[workload.title]
        with open_progress(log, []) as progress:
            session.warm_up((Arm.KERNEL, Arm.COSCHED), progress)
            found = {
                program.spec.name: _calibrate(session, program, repeats, progress)
                for program in workload.programs()
            }
        mpi = testbed.mpi
        programs, probe_us = at_one_speed(found)
        return Calibration(
            programs,
            nodes=len(testbed.site.hosts),
            lab=testbed.site.lab,
            eager_bytes=(
                EAGER_BYTES_OF_SOCKETS
                if mpi and mpi.family is Family.MPICH
                else EAGER_BYTES
            ),
            mpi=f"{mpi.family.title} {mpi.version}" if mpi else "",
            yields=mpi is not None and yields(mpi),
            probe_us=probe_us,
            origin=str(path),
        )


def yields(mpi: Mpi) -> bool:
    """Whether waiting ranks call sched_yield, as MPICH's do since version 5.

    Intel MPI belongs to MPICH's family, but its versions are years.
    """
    major = mpi.version.partition(".")[0]
    if mpi.family is not Family.MPICH or mpi.intel or not is_whole(major):
        return False
    return is_whole(major, YIELDING_MPICH)


def at_one_speed(
    found: Mapping[str, tuple[Model, float | None]],
) -> tuple[dict[str, Model], float | None]:
    """Returns the models, rescaled to the machine's speed in the first run. Pure.

    The second value is the probe's time in that run; None if a probe's time is unknown.
    """
    probes = [us for _, us in found.values() if us is not None]
    if not probes or len(probes) < len(found):
        return {name: model for name, (model, _) in found.items()}, None
    first_us = probes[0]
    scaled = {
        name: model.slower(first_us / us)
        for (name, (model, _)), us in zip(found.items(), probes, strict=True)
    }
    return scaled, first_us


def _calibrate(
    session: Session, instance: JobInstance, repeats: int, progress: Progress
) -> tuple[Model, float | None]:
    """Measures the program; also returns the probe's time that its times belong to."""
    progress.show(f"{instance.spec.name} alone")
    alone = [
        _run(session, instance, Arm.BATCH, Watcher(session, "", progress))
        for _ in range(repeats)
    ]
    watcher = Watcher(session, instance.name, progress)
    began_wall_ns = time.time_ns()
    took = _run(session, instance, Arm.COSCHED, watcher)
    records = daemons.records(session.launcher.site, {instance.name}, began_wall_ns)
    if not records:
        raise CoschedError(
            f"job '{instance.name}': none of its tasks took part in coscheduling; run it "
            "with 'cosched-run -v' to see why"
        )
    counted = Counted(records, [task["counters"] for task in watcher.tasks])
    alone_s = median(one.seconds_at(took.probe_us) for one in alone)
    model = model_of(instance.spec.model.pattern, alone_s, took.seconds, counted)
    return model, took.probe_us


def model_of(
    pattern: Pattern | None, alone_s: float, took_s: float, counted: Counted
) -> Model:
    """Returns the model from two runs: ``alone_s`` without cosched, ``took_s`` with it.

    Without a given pattern it is guessed: none if there are hardly any messages, otherwise
    bulk.
    """
    records = counted.records
    ranks = max(1, sum(len(record.ranks) for record in records))
    run_s = max(record.response_s - record.launch_s for record in records)
    sent = sum(record.sent for record in records) / ranks
    messages = round(sent)
    if pattern is not Pattern.WAVEFRONT:  # there, each message is a block's
        messages = round(_exchanges(sent, counted.by_rank))
    if messages < FEW_A_SECOND * run_s:
        messages = 0
    waits_s = [record.waited_s / max(1, len(record.ranks)) for record in records]
    waited_s = min(*waits_s, run_s)
    if pattern is None:
        pattern = Pattern.BULK if messages else Pattern.NONE
    return Model(
        pattern=pattern,
        alone_s=alone_s,
        launch_s=min(alone_s, max(0.0, took_s - run_s)),
        messages=messages,
        waited_s=waited_s if messages else 0.0,
        imbalance=_imbalance(waits_s, run_s) if messages else 0.0,
        bytes=round(_mean_bytes(counted.by_rank)),
    )


def _exchanges(sent: float, by_rank: Sequence[Counters]) -> float:
    """Returns how often a rank waits for a peer; one wait can cover several messages.

    The counters of the last look stand for all of the run. When ranks exchange messages all
    but the last one wait; a message that is there already counts as no wait.
    """
    seen = sum(counters["sent"] for counters in by_rank) / max(1, len(by_rank))
    waits = sum(counters["waits"] for counters in by_rank) / max(1, len(by_rank) - 1)
    if not seen or not waits:
        return sent
    return sent * min(1.0, waits / seen)


def _imbalance(waits_s: Sequence[float], run_s: float) -> float:
    return min(0.9, max(0.0, (max(waits_s) - min(waits_s)) / run_s)) if run_s else 0.0


def _mean_bytes(by_rank: Sequence[Counters]) -> float:
    sent = sum(counters["sent"] for counters in by_rank)
    return sum(counters["bytes_sent"] for counters in by_rank) / sent if sent else 0.0


@dataclass(frozen=True, slots=True)
class _Took:
    """The seconds from submission to end, and the probe's time in the same run."""

    seconds: float
    probe_us: float | None

    def seconds_at(self, probe_us: float | None) -> float:
        """Returns the seconds at that speed; unchanged if a speed is unknown."""
        if self.probe_us is None or probe_us is None:
            return self.seconds
        return self.seconds * probe_us / self.probe_us


def _run(session: Session, instance: JobInstance, arm: Arm, watcher: Watcher) -> _Took:
    submission = session.launcher.submission(instance, arm)
    cpus = whole_cores(session.launcher.site.cpus or frozenset())
    with (
        temporary_folder("cosched-calibrate-") as folder,
        SpeedProbe(cpus) as speed,
    ):
        (result,) = run_jobs([submission], None, folder, watcher.attend, session.limit_s)
    return _Took(result.ended_s - result.started_s, speed.probe_us)
