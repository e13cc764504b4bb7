"""``cosched advise``: advises how to run a job."""

from __future__ import annotations

import json
import os
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from cosched.bench.run.interrupts import interruptible
from cosched.bench.run.testbed import TestbedOptions
from cosched.bench.simulate.profiles import Seen, watch_workload
from cosched.cli.connection import connect
from cosched.cli.declared import Command, argument, command, flag, is_given, option, part
from cosched.cli.entry import EXIT_FAILURE
from cosched.cli.hosts_option import hosts_option
from cosched.cli.measure.measuring import at_hand, lab_nodes_option
from cosched.cli.options import (
    asked_run_dir_option,
    complete_jobs,
    complete_paths,
    domain_dir,
    json_option,
    mpi_option,
)
from cosched.cli.printing import display_stream
from cosched.cli.values import SECONDS
from cosched.cluster.answers import PairInfo
from cosched.core.advice import Profile, advise
from cosched.core.counting import counted
from cosched.core.errors import CoschedError
from cosched.linux.users import find_user_name
from cosched.node.profile import profile_of
from cosched.observe.status import gather
from cosched.tables import table

#: The options of a run of a workload, by field.
OF_WORKLOADS = {
    "nodes": "--nodes",
    "hosts": "--hosts",
    "mpi": "--mpi",
    "at_most_s": "--for",
}


def _jobs_and_files(
    ctx: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    return [
        *complete_jobs(ctx, parameter, begun),
        *complete_paths(ctx, parameter, begun),
    ]


@command("advise")
class Advise(Command):
    """Advise whether to coschedule a job, leave it to the kernel, or run it in batch;
    with the reason.

    JOB is the name (or UID.NAME) of a job that runs now. The advice follows from how
    its tasks ran so far. WORKLOAD.toml is a file as for cosched bench: each of its
    jobs runs alone for a while, on this machine if there is no lab and no root. The advice
    is an estimate. It follows from how often tasks exchange messages and how long they
    wait. 'cosched bench' measures.

    --pairs prints the speeds of programs beside each other that the domain has observed,
    if its jobs share nodes: 1 is the speed on the same halves without a neighbour.

    \b
    Examples:
      cosched advise solver-x7k2p
      cosched advise mine.toml
      cosched advise mine.toml --hosts n1,n2 --for 60s --json
      cosched advise --pairs

    Exit status: 0, or 1 if a job of the workload failed or there is no advice.
    """

    what: str | None = argument(
        metavar="JOB|WORKLOAD.toml", required=False, shell_complete=_jobs_and_files
    )
    pairs: bool = flag("--pairs", help="Print observed speeds of programs that share.")
    at_most_s: float = option(
        "--for",
        type=SECONDS,
        default="10s",
        help="Longest time to watch each job of a workload.",
    )
    testbed: TestbedOptions = part(
        TestbedOptions,
        nodes=lab_nodes_option(),
        hosts=hosts_option("Run a workload on these nodes instead."),
        mpi=mpi_option(),
        run_dir=asked_run_dir_option(),
    )
    as_json: bool = json_option()

    def __post_init__(self) -> None:
        if self.pairs == (self.what is not None):
            raise click.UsageError("Give either JOB, WORKLOAD.toml or --pairs.")
        for name, word in OF_WORKLOADS.items() if not self._has_workload else ():
            if is_given(name):
                raise click.UsageError(f"{word} is for a WORKLOAD.toml.")

    @property
    def _has_workload(self) -> bool:
        return self.what is not None and self.what.endswith(".toml")

    def run(self) -> int:
        if self.what is None:
            return _show_pairs(domain_dir(self.testbed.run_dir), as_json=self.as_json)
        if self._has_workload:
            workload = Path(self.what)
            with interruptible():
                seen = watch_workload(
                    workload,
                    at_hand(self.testbed, workload),
                    self.at_most_s,
                    os.environ,
                    display_stream(),
                )
        else:
            seen = [_running_job(self.testbed.run_dir, self.what)]
        if self.as_json:
            click.echo(json.dumps({"jobs": [_document(one) for one in seen]}, indent=2))
        else:
            for one in seen:
                _show(one)
        has_advice = any(one.profile for one in seen)
        failed = any(one.failure for one in seen)
        return 0 if has_advice and not failed else EXIT_FAILURE


def _show_pairs(run_dir: Path | None, *, as_json: bool) -> int:
    with connect(run_dir) as client:
        pairs = client.pairs()
    if as_json:
        click.echo(json.dumps({"pairs": pairs}))
    elif pairs:
        rows = [_pair_row(pair) for pair in pairs]
        click.echo(
            "\n".join(table(("program", "beside", "speed", "runs", ""), rows, "<<>><"))
        )
    else:
        click.echo("no program was seen beside another one yet")
    return 0


def _pair_row(pair: PairInfo) -> tuple[str, ...]:
    return (
        _program(pair["program"], pair["uid"]),
        _program(pair["beside"], pair["beside_uid"]),
        f"{pair['speed']:.2f}",
        str(pair["seen"]),
        "kept apart" if pair["harmful"] else "",
    )


def _program(name: str, uid: int) -> str:
    return f"{name} ({find_user_name(uid) or uid})"


def _running_job(run_dir: Path, name: str) -> Seen:
    statuses = gather(run_dir)
    keys = {
        job["key"]
        for status in statuses
        for job in status["jobs"]
        if name in (job["name"], job["key"])
    }
    if not keys:
        raise CoschedError(f"no job '{name}' runs; see: cosched status")
    if len(keys) > 1:
        raise CoschedError(
            f"several users have a job '{name}'; name one: {' or '.join(sorted(keys))}"
        )
    return Seen(name, profile_of(statuses, keys.pop()))


def _document(one: Seen) -> dict[str, Any]:
    if one.profile is None:
        return {"job": one.name, "advice": None, "reason": _why_not(one)}
    advice = advise(one.profile)
    return {
        "job": one.name,
        "advice": advice.choice.value,
        "reason": advice.reason,
        "profile": {
            **asdict(one.profile),
            "grain_s": one.profile.grain_s,
            "idle_share": one.profile.idle_share,
            "kernel_loss": one.profile.loss,
        },
    }


def _show(one: Seen) -> None:
    if one.profile is None:
        click.echo(f"{one.name}: no advice: {_why_not(one)}")
        for line in one.failure.output if one.failure else ():
            click.echo(f"  | {line}")
        return
    advice = advise(one.profile)
    click.echo(f"{one.name}: {advice.choice.value}")
    for line in (advice.reason, _figures(one.profile)):
        for wrapped in textwrap.wrap(line, 76):
            click.echo(f"  {wrapped}")


def _why_not(one: Seen) -> str:
    if one.failure is not None:
        return one.failure.line
    return (
        "cosched saw no MPI call of it. Perhaps it ended too soon; otherwise "
        "'cosched-run -v' with its command shows why"
    )


def _figures(profile: Profile) -> str:
    figures = [
        f"seen: {counted(profile.tasks, 'task')} on {counted(profile.nodes, 'node')}, "
        f"scheduled {profile.scheduled_s:.1f} s",
        f"{profile.exchanges or 0} messages sent or waited for",
        f"idle for {profile.idle_share:.0%}",
    ]
    return ", ".join(figures)
