"""Runs a stream of malleable jobs through several policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cosched.core.cluster.queue.sizes.execution import EXECUTIONS
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob
from cosched.core.cluster.queue.sizes.settings import Control
from cosched.core.cluster.queue.sizes.suspension import Suspension
from cosched.core.errors import CoschedError
from cosched.documents import read_json
from cosched.sim.logs.fit import generate_like, model_of
from cosched.sim.logs.log_models import MODELS
from cosched.sim.logs.swf import Log, read_swf
from cosched.sim.malleable.driver import MalleableSchedule
from cosched.sim.malleable.jobs import TEMPLATES, malleable, users_jobs
from cosched.sim.malleable.policies import (
    HARVESTING,
    figures,
    no_worse,
    run_stream,
)
from cosched.sim.malleable.true_times import KNOWN_WORD, knowledge_of
from cosched.sim.virtual_time import Progress, no_progress, part_of

#: The cluster of the paper's user-centric experiments.
USERS_NODES = 64


@dataclass(frozen=True, slots=True)
class Source:
    """The source of jobs: a log, a model of one (a file or a name), or Table 1's users."""

    name: str  #: a file, or a name of MODELS or TEMPLATES
    count: int  #: the number of generated jobs; a log has its own
    seed: int  #: draws the generated jobs, and the malleable ones of a log
    #: Time between two of Table 1's arrivals, as a multiple of the machine's time for the
    #: mean job.
    beta: float
    machine: int | None  #: nodes; None: as in the log or the model, and 64 for Table 1
    strict: bool  #: the first bad line of a log is an error
    load: float | None = None  #: the load of a model of a log; None: its own
    most: int = 100  #: ideal of a malleable job in a log, in percent of its size there
    #: Its preferred size, in percent of its size in the log; None: its ideal.
    preferred: int | None = None

    @property
    def generated(self) -> bool:
        """Whether another seed makes other jobs."""
        return self.users or self.modelled

    @property
    def modelled(self) -> bool:
        """Whether the jobs are those of a model of a log."""
        return self.name in MODELS or self.name.endswith(".json")

    @property
    def users(self) -> bool:
        """Whether the jobs are Table 1's."""
        return self.name in TEMPLATES

    def jobs(
        self, percent: int, execution: str, share: int = 100
    ) -> tuple[list[MalleableJob], int]:
        """Returns the jobs and the number of nodes. Table 1's jobs are always parabolic,
        and all malleable."""
        if self.users:
            nodes = self.machine or USERS_NODES
            template = TEMPLATES[self.name]
            return (
                users_jobs(template, self.count, nodes, self.beta, percent, self.seed),
                nodes,
            )
        if not self.generated:
            if not Path(self.name).exists() and not Path(self.name).suffix:
                known = ", ".join((*MODELS, *TEMPLATES))
                raise CoschedError(f"{self.name}: neither a file nor one of {known}")
            log = self._read().workload
        else:
            model = MODELS.get(self.name) or model_of(read_json(Path(self.name)), self.name)
            if self.load is not None:
                model = model.at_load(self.load)
            log = generate_like(model, self.count, self.seed, self.machine)
        kind = EXECUTIONS[execution]
        jobs = malleable(
            log, percent, kind, share, self.most, self.seed, preferred=self.preferred
        )
        return jobs, log.machine

    def skipped_lines(self) -> dict[str, int]:
        """Returns how many lines of a log are left out, by the words for their fault."""
        return {} if self.generated else self._read().skipped_lines()

    def _read(self) -> Log:
        return read_swf(Path(self.name), machine=self.machine, strict=self.strict)


@dataclass(frozen=True, slots=True)
class Case:
    """A policy and its parameters."""

    policy: str  #: a name of policies.py
    #: The degree of multiprogramming that admission tries to reach; None: no limit, or a
    #: policy without a degree.
    degree: int | None
    percent: int  #: a job's least size, as a percentage of that in the log
    share: int = 100  #: the percentage of the jobs that are malleable; Table 1's all are
    predict: str = KNOWN_WORD  #: the queue's knowledge of run times, a word of true_times

    @property
    def label(self) -> str:
        """The name in tables."""
        if self.policy not in HARVESTING:
            return self.policy
        return f"{self.policy} M={'none' if self.degree is None else self.degree}"


