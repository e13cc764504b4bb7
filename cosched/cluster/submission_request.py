"""Makes the request with which a user submits a job.

A command that sends it does not need the types with which ``submission`` checks it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from cosched.linux.system_text import environ_to_wire, to_wire, words_to_wire

LONGEST_NAME = 63
#: The most ranks or nodes that a user may ask for; a domain has far fewer.
MOST = 1 << 32
#: As a job's input: its user gives it while the job runs.
FROM_CLIENT = "-"
_TOKEN_BYTES = 12
#: Fields that are paths.
_PATHS = {"input", "output", "error", "pmix_library"}

#: Fields of ``Submission`` by name, as plain values.
SubmissionRequest = dict[str, Any]


def submission_request(
    argv: Sequence[str],
    *,
    environ: Mapping[str, str],
    name: str = "",
    cwd: str = "",
    **more: Any,
) -> SubmissionRequest:
    """Returns a request with a new token, by default in this process's directory. ``more``:
    further fields of ``Submission``."""
    for field in _PATHS & more.keys():
        more[field] = to_wire(more[field])
    return {
        "token": new_token(),
        "name": name or as_name(os.path.basename(argv[0])) or "job",
        "argv": words_to_wire(argv),
        "environ": environ_to_wire(environ),
        "cwd": to_wire(cwd or os.getcwd()),
        **more,
    }


def new_token() -> str:
    """Returns a word that no other submission has."""
    return os.urandom(_TOKEN_BYTES).hex()


def as_name(label: str) -> str:
    """Returns a program's label as a job's name; unprintable characters become U+FFFD."""
    shown = (letter if letter.isprintable() else "\ufffd" for letter in label)
    return "".join(shown)[:LONGEST_NAME]
