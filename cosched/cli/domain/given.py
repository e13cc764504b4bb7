"""Holds the options of a command line of ``cosched submit``."""

from __future__ import annotations

from pathlib import Path

from cosched.cli.domain.script_lines import NO_SCRIPT, Script
from cosched.cluster.submission_request import FROM_CLIENT
from cosched.core.named_tuples import NamedTuple
from cosched.jobs.job import Job

#: The options that have not only the name of their field.
WORDS = {
    "ranks": ("-n", "-np", "--ranks"),
    "nodes": ("-N", "--nodes"),
    "time_s": ("--time",),
    "memory_bytes": ("--memory",),
    "held": ("--hold",),
    "shim": ("--no-shim",),
    "waits": ("--wait",),
    "as_json": ("--json",),
}
#: The output of a task of an array if its user names none.
OF_ARRAYS = "cosched-%A_%a.out"
_NO_INPUT = "none"


class Given(NamedTuple):
    """The options of ``cosched submit``. None: not given."""

    job: Job  #: the job, without its files
    run_dir: Path  #: the run directory of the domain
    output: str | None = None  #: a file for the job's output
    error: str | None = None  #: a file for its standard error
    input: str | None = None  #: a file, ``none``, or ``-`` for this command's own
    waits: bool = False  #: wait for the job's end
    as_json: bool = False  #: print JSON
    script: Script = NO_SCRIPT  #: the job's batch script

    @property
    def reads_here(self) -> bool:
        """Whether this command's standard input becomes the job's."""
        again = self.job.requeue or self.job.array
        usual = self.input is None and self.waits and not again
        return usual or self.input == FROM_CLIENT

    @property
    def is_copied(self) -> bool:
        """Whether this command copies the job's output."""
        return self.waits and not self.as_json and not self.job.array

    def with_files(self, output: str | None, error: str | None) -> Job:
        """Returns the job with these outputs, and with its input."""
        given = None if self.input == _NO_INPUT else self.input
        usual = OF_ARRAYS if self.job.array else self.job.output
        return self.job._replace(
            input=FROM_CLIENT if self.reads_here else given or self.job.input,
            output=usual if output is None else output,
            error=error or "",
        )
