"""Declares ``--hosts``, apart from the options of commands that name no hosts."""

from __future__ import annotations

from typing import Any

import click

from cosched.cli.declared import option
from cosched.cli.values import Parsed
from cosched.core.errors import CoschedError
from cosched.launch.given.hosts import parse_hosts


def _hosts(text: str, _what: str) -> tuple[str, ...]:
    try:
        return parse_hosts(text).names
    except CoschedError as error:
        raise click.BadParameter(f"{error}.") from None


#: Hosts such as ``A,B`` or ``n[1-4]``.
HOSTS = Parsed("A,B", _hosts)


def hosts_option(help: str = "Run on these nodes instead.") -> Any:
    """``--hosts A,B`` or ``n[1-4]``: the machines on which the MPI starts ranks."""
    return option("--hosts", type=HOSTS, default=(), help=help)
