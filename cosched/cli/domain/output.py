"""``cosched output``: prints what a job has written."""

from __future__ import annotations

from pathlib import Path

import click

from cosched.cli.connection import Connector
from cosched.cli.declared import Command, argument, command, flag
from cosched.cli.domain.waiting import STDOUT, is_private
from cosched.cli.options import complete_domain_jobs, domain_dir_option
from cosched.core.errors import CoschedError
from cosched.jobs.following import Tail, wait_patiently


@command("output")
class Output(Command):
    """Print the output of a job of the domain.

    JOB is a number, as cosched queue shows it. The first node of the job writes the file,
    which this machine must be able to read.

    \b
    Examples:
      cosched output 12
      cosched output -f 12
      cosched output --error 12
    """

    job: int = argument(
        metavar="JOB", type=click.IntRange(min=1), shell_complete=complete_domain_jobs
    )
    follow: bool = flag("-f", "--follow", help="Go on until the job has ended.")
    error: bool = flag(help="Its standard error, if that is apart.")
    run_dir: Path = domain_dir_option()

    def run(self) -> None:
        job = self.job
        reach = Connector(self.run_dir)
        with reach() as client:
            info = client.job(job)
        path = Path(
            info["cwd"], info["error" if self.error and info["error"] else "output"]
        )
        tail = Tail(path, STDOUT)
        try:
            tail.copy()
            if self.follow:
                info = wait_patiently(reach, job, tail.copy)
                tail.copy()
        except OSError as problem:
            raise CoschedError(f"{path}: {problem.strerror}") from None
        finally:
            tail.close()
        if not tail.found:
            if info["started_ns"] is None:
                raise CoschedError(f"job {job}: has no output: {info['why']}")
            if is_private(path):
                raise CoschedError(
                    f"job {job}: its output was copied to the command that waited for it"
                    " (such as cosched submit --wait), and not kept; --output FILE keeps it"
                )
            where = ", ".join(info["hosts"][:1])
            raise CoschedError(f"{path}: is not visible here; node {where} wrote it")
