"""What cosched adds to the environment of a job's tasks, and how jobs are named."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_US, parse_duration

#: By which a process knows that it is a rank; as in mpi_shim/interposer/launch.c.
RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
_VARIABLE_OPTIONS = ("-x", "-env", "-genv", "--env", "--genv")
_LABEL_MAX = 40
#: About what it costs to put a task to sleep and to wake it: the competitive choice.
BLOCK_SPIN_NS = 20 * NS_PER_US
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


@dataclass(frozen=True, slots=True)
class Part:
    """How a job takes part: its name, its node's daemons, its carrier, what memory it
    needs on each node, and when it was submitted, since 1970 (0: it does not say).
    """

    job: str
    run_dir: Path
    status: str
    memory_bytes: int = 0
    submitted_ns: int = 0


def task_environment(
    environ: Mapping[str, str],
    *,
    part: Part | None,
    wait: str,
    shim: Path | None,
    verbose: bool,
) -> dict[str, str]:
    """The variables that change a program; the user's own preload comes first.

    Without ``part`` only its waits change. Without ``shim`` they reach only programs that
    import the mpi4py wrapper. ``wait`` is what ``wait_policy`` returned.
    """
    added = {"COSCHED_WAIT": wait}
    if part is not None:
        added["COSCHED_JOB"] = part.job
        added["COSCHED_RUN_DIR"] = os.path.abspath(part.run_dir)
        added["COSCHED_STATUS"] = part.status
        if any(name in environ for name in RANK_VARIABLES):
            # They are an outer job's: the launcher would take itself for a rank.
            added["COSCHED_LAUNCHED"] = f"{part.job}:0"
        if part.memory_bytes:
            added["COSCHED_MEMORY"] = str(part.memory_bytes)
        if part.submitted_ns:
            added["COSCHED_SUBMITTED"] = str(part.submitted_ns)
    if shim is not None:
        added["LD_PRELOAD"] = merge_preload(environ.get("LD_PRELOAD", ""), shim)
    if verbose:
        added["COSCHED_VERBOSE"] = "1"
    return added


def submission_ns(environ: Mapping[str, str], now_ns: int) -> int:
    """When the job was submitted, since 1970: now, unless whoever queued it said when."""
    text = environ.get("COSCHED_SUBMITTED", "")
    if not text:
        return now_ns
    if not (text.isascii() and text.isdecimal() and int(text) < 1 << 63):
        raise CoschedError(
            f"COSCHED_SUBMITTED={text} is not a number of nanoseconds since 1970; unset it"
        )
    return int(text)


def wait_policy(text: str) -> str:
    """``spin``, ``yield``, ``block[:TIME]`` or ``auto[:TIME]`` as the shim reads it.

    TIME, 20 us unless given, is how long a wait spins before it sleeps.
    """
    if text in ("spin", "yield"):
        return text
    kind, colon, duration = text.partition(":")
    if kind not in ("block", "auto") or (colon and not duration):
        raise CoschedError(
            f"wait '{text}': must be spin, yield, block or auto, "
            "the last two also with :TIME"
        )
    spin_ns = parse_duration(duration, "wait") if duration else BLOCK_SPIN_NS
    return f"{kind}:{spin_ns}"


def carrier_for(
    asked: str, *, interposer: bool, surely_shimmed: bool, wrapped: bool
) -> str:
    """How the sender's status travels, ``asked`` for by name or as ``auto``.

    ``shadow`` costs next to nothing in the path of a message and cannot spoil one, so
    ``auto`` takes it wherever every rank surely has the interposer; without one, for the
    mpi4py wrapper, where cosched-run itself starts every rank; else ``none``.
    """
    if asked != "auto":
        return asked
    everywhere = surely_shimmed if interposer else not wrapped
    return "shadow" if everywhere else "none"


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
