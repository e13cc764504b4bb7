"""Runs the jobs of a workload on simulated nodes, as a bench does in real time.

Every node has the live scheduler (``cosched.sim.nodes.driver``). Models describe the
programs (``models``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosched.bench.results.results import JobResult, Run
from cosched.bench.run.arms import Arm, Setup
from cosched.bench.run.progress import Progress
from cosched.bench.simulate.models import Calibration, load_calibration, program_of
from cosched.bench.workload.file import JobSpec, Workload
from cosched.core.errors import CoschedError
from cosched.core.node.settings import USUAL
from cosched.core.units import NS_PER_MS, NS_PER_S
from cosched.sim.nodes.model import Cluster, Program
from cosched.sim.nodes.node_runs import NodesRun, carry_out

#: Launchers of jobs that are submitted together start this far apart.
APART_NS = 2 * NS_PER_MS
#: A job's ranks register within this time of each other.
SPREAD_NS = 5 * NS_PER_MS
#: The simulator's name for each arm of the bench.
SIMULATED = {
    Arm.BATCH: "batch",
    Arm.KERNEL: "kernel",
    Arm.YIELD: "yield",
    Arm.GANG: "gang",
    Arm.MESSAGES: "messages",
    Arm.PAPER: "paper",
    Arm.STRICT: "cosched",
    Arm.PROPORTIONAL: "cosched",
    Arm.COSCHED: "cosched",
}


def calibration_of(workload: Path, given: Path | None) -> Calibration:
    """Returns the calibration in ``given``, or the one beside the workload, if any."""
    beside = default_calibration(workload)
    if given is None and not beside.exists():
        return Calibration({})
    return load_calibration(given or beside)


def default_calibration(workload: Path) -> Path:
    """Returns the default place of a workload file's calibration."""
    return workload.with_suffix(".calibration.toml")


def cluster_of(calibration: Calibration, nodes: int, fills: bool = True) -> Cluster:
    """Returns nodes like those of the calibration."""
    return Cluster(nodes, spread_ns=SPREAD_NS, fills=fills, same_ticks=calibration.lab)


def programs_of(
    workload: Workload, calibration: Calibration, cluster: Cluster
) -> tuple[Program, ...]:
    """Returns the workload's jobs, in order of submission."""
    return tuple(
        program_of(
            instance.name,
            instance.spec.model.over(_calibrated(calibration, instance.spec)),
            cluster,
            count=len(_place(instance.spec, cluster.nodes, workload.origin)),
            first=instance.spec.first - 1,
            submit_ns=round(instance.start_s * NS_PER_S) + place * APART_NS,
            eager_bytes=calibration.eager_bytes,
        )
        for place, instance in enumerate(workload.instances())
    )


def _calibrated(calibration: Calibration, spec: JobSpec) -> Any:
    return calibration.programs.get(spec.name, type(spec.model)())


def _place(spec: JobSpec, nodes: int, origin: str) -> range:
    """Returns the nodes of a job, as cosched bench places it."""
    place = spec.place(nodes)
    if place.stop > nodes:
        at = f"at ppn = {spec.ppn}" if spec.first == 1 else f"from node {spec.first} on"
        raise CoschedError(
            f"{origin}, job '{spec.name}': {spec.ranks} ranks do not fit on {nodes} nodes "
            f"{at}; give more --nodes"
        )
    return place


@dataclass(frozen=True, slots=True)
class VirtualSession:
    """Runs one workload on simulated nodes, as ``session.Session`` does on real ones."""

    workload: Workload  #: the jobs of each run
    calibration: Calibration  #: the models of the programs
    nodes: int  #: the number of simulated nodes

    def warm_up(self, arms: Iterable[Arm], progress: Progress) -> None:
        """Does nothing: a simulation needs no warm-up."""

    def run_once(self, setup: Setup, repeat: int, progress: Progress) -> Run:
        """Runs the workload once; the repeat is the seed."""
        run = self.run_of(setup, repeat)
        outcome = carry_out(run, lambda _share: progress.redraw())
        submits_s = [program.submit_ns / NS_PER_S for program in run.programs]
        return Run(
            setup.arm,
            repeat,
            tuple(
                JobResult(
                    name=program.name,
                    submitted_s=submit_s,
                    started_s=submit_s + wait_s,
                    ended_s=submit_s + response_s,
                    cpu_s=(program.launch_ns + program.work_ns) * program.count / NS_PER_S,
                )
                for program, submit_s, wait_s, response_s in zip(
                    run.programs,
                    submits_s,
                    outcome.waits_s,
                    outcome.responses_s,
                    strict=True,
                )
            ),
        )

    def run_of(self, setup: Setup, seed: int) -> NodesRun:
        """Returns the input of the simulator."""
        arm = SIMULATED.get(setup.arm)
        if setup.arm is Arm.KERNEL and self.calibration.yields:
            arm = SIMULATED[Arm.YIELD]
        if arm is None:
            raise CoschedError(
                f"arm {setup.arm.value}: cannot be simulated; run cosched bench"
            )
        cluster = cluster_of(self.calibration, self.nodes, setup.arm is not Arm.STRICT)
        programs = programs_of(self.workload, self.calibration, cluster)
        settings = USUAL.changed(dict(setup.settings))
        return NodesRun(arm, programs, cluster, settings, seed, setup.jobs_at_a_time)


@dataclass(frozen=True, slots=True)
class VirtualGround:
    """Simulated nodes in the place of ``testbed.Testbed``."""

    sessions: Mapping[str, VirtualSession]  #: by the titles of their workloads
    nodes: tuple[Mapping[str, Any], ...]  #: the name of each node, for the document
    calibration: Calibration  #: the models of the programs

    def context(self) -> dict[str, Any]:
        """Returns the conditions of the runs, for the document."""
        return {
            "simulated": True,
            "calibration": self.calibration.origin,
            "mpi": self.calibration.mpi or None,
            "nodes": list(self.nodes),
        }

    def made_with(self) -> dict[str, Any]:
        """Returns what must be equal if runs are to be compared (see run_store.py)."""
        jobs = {
            title: repr(
                programs_of(
                    session.workload,
                    self.calibration,
                    cluster_of(self.calibration, session.nodes),
                )
            )
            for title, session in self.sessions.items()
        }
        return {**self.context(), "workload": jobs}

    def setting(self) -> str:
        """Returns one line: the programs and the nodes."""
        by = f", {self.calibration.mpi}" if self.calibration.mpi else ""
        return f"{len(self.nodes)} simulated nodes{by}"


def virtual_testbed(
    workload: Workload, calibration: Calibration, nodes: int
) -> VirtualGround:
    """Returns simulated nodes for the workload. CoschedError if a job lacks a model."""
    programs_of(workload, calibration, cluster_of(calibration, nodes))
    session = VirtualSession(workload, calibration, nodes)
    names = tuple({"name": f"node{number}"} for number in range(1, nodes + 1))
    return VirtualGround({workload.title: session}, names, calibration)
