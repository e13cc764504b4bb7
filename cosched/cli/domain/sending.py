"""Sends a job for ``cosched submit``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cosched.cli.connection import Connector
from cosched.cli.domain.script_lines import NO_SCRIPT, Script
from cosched.cluster.client import Client, NoAnswer, NoDomain
from cosched.cluster.paths import DomainPaths
from cosched.cluster.submission_request import SubmissionRequest
from cosched.cluster.user_requests import JOB_VARIABLE
from cosched.core.names import member_of
from cosched.jobs.job import Job
from cosched.jobs.preparing import check_here, prepare_request
from cosched.jobs.reporting import Reports
from cosched.launch.crowd import crowd_text
from cosched.launch.shm_room import shm_text
from cosched.linux.processes.limits import what_holds_back
from cosched.linux.system_text import to_wire
from cosched.rundir.lock import lock_holder

if TYPE_CHECKING:
    from cosched.cluster.answers import JobInfo

_SLOTS_AND_MOST: tuple[Literal["slots"], Literal["tasks_most"]] = ("slots", "tasks_most")


class Sending:
    """A job that is to be sent to a domain.

    job: the job as the user described it. run_dir: the run directory of the domain. script:
    its batch script, or none. connect: connects to the domain.
    """

    def __init__(self, job: Job, run_dir: Path, script: Script = NO_SCRIPT) -> None:
        self.job = job
        self.run_dir = run_dir
        self.script = script
        self.connect = Connector(run_dir, command="cosched submit")

    def submit(self) -> int:
        """Submits the job; returns its number, of an array that of its first task."""
        return self.sender()()

    def _prepare(self, client: Client) -> SubmissionRequest:
        for note in self.script.notes:
            _REPORTS.warn(note)
        job = self.job
        if self.script.environ:
            given = os.environ if job.environ is None else job.environ
            job = job._replace(environ={**given, **self.script.environ})
        if self.script.slurm:
            job = job._replace(slurm_variables=True)
        if job.total == 1 and self.script.slots > 1:
            client.check_fits_a_node(self.script.slots)
            job = job._replace(cpus=self.script.slots)
        self._warn_of_crowd(client)
        request = prepare_request(client, job, _REPORTS)
        request["script"] = to_wire(self.script.text)
        if request["pmi"] != "none" and (text := shm_text()):
            _REPORTS.warn(text)
        return request

    def look_up(self, number: int) -> JobInfo:
        """Returns a job as the domain has it."""
        with self.connect() as client:
            return client.job(number)

    def sender(self) -> Callable[[], int]:
        """Prepares the job; returns a function that submits it. A private domain may have
        ended meanwhile, because it had no job while a shim was built. A domain that has
        closed the connection gets the job again: it takes no job twice."""
        check_here(self.job)  # before a domain is started for it
        client = self._unless_held_back(self._connect_or_start())
        try:
            request = self._prepare(client)
        except BaseException:
            client.close()
            raise

        def submit() -> int:
            try:
                with client:
                    return client.submit_request(request)
            except NoAnswer:
                raise
            except NoDomain:
                with self._connect_or_start() as again:
                    return again.submit_request(request)

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

    def _connect_or_start(self) -> Client:
        """Starts a private domain on this machine if none answers."""
        try:
            return self.connect()
        except NoDomain:
            from cosched.cluster.up.private import start_private

            start_private(self.run_dir, note)
            return self.connect()

    def _unless_held_back(self, client: Client) -> Client:
        """Returns a connection to the domain, which is started again if it has lower limits
        than this command."""
        what = _holds_back(DomainPaths(client.run_dir))
        if not what or JOB_VARIABLE in os.environ:
            return client
        from cosched.cluster.up.private import renew_private

        client.close()
        renew_private(client.run_dir, what, _REPORTS.warn)
        return self.connect()


def _holds_back(paths: DomainPaths) -> str:
    """Returns what holds back the agent of this user's private domain, but not this
    process: a few words; empty if nothing does.

    The command that started the domain may have had low hard limits or a high nice value.
    An ordinary user's process cannot undo that for itself."""
    if not paths.private_lock.exists() or paths.directory.lstat().st_uid != os.geteuid():
        return ""
    agent = lock_holder(paths.agent_lock(member_of(os.uname().nodename)))
    return "" if agent is None else what_holds_back(agent)


def say(line: str) -> None:
    """Prints a line of cosched submit."""
    print(f"cosched submit: {line}", file=sys.stderr)


def note(line: str) -> None:
    """Prints a line that only a person needs: nothing unless stderr is a terminal."""
    if sys.stderr.isatty():
        say(line)


_REPORTS = Reports(lambda line: say(f"warning: {line}"), note)
