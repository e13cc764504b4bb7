"""Reads how users name jobs of a domain: ``12``, ``12_3``, ``12_1-5``, or a name."""

from __future__ import annotations

from collections.abc import Sequence

import click

from cosched.cli.values import Parsed
from cosched.cluster.client import Client
from cosched.core.arrays import JobRef, parse_job, parse_jobs
from cosched.core.errors import CoschedError
from cosched.jobs.naming import named, numbers_of

#: How many of the latest jobs are searched for a name if no live job has it.
_ENDED_MOST = 1000


def _job(text: str, _what: str) -> JobRef:
    try:
        return parse_job(text, "JOB")
    except CoschedError as error:
        raise click.BadParameter(_without(str(error), "JOB")) from None


def _jobs(text: str, what: str) -> tuple[str, ...]:
    try:
        return tuple(str(each) for each in parse_jobs(text, what))
    except CoschedError as error:
        raise click.BadParameter(_without(str(error), what)) from None


def _without(error: str, what: str) -> str:
    """Returns a sentence without the option's name, which click puts before it."""
    return error.removeprefix(f"{what}: ") + "; cosched queue lists jobs."


#: A job, an array, or some tasks of one.
JOB = Parsed("JOB", _job)
#: Several of them, with commas between them, as texts.
JOBS = Parsed("JOB,...", _jobs)


def find_jobs(client: Client, name: str, uid: int) -> list[JobRef]:
    """Returns the job of the domain with this number, or all jobs and arrays with this
    name, the oldest first. A live job goes before those that have ended, and a job of user
    ``uid`` before those of others.
    """
    try:
        return [parse_job(name, "job")]
    except CoschedError:  # it is a name
        pass
    for ended in (0, _ENDED_MOST):
        found = numbers_of(client.queue(ended, folded=True), name, uid)
        if found:
            return [JobRef(number) for number in found]
    return []


def namesake_error(jobs: Sequence[JobRef], name: str, command: str) -> CoschedError:
    """Returns the error that several jobs have the name.

    command: takes a number, such as ``cosched why``.
    """
    return CoschedError(
        f"jobs {named(jobs)} have the name {name}; give a number: {command} {jobs[0]}"
    )
