"""Gives the tasks of a started job the addresses of its mates in other domains."""

from __future__ import annotations

import json
from pathlib import Path

from cosched.cluster.coupling.mates import shown_mates
from cosched.core.cluster.coupling.mate_messages import Addresses
from cosched.core.errors import CoschedError
from cosched.linux.files.whole import write_whole

#: For example ``eureka=812@10.0.0.7,10.0.0.8``: domain, number and addresses of the nodes.
VARIABLE = "COSCHED_MATES"
#: Names a file with the same as JSON.
FILE_VARIABLE = "COSCHED_MATES_FILE"


def introduce(mates: Addresses, directory: Path) -> dict[str, str]:
    """Writes the mates into a file in the job's private directory; returns the variables
    for its tasks. A file that cannot be written is left out."""
    if not mates:
        return {}
    variables = {VARIABLE: shown_mates(mates)}
    path = directory / "mates.json"
    try:
        text = json.dumps({domain: _parts(where) for domain, where in mates})
        write_whole(path, text)
    except CoschedError:
        return variables
    return {**variables, FILE_VARIABLE: str(path)}


def _parts(address: str) -> dict[str, str]:
    job, _, hosts = address.partition("@")
    return {"job": job, "hosts": hosts}
