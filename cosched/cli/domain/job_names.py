"""Reads how users name jobs of a domain: ``12``, ``12_3``, ``12_1-5``."""

from __future__ import annotations

import click

from cosched.cli.values import Parsed
from cosched.core.arrays import JobRef, parse_job, parse_jobs
from cosched.core.errors import CoschedError


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
