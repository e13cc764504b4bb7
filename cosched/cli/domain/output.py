"""``cosched output``: prints what a job has written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cosched.cli.connection import Connector, connect_to_read
from cosched.cli.declared import Command, argument, command, flag
from cosched.cli.domain.job_names import find_jobs, namesake_error
from cosched.cli.domain.waiting import STDOUT, is_private
from cosched.cli.options import complete_domain_jobs, domain_dir_option
from cosched.cluster.client import Client
from cosched.cluster.job_texts import label_of
from cosched.core.arrays import JobRef
from cosched.core.errors import CoschedError
from cosched.jobs.following import Tail, wait_patiently

if TYPE_CHECKING:
    from cosched.cluster.answers import JobInfo

#: States of tasks that have written nothing yet.
_WAITING = ("held", "queued")


@command("output")
class Output(Command):
    """Print the output of a job of the domain.

    JOB is a number or a name, as cosched queue shows it. The first node of the job writes
    the file, which this machine must be able to read. An array prints the files of all its
    tasks that have begun, in the order of their indices, each file once.

    \b
    Examples:
      cosched output 12
      cosched output 12_3
      cosched output -f simulate
      cosched output --error 12
    """

    job: str = argument(metavar="JOB", shell_complete=complete_domain_jobs)
    follow: bool = flag("-f", "--follow", help="Go on until the job has ended.")
    error: bool = flag(help="Its standard error, if that is apart.")
    run_dir: Path = domain_dir_option()

    def run(self) -> None:
        reach = Connector(self.run_dir)
        with connect_to_read(self.run_dir) as client:
            tasks, _ = client.tasks(self._named(client))
            if len(tasks) == 1:
                infos = [client.job(tasks[0]["job"])]
            elif self.follow:
                raise click.UsageError("--follow is for one task, such as 12_3.")
            else:
                begun = [task for task in tasks if task["state"] not in _WAITING]
                infos = [client.job(task["job"]) for task in begun]
                infos = [info for info in infos if info["started_ns"] is not None]
        if not infos:
            raise CoschedError(f"job {self.job}: no task of it has begun")
        for info in {self._path(info): info for info in infos}.values():
            self._print(reach, info)

    def _named(self, client: Client) -> JobRef:
        """Returns the job that the user names."""
        found = find_jobs(client, self.job, os.geteuid())
        if not found:
            raise CoschedError(f"no job has the name {self.job}; see cosched queue --all")
        if len(found) > 1:
            raise namesake_error(found, self.job, "cosched output")
        return found[0]

    def _path(self, info: JobInfo) -> Path:
        name = info["error" if self.error and info["error"] else "output"]
        return Path(info["cwd"], name)

    def _print(self, reach: Connector, info: JobInfo) -> None:
        job, path = info["job"], self._path(info)
        if path.exists() and not path.is_file():
            raise CoschedError(
                f"{path}: is a pipe, a device or a folder; no output is kept"
            )
        tail = Tail(path, STDOUT)
        try:
            if self.follow:
                info = wait_patiently(reach, job, tail.copy)
            tail.copy_rest()
        except OSError as problem:
            raise CoschedError(f"{path}: {problem.strerror}") from None
        finally:
            tail.close()
        if not tail.found:
            if info["started_ns"] is None:
                label = label_of(info)
                raise CoschedError(f"job {label}: has no output: {info['why']}")
            if is_private(path):
                raise CoschedError(
                    f"job {job}: its output was copied to the command that waited for it"
                    " (such as cosched submit --wait), and not kept; --output FILE keeps it"
                )
            where = ", ".join(info["hosts"][:1])
            raise CoschedError(f"{path}: is not visible here; node {where} wrote it")
