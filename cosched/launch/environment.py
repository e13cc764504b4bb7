"""What cosched adds to the environment of a job's tasks, and how jobs are named."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from cosched.core.errors import CoschedError

_VARIABLE_OPTIONS = ("-x", "-env", "-genv", "--env", "--genv")
_LABEL_MAX = 40
_SUFFIX_DIGITS = "0123456789abcdefghijkmnpqrstuvwxyz"
_SUFFIX_LENGTH = 5


def default_job_name(label: str, noise: bytes) -> str:
    """The program's name and a short suffix, so that two runs of it are two jobs."""
    clean = re.sub(r"[^A-Za-z0-9._-]+", "-", label).strip(".-")[:_LABEL_MAX]
    number = int.from_bytes(noise, "little")
    suffix = ""
    for _ in range(_SUFFIX_LENGTH):
        number, digit = divmod(number, len(_SUFFIX_DIGITS))
        suffix += _SUFFIX_DIGITS[digit]
    return f"{clean or 'job'}-{suffix}"


def task_environment(
    environ: Mapping[str, str],
    *,
    job: str,
    run_dir: Path,
    status: str,
    shim: Path | None,
    verbose: bool,
) -> dict[str, str]:
    """The variables that make a program take part; the user's own preload comes first.

    Without ``shim`` they reach only programs that import the mpi4py wrapper.
    """
    added = {
        "COSCHED_JOB": job,
        "COSCHED_RUN_DIR": os.path.abspath(run_dir),
        "COSCHED_STATUS": status,
    }
    if shim is not None:
        added["LD_PRELOAD"] = merge_preload(environ.get("LD_PRELOAD", ""), shim)
    if verbose:
        added["COSCHED_VERBOSE"] = "1"
    return added


def merge_preload(existing: str, shim: Path) -> str:
    """``existing`` with ``shim`` behind it, once."""
    text = str(shim)
    if re.search(r"[\s:]", text):
        raise CoschedError(
            f"{text}: a library whose path has a blank or a colon cannot be preloaded; "
            "set XDG_CACHE_HOME to another directory"
        )
    entries = [entry for entry in re.split(r"[\s:]+", existing) if entry]
    return ":".join(entries if text in entries else [*entries, text])


def presets_preload(argv: Sequence[str]) -> bool:
    """Whether a launcher's command line sets LD_PRELOAD itself, which hides ours."""
    return any(
        option in _VARIABLE_OPTIONS and word.partition("=")[0] == "LD_PRELOAD"
        for option, word in pairwise(argv)
    )
