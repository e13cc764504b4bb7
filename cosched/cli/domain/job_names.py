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
        raise click.BadParameter(f"{error}.") from None


def _jobs(text: str, what: str) -> tuple[str, ...]:
    try:
        return tuple(str(each) for each in parse_jobs(text, what))
    except CoschedError as error:
        hint = "" if text[:1].isdigit() else "; the domain of the first mate: --mate-first"
        raise click.BadParameter(f"{error}{hint}.") from None


#: A job, an array, or some tasks of one.
JOB = Parsed("JOB", _job)
#: Several of them, with commas between them, as texts.
JOBS = Parsed("JOB,...", _jobs)
