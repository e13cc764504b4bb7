"""Checks the label of a job, which its ranks read from a variable."""

from __future__ import annotations

from collections.abc import Mapping

from cosched.core.errors import CoschedError

LABEL = "COSCHED_LIMITED_BY"


def label_text(environ: Mapping[str, str]) -> str:
    """Returns a warning about a label that the ranks will ignore; empty: the job has none,
    or a right one."""
    given = environ.get(LABEL)
    if not given:
        return ""
    from cosched.core.symbiosis.resources import parse_limits  # few jobs have a label

    try:
        parse_limits(given.split(","), LABEL)
    except CoschedError as error:
        return f"{error}; the job has no label"
    return ""
