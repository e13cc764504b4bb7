"""Sends a job for ``cosched submit``, and waits for it if the user wants that."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from cosched.cli.connection import Connector
from cosched.cli.domain.batch_command import NO_SCRIPT, Script
from cosched.cli.domain.waiting import Ended, Sizes, run_array_to_end, run_to_end
from cosched.cluster.client import Client, NoDomain
from cosched.cluster.paths import DomainPaths
from cosched.cluster.submission import Submission
from cosched.cluster.user_requests import JOB_VARIABLE
from cosched.core.arrays import parse_array
from cosched.core.names import member_of
from cosched.jobs.job import Job
from cosched.jobs.preparing import prepare
from cosched.jobs.reporting import Reports
from cosched.launch.crowd import crowd_text
from cosched.launch.shm_room import shm_text
from cosched.linux.processes.limits import what_holds_back
from cosched.linux.system_text import to_wire
from cosched.rundir.lock import lock_holder

if TYPE_CHECKING:
    from cosched.cluster.answers import JobInfo

_SLOTS_AND_MOST: tuple[Literal["slots"], Literal["tasks_most"]] = ("slots", "tasks_most")


@dataclass(frozen=True)
class Sending:
    """A job that is to be sent to a domain."""

    job: Job  #: the job as the user described it
    run_dir: Path  #: the run directory of the domain
    #: A descriptor that is the job's standard input while it runs; None: it has another
    #: one.
    source: int | None = None
    script: Script = NO_SCRIPT  #: its batch script, or none

    def submit(self) -> int:
        """Submits the job; returns its number, of an array that of its first task."""
        with self._connect_or_start() as client:
            return client.submit(self._prepare(client))

    def _prepare(self, client: Client) -> Submission:
        for note in self.script.notes:
            _REPORTS.warn(note)
        job = self.job
        if self.script.environ:
            given = os.environ if job.environ is None else job.environ
            job = replace(job, environ={**given, **self.script.environ})
        if self.script.slurm:
            job = replace(job, slurm_variables=True)
        if job.total == 1 and self.script.slots > 1:
            client.check_fits_a_node(self.script.slots)
            job = replace(job, cpus=self.script.slots)
        submission = prepare(client, job, _REPORTS)
        if self.script.text:
            script = to_wire(self.script.text)
            submission = msgspec.structs.replace(submission, script=script)
        self._warn_of_crowd(client)
        if submission.pmi != "none" and (text := shm_text()):
            _REPORTS.warn(text)
        return submission

    def look_up(self, number: int) -> JobInfo:
        """Returns a job as the domain has it."""
        with self._connect() as client:
            return client.job(number)

    def run_to_end(self, *, copy: bool) -> Ended:
        """Submits the job and returns it once it has ended. copy: copies its output."""
        sizes = None
        if copy:
            files = (self.job.output, self.job.error)
            output, error = (file and os.path.join(self.job.cwd, file) for file in files)
            sizes = Sizes.of(output, error)
        return run_to_end(self._connect, self._sender(), sizes, self.source, say, _note)

    def run_array_to_end(self) -> list[Ended]:
        """Submits an array and returns its tasks once all have ended. An interrupt cancels
        all of them."""
        tasks = len(parse_array(self.job.array).indices)
        return run_array_to_end(self._connect, self._sender(), tasks, say)

    def _sender(self) -> Callable[[], int]:
        """Prepares the job; returns a function that submits it."""
        with self._connect_or_start() as client:
            submission = self._prepare(client)

        def submit() -> int:
            with self._connect() as client:
                return client.submit(submission)

        return submit

    def _warn_of_crowd(self, client: Client) -> None:
        """Warns of more ranks than CPUs where the domain takes such a job."""
        ranks = self.job.total
        if ranks <= len(os.sched_getaffinity(0)):
            return  # few domains have nodes with fewer CPUs, and this saves a question
        nodes = client.nodes()
        cpus, most = (max((n[key] for n in nodes), default=0) for key in _SLOTS_AND_MOST)
        crowd = crowd_text(ranks, cpus)
        if len(nodes) == 1 and ranks <= most and crowd:
            _REPORTS.warn(crowd)

    @cached_property
    def _connect(self) -> Connector:
        return Connector(self.run_dir, command="cosched submit")

    def _connect_or_start(self) -> Client:
        """Starts a private domain on this machine if none answers."""
        try:
            return self._unless_held_back(self._connect())
        except NoDomain:
            from cosched.cluster.up.private import start_private

            _note("starting a private domain on this machine")
            start_private(self.run_dir, member_of(os.uname().nodename))
            return self._connect()

    def _unless_held_back(self, client: Client) -> Client:
        """Returns a connection to the domain, which is started again if it has lower limits
        than this command."""
        what = _holds_back(DomainPaths(client.run_dir))
        if not what or JOB_VARIABLE in os.environ:
            return client
        from cosched.cluster.up.private import renew_private

        client.close()
        renew_private(client.run_dir, what, _REPORTS.warn)
        return self._connect()


def _holds_back(paths: DomainPaths) -> str:
    """Returns what holds back the agent of this user's private domain, but not this
    process: a few words; empty if nothing does.

    The command that started the domain may have had low hard limits or a high nice value.
    An ordinary user's process cannot undo that for itself."""
    if not paths.private_lock.exists() or paths.directory.lstat().st_uid != os.geteuid():
        return ""
    agent = lock_holder(paths.agent_lock(os.uname().nodename))
    return "" if agent is None else what_holds_back(agent)


def say(line: str) -> None:
    """Prints a line of cosched submit."""
    print(f"cosched submit: {line}", file=sys.stderr)


def _note(line: str) -> None:
    if sys.stderr.isatty():
        say(line)


_REPORTS = Reports(lambda line: say(f"warning: {line}"), _note)