@dataclass(frozen=True, slots=True)
class MalleableRun:
    """A stream of jobs that runs under all cases, so that they compare job by job."""

    source: Source  #: the origin of the jobs
    execution: str  #: a name of EXECUTIONS; Table 1's jobs ignore it
    control: Control  #: limits of changes, for all cases
    cases: tuple[Case, ...]  #: in the order of the figures
    #: The queues to compare each job with, names of QUEUES.
    references: tuple[str, ...] = ()
    #: When jobs are suspended, for all cases without EASY; None: never.
    suspension: Suspension | None = None

    @property
    def name(self) -> str:
        """The name in the progress display."""
        seed = f" #{self.source.seed}"
        return f"{Path(self.source.name).name}{seed} {self.execution}"


@dataclass(frozen=True, slots=True)
class MalleableOutcome:
    """The result of a run."""

    run: MalleableRun  #: the input
    nodes: int  #: the machine's nodes
    figures: tuple[dict[str, float], ...]  #: one table for each case, in order


def carry_out(run: MalleableRun, progress: Progress = no_progress) -> MalleableOutcome:
    """Makes the jobs and runs them through all cases.

    A case's figures have ``no_worse_than_...`` for each reference: the share of the jobs
    that are done no later than under it.
    """
    found: dict[Case, dict[str, float]] = {}
    nodes = 0
    # A queue ignores the minimum: its schedule is the same at every percent. Malleable jobs
    # may have another ideal than rigid ones, so it differs by their share.
    references: dict[tuple[str, int], MalleableSchedule] = {}
    for percent, share in dict.fromkeys((one.percent, one.share) for one in run.cases):
        jobs, nodes = run.source.jobs(percent, run.execution, share)
        for name in run.references:
            if (name, share) not in references:
                references[name, share] = run_stream(jobs, nodes, name)
        for case in run.cases:
            if (case.percent, case.share) == (percent, share):
                schedule = run_stream(
                    jobs,
                    nodes,
                    case.policy,
                    case.degree,
                    run.control,
                    run.suspension,
                    knowledge_of(case.predict),
                    run.source.seed,
                    progress=part_of(progress, len(found), len(run.cases)),
                )
                found[case] = figures(schedule)
                for name in run.references:
                    reference = references[name, share]
                    found[case][f"no_worse_than_{name}"] = no_worse(schedule, reference)
                progress(len(found) / len(run.cases))
    return MalleableOutcome(run, nodes, tuple(found[case] for case in run.cases))


def cases_of(
    policies: Sequence[str],
    degrees: Sequence[int | None],
    percents: Sequence[int],
    shares: Sequence[int] = (100,),
    predict: Sequence[str] = (KNOWN_WORD,),
) -> tuple[Case, ...]:
    """Returns every combination that makes a difference.

    A baseline has no degree of multiprogramming.
    """
    cases = [
        Case(policy, degree if policy in HARVESTING else None, percent, share, word)
        for percent in percents
        for share in shares
        for word in predict
        for policy in policies
        for degree in degrees
    ]
    return tuple(dict.fromkeys(cases))


def repeated(run: MalleableRun, traces: int) -> list[MalleableRun]:
    """Returns the run with several seeds; a run of a log comes once, if all of its jobs or
    none are malleable, and no program predicts."""
    drawn = any(
        case.share not in (0, 100) or knowledge_of(case.predict).off for case in run.cases
    )
    if not run.source.generated and not drawn:
        return [run]
    seeds = range(run.source.seed, run.source.seed + traces)
    return [replace(run, source=replace(run.source, seed=seed)) for seed in seeds]


def means(outcomes: Sequence[MalleableOutcome]) -> dict[Case, dict[str, float]]:
    """Returns the figures of each case, averaged over outcomes of the same cases."""
    cases = outcomes[0].run.cases
    return {
        case: {
            name: sum(outcome.figures[place][name] for outcome in outcomes) / len(outcomes)
            for name in outcomes[0].figures[place]
        }
        for place, case in enumerate(cases)
    }
