"""Reads how users name jobs of a domain: ``12``, ``12_3``, ``12_1-5``, or a name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from cosched.cli.values import Parsed
from cosched.cluster.client import Client
from cosched.core.arrays import JobRef, parse_job, parse_jobs
from cosched.core.errors import CoschedError
from cosched.jobs.naming import named, numbers_of

if TYPE_CHECKING:
    from cosched.cluster.answers import JobInfo

#: How many of the latest jobs are searched for a name if no live job has it.
_ENDED_MOST = 1000


def _jobs(text: str, what: str) -> tuple[str, ...]:
    try:
        return tuple(str(each) for each in parse_jobs(text, what))
    except CoschedError as error:
        # click puts the option's name before the sentence.
        problem = str(error).removeprefix(f"{what}: ")
        raise click.BadParameter(f"{problem}; cosched queue lists jobs.") from None


#: Jobs, arrays and tasks of arrays, with commas between them, as texts.
JOBS = Parsed("JOB,...", _jobs)


def find_jobs(client: Client, name: str, uid: int) -> list[JobRef]:
    """Returns the job of the domain with this number, or all jobs and arrays with this
    name, the oldest first. A live job goes before those that have ended, and a job of user
    ``uid`` before those of others.
    """
    numbered = _by_number(name)
    if numbered is not None:
        return [numbered]
    for ended in (0, _ENDED_MOST):
        found = numbers_of(client.queue(ended, folded=True), name, uid)
        if found:
            return [JobRef(number) for number in found]
    return []


def find_jobs_to_steer(
    client: Client, names: Sequence[str], uid: int, command: str
) -> list[JobRef]:
    """Returns each job of the domain with one of these numbers, or that is the only live
    job or array with one of these names which user ``uid`` may steer: its own ones, and for
    root those of all users, its own first. Raises CoschedError if none or several jobs have
    a name. command: as for ``namesake_error``.
    """
    numbered = {name: _by_number(name) for name in names}
    live: list[JobInfo] = []
    if None in numbered.values():
        queue = client.queue(folded=True)
        live = [job for job in queue if uid in (0, job["uid"])]
    found = (
        ref or _find_only_job(live, name, uid, command) for name, ref in numbered.items()
    )
    return list(dict.fromkeys(found))


def _find_only_job(live: Sequence[JobInfo], name: str, uid: int, command: str) -> JobRef:
    found = [JobRef(number) for number in numbers_of(live, name, uid)]
    if len(found) > 1:
        raise namesake_error(found, name, command)
    if found:
        return found[0]
    if not name or name[0].isdecimal():
        parse_job(name, "job")  # raises what is wrong with the number
    of, option = (" of yours", " --me") if uid else ("", "")
    raise CoschedError(f"no live job{of} has the name {name}; see cosched queue{option}")


def _by_number(text: str) -> JobRef | None:
    """Returns the job, array or tasks with this number; None for a name."""
    try:
        return parse_job(text, "job")
    except CoschedError:
        return None


def namesake_error(jobs: Sequence[JobRef], name: str, command: str) -> CoschedError:
    """Returns the error that several jobs have the name.

    command: takes a number, such as ``cosched why``.
    """
    return CoschedError(
        f"jobs {named(jobs)} have the name {name}; give a number: {command} {jobs[0]}"
    )
