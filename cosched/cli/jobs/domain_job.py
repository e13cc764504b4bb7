"""Explains a job of the domain for ``cosched why``, by its number or by its name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from cosched.cli.connection import connect_to_read, connect_to_running, patient
from cosched.cli.domain.job_names import find_jobs, namesake_error
from cosched.cluster.client import Client
from cosched.cluster.job_texts import label_of
from cosched.core.arrays import JobRef
from cosched.core.errors import CoschedError
from cosched.jobs.job_story import job_story
from cosched.jobs.naming import named, numbers_of
from cosched.launch.environment import name_on_nodes
from cosched.observe.why.why import Asker
from cosched.rundir.paths import NodePaths


def explain_in_domain(
    run_dir: Path | None, places: Sequence[NodePaths], asker: Asker, last: int
) -> tuple[str, str] | None:
    """Returns a job of the domain, or several tasks of an array, in words and as JSON; None
    without a domain or such a job. Raises CoschedError if several jobs have the name.

    run_dir: where the domain is; None: the domain that serves this user. places: the nodes
    of this machine. last: the most changes on each node.
    """
    try:
        with connect_to_read(run_dir) as client:
            jobs = find_jobs(client, asker.name, asker.uid)
            if len(jobs) == 1:
                return _explain(client, jobs[0], places, asker, last)
    except CoschedError:
        return None
    if not jobs:
        return None
    raise namesake_error(jobs, asker.name, "cosched why")


def namesakes(run_dir: Path | None, asker: Asker) -> str:
    """Returns one line about jobs of the domain with the name of a job that is on nodes
    here without a domain; empty if there is none."""
    try:
        with connect_to_running(run_dir, patient()) as client:
            jobs = client.queue(folded=True)
    except CoschedError:
        return ""
    others = [job for job in jobs if name_on_nodes(job["name"], job["job"]) != asker.name]
    found = numbers_of(others, asker.name, asker.uid)
    if not found:
        return ""
    have = f"job {found[0]} has" if len(found) == 1 else f"jobs {named(found)} have"
    return f"{have} this name in the domain: cosched why {found[0]}"


def _explain(
    client: Client, job: JobRef, places: Sequence[NodePaths], asker: Asker, last: int
) -> tuple[str, str]:
    tasks, lines = client.tasks(job)
    if len(tasks) == 1:
        found = client.job(tasks[0]["job"])
        return job_story(found, places, asker, last), json.dumps(found)
    waiting = next((task for task in tasks if task["state"] == "queued"), None)
    if waiting is not None:
        first = client.job(waiting["job"])
        lines = f"{lines}\njob {label_of(first)}: {first['why']}"
    return f"job {job}: {lines}", json.dumps({"job": str(job), "why": lines})
