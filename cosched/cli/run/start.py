"""Starts the job of cosched-run: the ranks' environment, the launcher, the account."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from cosched.cli.run.given import Given
from cosched.cli.run.hosts import choose_hosts
from cosched.cli.run.label import label_text
from cosched.cli.run.placement import place_of, ranks_stay_here
from cosched.cli.run.plan import headline, plan_json, plan_text
from cosched.cli.run.reports import note, warn
from cosched.cli.run.site import check_hosts, find_site, lease_here, local_nodes
from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple
from cosched.jobs.choices import Choices
from cosched.jobs.expected import Lengths
from cosched.jobs.job_nodes import JobNodes, write_job_nodes
from cosched.jobs.rank_environment import Wanted, rank_environment
from cosched.jobs.reporting import Reports
from cosched.launch.crowd import crowd_text
from cosched.launch.environment import (
    command_ns,
    default_job_name,
    launcher_environment,
)
from cosched.launch.given.batch_job import EngineJob, engine_job
from cosched.launch.given.hosts import Hosts
from cosched.launch.mpi import SearchPath
from cosched.launch.process import exit_like, run_launcher
from cosched.launch.resolved_job import Request, ResolvedJob, resolve, starts_ranks_itself
from cosched.launch.shm_room import shm_text
from cosched.linux.here import this_machine
from cosched.linux.homes import state_directory
from cosched.node.lifetime.private_pair import StartingPair
from cosched.rundir.paths import NodePaths

_NOISE_BYTES = 4


class Start(NamedTuple):
    """A job that is to be started."""

    given: Given  #: the user's options
    choices: Choices  #: how the job takes part in coscheduling
    job: ResolvedJob  #: how the job is started
    name: str  #: the job's name on its nodes
    announced: bool  #: it takes part on this node already, by this process
    starting: StartingPair | None  #: private daemons whose start has begun
    #: The run directory that the user named; None: the usual one of each node.
    named_run_dir: Path | None
    stays_here: bool  #: all ranks run on this node
    place: JobNodes | None  #: where the ranks run if not here; None: not known
    lengths: Lengths  #: how long earlier jobs ran

    def task_environment(self) -> Mapping[str, str]:
        """Returns the variables for the ranks."""
        given = self.given
        if given.asked.no_shim:
            return {}
        wanted = None
        if given.asked.coschedules:
            wanted = Wanted(
                self.name,
                self._run_dir_of_ranks(),
                given.memory_bytes,
                self.lengths.expectation(self.job, given.time_ns),
                command_ns(),
                registers_in_init=given.register == "init",
            )
        return rank_environment(
            self.job,
            self.choices,
            wanted,
            os.environ,
            Reports(warn, note),
            verbose=given.verbose,
        )

    def carry_out(self, tasks: Mapping[str, str]) -> int:
        """Runs the launcher; returns its exit status."""
        run_dir, job = self.given.run_dir, self.job
        if "COSCHED_JOB" in tasks:
            jobs_per_user = self.choices.jobs_per_user
            wanted = (run_dir, self.name, jobs_per_user, self.given.memory_bytes)
            if self.stays_here:
                lease = lease_here(
                    *wanted,
                    self._take_failure,
                    there=self.announced,
                    starting=self.starting,
                )
                tasks = tasks if lease else {}
            else:
                if self.starting is not None:
                    self.starting.let_be()
                without = check_hosts(job.site, *wanted, there=self.announced)
                self._check_nodes(without)
        if self.given.verbose:
            print(f"cosched-run: {headline(job, self.name, tasks)}", file=sys.stderr)
        self._remember_nodes(tasks)
        began_wall_ns = time.time_ns()
        status_word = self._run(tasks)
        if "COSCHED_JOB" in tasks:
            nodes = local_nodes(job.site, run_dir)
            if self.given.account or self.given.verbose:
                self._print_account(nodes, began_wall_ns)
            if status_word == 0:
                self.lengths.add(job, self.name, nodes, began_wall_ns)
        elif self.given.account:
            from cosched.cli.run.account import print_none

            print_none(self.name)
        return exit_like(status_word)

    def _run(self, tasks: Mapping[str, str]) -> int:
        """Runs the launcher; returns its wait status as wait(2) defines it."""
        command = self.job.command(tasks)
        starting: Mapping[str, str] = {}
        if self._has_ranks_here():
            virtual = self.job.site.agent is not None
            starting = launcher_environment(tasks, inside=virtual)
        sys.stdout.flush()
        sys.stderr.flush()
        return run_launcher(
            command.argv,
            {**os.environ, **starting, **command.environ},
            death_signal=self.job.death_signal,
        )

    def _has_ranks_here(self) -> bool:
        """Whether ranks run where the launcher does, as far as that is known."""
        hosts = () if self.place is None else self.place.hosts
        return not hosts or this_machine().is_one_meant_by(hosts)

    def _print_account(self, nodes: Sequence[NodePaths], began_wall_ns: int) -> None:
        from cosched.cli.jobs.elsewhere import way_to
        from cosched.cli.run.account import print_account

        way = way_to(self.name, (), self.given.run_dir) if self.place else None
        of = len(way.nodes) if way else max(1, len(self.job.site.names))
        print_account(nodes, way, self.name, began_wall_ns, of=of)

    def _run_dir_of_ranks(self) -> Path | None:
        virtual = self.job.site.agent is not None
        return self.given.run_dir if self.stays_here or virtual else self.named_run_dir

    def _remember_nodes(self, tasks: Mapping[str, str]) -> None:
        """Records where the job runs, for 'cosched suspend' and the like."""
        if self.place is None or "COSCHED_JOB" not in tasks:
            return
        state = state_directory(os.environ)
        if state is None:
            return
        try:
            write_job_nodes(state, self.name, self.place)
        except CoschedError as error:
            warn(f"{error}; name the nodes with --hosts to ask about this job")

    def _take_failure(self, message: str) -> None:
        """Reports that this node coschedules nothing; an error if the job needs it."""
        if self.choices.needs_all:
            raise CoschedError(f"{message}, and the job needs all its nodes")
        warn(message)

    def _check_nodes(self, without: Sequence[str]) -> None:
        """Raises CoschedError for nodes without a daemon if the job needs them. Otherwise
        rank 0 names them."""
        if not without or not self.choices.needs_all or not self.job.site.names:
            return
        node = without[0]
        lab = self.job.site.agent is not None
        where = f"cosched lab exec {node} " if lab else ""
        raise CoschedError(
            f"node {node}: no daemon answers, and the job needs all its nodes; "
            f"run: {where}cosched up"
        )


def start(
    given: Given, announced: str | None = None, starting: StartingPair | None = None
) -> int:
    """Runs a job to its end; returns its exit status.

    announced: the name of the job if this node's daemon has it already. starting: private
    daemons of this node whose start has begun."""
    if given.domain:
        from cosched.cli.run.domain import run_in_domain

        return run_in_domain(given)
    os.getcwd()  # fails if it was removed: launchers then print many lines, or none
    return _run_here(given, announced, starting)


def _run_here(given: Given, announced: str | None, starting: StartingPair | None) -> int:
    """Starts a job by an MPI's own launcher; returns its exit status."""
    choices = given.asked.choices()
    if given.asked.coschedules and (warning := label_text(os.environ)):
        warn(warning)
    engine = engine_job(os.environ)
    chosen = choose_hosts(
        given.hosts, given.hostfile, None if starts_ranks_itself(given.argv) else engine
    )
    resolved = _resolve(
        Request(
            given.argv,
            given.ranks or chosen.ranks,
            given.ppn,
            given.mpi,
            root=os.geteuid() == 0,
        ),
        given.run_dir,
        chosen.hosts,
    )
    stays_here = ranks_stay_here(resolved, engine, this_machine(), os.environ)
    layout = resolved.layout
    if stays_here and layout is not None:
        crowd = crowd_text(layout.ranks, len(os.sched_getaffinity(0)))
        if crowd:
            warn(crowd)
        if room := shm_text():
            warn(room)
    is_named = given.names_run_dir or bool(os.environ.get("COSCHED_RUN_DIR"))
    job = Start(
        given,
        choices,
        resolved,
        name=announced or given.name or _usual_name(resolved.label, engine),
        announced=announced is not None,
        starting=starting,
        named_run_dir=given.run_dir if is_named else None,
        stays_here=stays_here,
        place=None if stays_here else place_of(resolved, engine, os.environ),
        lengths=Lengths(warn),
    )
    tasks = job.task_environment()
    if given.dry_run:
        as_planned = plan_json(resolved, job.name, tasks)
        print(as_planned if given.as_json else plan_text(resolved, tasks))
        return 0
    return job.carry_out(tasks)


def _resolve(request: Request, run_dir: Path, hosts: Hosts) -> ResolvedJob:
    """Returns how the ranks are started; prints the warnings about it."""
    places = SearchPath(Path(sys.executable).parent, os.environ)
    resolved = resolve(request, find_site(run_dir, hosts), places)
    for warning in resolved.warnings:
        warn(warning)
    return resolved


def _usual_name(label: str, engine: EngineJob | None) -> str:
    number = "" if engine is None else engine.label
    return default_job_name(label, os.urandom(_NOISE_BYTES), number)
