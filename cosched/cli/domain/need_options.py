"""Declares the options for what a job needs besides CPUs."""

from __future__ import annotations

import re
from typing import Any

import click

from cosched.cli.declared import option
from cosched.cli.values import Parsed, several
from cosched.cluster.submission_request import MOST
from cosched.core.decoding import is_whole, parse_integer
from cosched.core.names import NEED_NAME


def _feature(word: str, _what: str) -> str:
    if re.fullmatch(NEED_NAME, word) is None:
        raise click.BadParameter(f"'{word:.40}' is no name of a feature, such as bigmem.")
    return word


def _needs(text: str, _what: str) -> dict[str, int]:
    """Reads ``matlab:2,gpu``: a name alone means 1."""
    found: dict[str, int] = {}
    for word in text.split(","):
        name, colon, number = word.strip().partition(":")
        if re.fullmatch(NEED_NAME, name) is None or (
            colon and not is_whole(number, 1, MOST)
        ):
            raise click.BadParameter(
                f"'{word:.40}' is not a name and a number, such as licence:2."
            )
        if name in found:
            raise click.BadParameter(f"'{name}' is named twice.")
        found[name] = parse_integer(number, "--need", 1, MOST) if colon else 1
    return found


def _written(needs: dict[str, int]) -> str:
    return ",".join(f"{name}:{number}" for name, number in needs.items())


def need_options() -> dict[str, Any]:
    """Returns the options, by the fields of ``Job``."""
    return {
        "features": option(
            "--constraint",
            type=several("FEATURES", _feature),
            help="What each node of the job must have, such as bigmem: words of the"
            " domain's operator, with commas between them.",
        ),
        "needs": option(
            "--need",
            type=Parsed("NAME:N,...", _needs, _written),
            help="What the job needs on each node of what the operator counts there, or of"
            " the domain's licences in all, such as matlab:2.",
        ),
    }
