"""Finds the way to the nodes of a job that runs on other nodes, and asks them there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from cosched.cli.hosts_option import hosts_option
from cosched.cli.printing import show_progress
from cosched.core.bounds import JOB_MOST
from cosched.core.decoding import is_whole, parse_integer
from cosched.core.errors import CoschedError
from cosched.core.hostlist import expand_hosts
from cosched.jobs.job_nodes import read_job_nodes
from cosched.launch.environment import name_on_nodes
from cosched.linux.homes import state_directory
from cosched.linux.processes.tools import ask_tool
from cosched.observe.reach.named_nodes import way_to_hosts
from cosched.observe.reach.on_nodes import (
    NodeAnswer,
    ask_nodes,
    complaints,
    refuse_silence,
)
from cosched.observe.reach.ways import Slurm, Way, names_of_this_node, slurm_job_in
from cosched.rundir.paths import NodePaths
from cosched.start.own_command import COSCHED

_SQUEUE_WITHIN_S = 20


def elsewhere_option() -> Any:
    """``--hosts A,B``: asks these nodes by a remote shell."""
    return hosts_option(
        "Ask these nodes, by ssh (COSCHED_REMOTE_SHELL).  [default: the job's nodes]"
    )


def way_to(
    job: str | None, hosts: Sequence[str], run_dir: Path, nodes: Sequence[str] = ()
) -> Way | None:
    """Returns the way to the job's nodes; None if it is known on this machine alone.

    hosts: the nodes that the user named. run_dir: where a lab may be. nodes: those of the
    run directory that the user named instead.
    """
    if hosts and nodes:
        raise click.UsageError("--hosts and --node cannot be combined.")
    if hosts:
        return way_to_hosts(hosts, run_dir, os.environ)
    if job is None or nodes:
        return None
    state = state_directory(os.environ)
    place = read_job_nodes(state, job) or read_job_nodes(state, job.partition(".")[2])
    number = place.slurm if place is not None else slurm_job_in(job)
    if number:
        nodes = nodes_of_slurm_job(number)
        if nodes:
            return Slurm(number, nodes, names_of_this_node())
    hosts = _hosts_in_domain(job) if place is None else place.hosts
    return way_to_hosts(hosts, run_dir, os.environ) if hosts else None


def _hosts_in_domain(job: str) -> tuple[str, ...]:
    """Returns the nodes of a job NAME-NUMBER of the domain; () if there is none, or if all
    its nodes answer on this machine."""
    from cosched.cli.connection import connect_to_running, patient

    name = job.partition(".")[2] if job[:1].isdecimal() else job
    label, _, number = name.rpartition("-")
    if not label or not is_whole(number, 1, JOB_MOST):
        return ()
    try:
        with connect_to_running(None, patient()) as client:
            found = client.job(parse_integer(number, job, 1, JOB_MOST))
            run_dir = client.run_dir
    except CoschedError:
        return ()
    if name_on_nodes(found["name"], found["job"]) != name:
        return ()
    hosts = tuple(dict.fromkeys(found["hosts"]))
    here = all(NodePaths(run_dir, host).control_socket.exists() for host in hosts)
    return () if here else hosts


def nodes_of_slurm_job(number: str) -> tuple[str, ...]:
    """Returns the nodes of a job that Slurm has not ended; () if there is no such job."""
    words = ("squeue", "--noheader", f"--jobs={number}", "--format=%N")
    text = ask_tool(words, _SQUEUE_WITHIN_S).output.strip()
    try:
        return expand_hosts(text) if text else ()
    except CoschedError:
        return ()


def ask_elsewhere(
    way: Way, words: Sequence[str], module: str = COSCHED
) -> list[NodeAnswer]:
    """Asks all nodes; names those that did not answer on stderr. Raises CoschedError if
    none answered. module: another program than ``cosched``."""
    answers = ask_nodes(way, words, progress=_show, module=module)
    refuse_silence(answers)
    for line in complaints(answers):
        click.echo(f"cosched: {line}", err=True)
    return answers


def _show(done: int, of: int) -> None:
    if of > 1:
        show_progress("cosched: nodes", done, of)
