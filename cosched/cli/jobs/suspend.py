"""``cosched suspend``, ``resume``, ``boost``, ``detach``: changes the mode of a job."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from cosched.cli.declared import Command, argument, command
from cosched.cli.entry import EXIT_FAILURE
from cosched.cli.jobs.elsewhere import elsewhere_option, way_to
from cosched.cli.options import (
    asked_run_dir_option,
    complete_jobs,
    json_option,
    nodes_option,
)
from cosched.observe.owner_requests import Steered, steer
from cosched.observe.reach.on_nodes import ask_nodes, refuse_silence
from cosched.observe.reach.ways import Way

#: The meaning of each mode for a job.
_MEANING = {
    "suspended": "suspended",
    "coscheduled": "coscheduled like any other",
    "raised": "alone on its CPUs",
    "released": "not coscheduled, at the kernel's normal shares",
}


@dataclass(frozen=True)
class _OfJob(Command):
    """The options of a command that steers a job."""

    run_dir: Path = asked_run_dir_option()
    nodes: tuple[str, ...] = nodes_option()
    hosts: tuple[str, ...] = elsewhere_option()
    as_json: bool = json_option()
    job: str = argument(shell_complete=complete_jobs)

    def _steer(self, name: str, op: str) -> int:
        """Sends the request ``op`` of the command ``name`` to the nodes of the job."""
        way = way_to(self.job, self.hosts, self.run_dir, self.nodes)
        if way is None:
            done = steer(self.run_dir, op, self.job, self.nodes)
        else:
            done = _steer_elsewhere(way, name, self.job)
        if self.as_json:
            click.echo(json.dumps({"nodes": [asdict(one) for one in done]}, indent=2))
        else:
            for one in done:
                _show(one)
        return EXIT_FAILURE if any(one.error for one in done) else 0


def _steer_elsewhere(way: Way, verb: str, job: str) -> list[Steered]:
    """Steers the job on all nodes of the way. A node without an answer has an error."""
    answers = ask_nodes(way, [verb, job])
    refuse_silence(answers)
    found = []
    for answer in answers:
        if answer.error is not None:
            error = f"node {answer.node}: {answer.error}"
            found.append(Steered(answer.node, job, error=error))
        found += [Steered(**one) for one in answer.found.get("nodes", [])]
    return found


def _show(one: Steered) -> None:
    if one.error is not None:
        click.echo(f"cosched: {one.error}", err=True)
        return
    assert one.mode is not None
    already = "already " if one.before == one.mode else ""
    click.echo(f"node {one.node}: job {one.job}: {already}{_MEANING[one.mode]}")


@command("suspend")
class Suspend(_OfJob):
    """Stop a job on all its nodes, until 'cosched resume'.

    All its processes stand still and keep their memory. No other job waits for
    them. Only the job's owner and root may do this. If the daemons die, the job
    runs on.

    \b
    Examples:
      cosched suspend solver-x7k2p
      cosched resume solver-x7k2p
    """

    def run(self) -> int:
        return self._steer("suspend", "suspend")


@command("resume")
class Resume(_OfJob):
    """Undo suspend, boost or detach: the job is coscheduled like any other.

    Only the job's owner and root may do this.

    \b
    Example:
      cosched resume solver-x7k2p
    """

    def run(self) -> int:
        return self._steer("resume", "resume")


@command("boost")
class Boost(_OfJob):
    """Run a job alone on its CPUs, at once, until 'cosched resume'.

    Other jobs get what it leaves there. Several boosted jobs take turns. Root may
    always do this. The job's owner may where the operator allows it ('cosched up
    --allow-boost on'), and with private daemons.

    \b
    Examples:
      cosched boost solver-x7k2p
      cosched resume solver-x7k2p
    """

    def run(self) -> int:
        return self._steer("boost", "raise")


@command("detach")
class Detach(_OfJob):
    """Take a job out of coscheduling: it runs on at the kernel's normal shares.

    'cosched resume' takes it back in. Only the job's owner and root may do this.

    \b
    Examples:
      cosched detach solver-x7k2p
      cosched resume solver-x7k2p
    """

    def run(self) -> int:
        return self._steer("detach", "release")
