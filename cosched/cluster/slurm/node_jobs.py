"""Asks Slurm for single nodes: each is an ordinary job of the user, which runs an agent."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from cosched.cluster.paths import DomainPaths
from cosched.cluster.slurm.user_commands import run, with_cluster
from cosched.core.decoding import parse_integer
from cosched.core.errors import CoschedError
from cosched.start.own_command import own_command

AGENT_MODULE = "cosched_daemons.slurmagent"
_LIVE = "PENDING,CONFIGURING,RUNNING"
_JOB_MOST = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class NodeJob:
    """A job of Slurm that has a node, or waits for one."""

    number: int  #: Slurm's number of the job
    node: str  #: the name of its node; empty as long as it does not run


class NodeJobs:
    """The jobs of one domain. base: the job in which the domain was started. cpus: of each
    node. words: further words for sbatch. environ: that of the base job."""

    def __init__(
        self,
        paths: DomainPaths,
        base: int,
        cpus: int,
        words: Sequence[str],
        environ: Mapping[str, str],
    ) -> None:
        self._paths = paths
        self._base = base
        self._cpus = cpus
        self._words = words
        # What describes the base job must not shape the others.
        self._environ = with_cluster(environ)
        self._name = f"cosched-{base}"

    def listed(self) -> list[NodeJob]:
        """Returns the jobs that wait or run, by number. Raises CoschedError."""
        user = str(os.geteuid())
        words = ("squeue", "--noheader", f"--user={user}", f"--name={self._name}")
        text = self._run(*words, f"--states={_LIVE}", "--format=%i|%T|%N")
        found = []
        for line in text.splitlines():
            number, _, rest = line.strip().partition("|")
            state, _, node = rest.partition("|")
            job = parse_integer(number, "squeue: the number of a job", 1, _JOB_MOST)
            found.append(NodeJob(job, node if state == "RUNNING" else ""))
        return sorted(found, key=lambda job: job.number)

    def ask(self, without: Collection[str]) -> None:
        """Asks for one more node, not one of these. Raises CoschedError."""
        run_dir = str(self._paths.run_dir)
        words = (
            *own_command(AGENT_MODULE),
            "--run-dir",
            run_dir,
            "--base",
            str(self._base),
        )
        script = f"#!/bin/sh\nexec {shlex.join(words)}\n"
        self._run(
            *("sbatch", "--parsable", f"--job-name={self._name}", "--chdir=/"),
            *("--nodes=1", "--ntasks=1", f"--cpus-per-task={self._cpus}"),
            *("--export=ALL", "--no-requeue", f"--exclude={','.join(sorted(without))}"),
            f"--output={self._paths.directory}/slurm-%j.log",
            *self._words,
            script=script,
        )

    def shrink(self, nodes: Sequence[str]) -> None:
        """Lets the base job keep these of its nodes; Slurm gets the others. Raises
        CoschedError."""
        self._run(
            "scontrol", "update", f"JobId={self._base}", f"NodeList={','.join(nodes)}"
        )

    def cancel(self, numbers: Sequence[int]) -> None:
        """Ends these jobs. Raises CoschedError."""
        if numbers:
            self._run("scancel", *map(str, numbers))

    def _run(self, *words: str, script: str = "") -> str:
        """Returns what a command prints."""
        return run(words, self._environ, self._paths.directory, script)


def has_ended(job: int, paths: DomainPaths, environ: Mapping[str, str]) -> bool:
    """Returns whether Slurm reports that a job neither runs nor is suspended. Raises
    CoschedError if Slurm does not answer."""
    words = ("squeue", "--noheader", f"--jobs={job}", "--states=RUNNING,SUSPENDED")
    try:
        found = run((*words, "--format=%i"), with_cluster(environ), paths.directory)
    except CoschedError as error:
        if "Invalid job id" in str(error):  # it ended long ago
            return True
        raise
    return not found.strip()
