"""``cosched queue``: shows the jobs of the domain."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

import click

from cosched.cli.connection import connect
from cosched.cli.declared import Command, command, flag, option
from cosched.cli.options import domain_dir_option, json_option
from cosched.cluster.answers import JobInfo, size_text
from cosched.core.units import NS_PER_S
from cosched.linux.users import find_user_name
from cosched.tables import table

_HEAD = ("job", "name", "user", "nodes", "ranks", "state", "start", "reason")
_NAME_MOST = 20
#: A longer table takes seconds and helps no one.
_ROWS_MOST = 1000
#: More jobs than a domain returns.
_ALL = 1 << 31
_DAY_S = 86400


@command("queue")
class Queue(Command):
    """Show the jobs that wait or run in the domain.

    The start of a waiting job is an expectation, marked ~. The reason is where a job runs,
    why it failed, or how long it waits for its mates; cosched why JOB shows more. A
    malleable job has the number of its nodes and its bounds: 4 of 1-8. A job that shares
    its nodes has halves of them, beside the jobs with these numbers: beside 7: top n1,n2.
    A suspended job shows which job has nodes of it: for 9: n1,n2.

    \b
    Examples:
      cosched queue
      cosched queue --me --ended 10
      cosched queue --json
    """

    everything: bool = flag("--all", help="Jobs that have ended, too.")
    ended: int | None = option(
        type=click.IntRange(min=1),
        metavar="N",
        help="The last N jobs, too, if they have ended.",
    )
    me: bool = flag(help="Only jobs of yours.")
    run_dir: Path = domain_dir_option()
    as_json: bool = json_option()

    def run(self) -> None:
        with connect(self.run_dir) as client:
            jobs = client.queue(_ALL if self.everything else self.ended or 0)
        if self.me:
            jobs = [job for job in jobs if job["uid"] == os.geteuid()]
        if self.as_json:
            click.echo(json.dumps({"jobs": jobs}))
        elif jobs:
            now_s = time.time()
            rows = [_row(job, now_s) for job in shown(jobs)]
            click.echo("\n".join(table(_HEAD, rows, "><<>><<<", gap=1)))
            if len(rows) < len(jobs):
                click.echo(f"({len(jobs) - len(rows)} more jobs: --json)")
        else:
            click.echo("no jobs")


def shown(jobs: Sequence[JobInfo]) -> Sequence[JobInfo]:
    """Returns the jobs for the table: the first ones in the queue, and the latest of the
    others."""
    live = [job["job"] for job in jobs if job["ended_ns"] is None][:_ROWS_MOST]
    ended = [job["job"] for job in jobs if job["ended_ns"] is not None]
    kept = {*live, *ended[max(0, len(ended) + len(live) - _ROWS_MOST) :]}
    return [job for job in jobs if job["job"] in kept]


def _row(job: JobInfo, now_s: float) -> Sequence[str]:
    return (
        str(job["job"]),
        job["name"][:_NAME_MOST],
        find_user_name(job["uid"]) or str(job["uid"]),
        _nodes(job),
        "-" if job["tasks"] is None else str(job["tasks"]),
        "suspended" if job["suspended_for"] is not None else job["state"],
        _start(job, now_s),
        _reason(job),
    )


def _nodes(job: JobInfo) -> str:
    if job["minimum"] is not None and job["ideal"] is not None and job["ended_ns"] is None:
        has = len(job["hosts"]) if job["state"] in ("starting", "running") else None
        return size_text(has, job["minimum"], job["ideal"])
    return "-" if job["nodes"] is None else str(job["nodes"])


def _start(job: JobInfo, now_s: float) -> str:
    if job["started_ns"] is not None:
        return clock(job["started_ns"], now_s)
    if job["expected_ns"] is not None and job["ended_ns"] is None:
        return "~" + clock(job["expected_ns"], now_s)
    return "-"


def _reason(job: JobInfo) -> str:
    if job["ended_ns"] is not None:
        return job["reason"]
    if job["state"] == "running":
        return _where(job)
    return job["mates"] or (_where(job) if job["state"] == "starting" else "")


def _where(job: JobInfo) -> str:
    """Returns the nodes of a job, such as ``n1,n2``, or the halves of nodes, such as
    ``beside 7: top n1,n2``."""
    if job["suspended_for"] is not None:
        return f"for {job['suspended_for']}: {','.join(job['hosts'])}"
    if not job["halves"]:
        return ",".join(job["hosts"])
    found = []
    for half in sorted(set(job["halves"]), reverse=True):
        places = zip(job["hosts"], job["halves"], strict=False)
        hosts = [host for host, own in places if own == half]
        found.append(f"{half} {','.join(hosts)}")
    beside = ",".join(map(str, job["neighbours"]))
    return (f"beside {beside}: " if beside else "") + ", ".join(found)


def clock(at_ns: int, now_s: float) -> str:
    """Returns a time of the day, or a date for times that are far away."""
    moment = time.localtime(at_ns / NS_PER_S)
    near = abs(at_ns / NS_PER_S - now_s) < _DAY_S / 2
    return time.strftime("%H:%M:%S" if near else "%m-%d %H:%M", moment)
