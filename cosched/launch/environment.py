"""Builds the environment of a job's tasks and the job's default name."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

from cosched.core.decoding import is_whole, parse_integer
from cosched.core.errors import CoschedError
from cosched.core.expectation import Prediction
from cosched.core.named_tuples import NamedTuple
from cosched.core.units import NS_PER_S, NS_PER_US, parse_duration
from cosched.launch.given.preloads import join_preloads
from cosched.linux import proc

#: A process with one of these is a rank; as in mpi_shim/interposer/launch.c.
RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
#: Set for a process that starts ranks; as in mpi_shim/interposer/launch.c.
LAUNCHER = "COSCHED_LAUNCHER"
#: An older process was a shell, which became this command by ``exec``.
_COMMAND_NS = 10 * NS_PER_S
_LABEL_MAX = 34
#: About the cost of a sleep and a wake-up: the competitive choice.
BLOCK_SPIN_NS = 20 * NS_PER_US
_SUFFIX_DIGITS = "0123456789abcdefghijkmnpqrstuvwxyz"
_SUFFIX_LENGTH = 5


def default_job_name(label: str, noise: bytes, engine_number: str = "") -> str:
    """Returns the program's name with a short suffix that differs from run to run.

    engine_number: the number of the batch system's job, which stands between the two.
    """
    number = int.from_bytes(noise, "little")
    suffix = ""
    for _ in range(_SUFFIX_LENGTH):
        number, digit = divmod(number, len(_SUFFIX_DIGITS))
        suffix += _SUFFIX_DIGITS[digit]
    return "-".join(filter(None, (job_label(label), engine_number, suffix)))


def job_label(text: str) -> str:
    """Returns the text as the beginning of a job's name: letters, digits, '.', '_', '-'."""
    clean = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip(".-")[:_LABEL_MAX]
    return clean or "job"


def name_on_nodes(name: str, number: int) -> str:
    """Returns the name that a job of a domain has on its nodes."""
    return f"{job_label(name)}-{number}"


def is_run_of(name: str, asked: str) -> bool:
    """Returns whether a job's name on nodes is the asked one, or was made from it with a
    number or a suffix."""
    rest = name.removeprefix(f"{job_label(asked)}-")
    made = rest.isdecimal() or (
        len(rest) == _SUFFIX_LENGTH and set(rest) <= set(_SUFFIX_DIGITS)
    )
    return name == asked or (rest != name and made)


def command_ns() -> int:
    """Returns when the user gave this command, in ns since 1970: the start of its process,
    or the present time if the process was a shell before."""
    now_ns, ticks = time.time_ns(), proc.start_ticks(os.getpid())
    began_ns = now_ns if ticks is None else proc.started_wall_ns(ticks)
    return began_ns if now_ns - began_ns < _COMMAND_NS else now_ns


class Part(NamedTuple):
    """A job's part in coscheduling, from which the ranks' variables are made."""

    job: str  #: the job's name on its nodes
    #: The daemons' run directory; None: each rank looks for the daemons of its node.
    run_dir: Path | None
    status: str  #: the carrier of the sender's status
    memory_bytes: int = 0  #: the job's memory on each node; 0: unknown
    submitted_ns: int = 0  #: the time of submission since 1970; 0: unknown
    expectation: Prediction = Prediction()  #: how long like jobs were scheduled
    registers_in_init: bool = False  #: the ranks register in MPI_Init, not when they start
    #: ``all``: the job ends in MPI_Init unless each of its nodes coschedules it. ``none``:
    #: rank 0 does not report the nodes that do not. Empty: rank 0 reports them.
    require: str = ""
    #: Whether all ranks have the shim, as COSCHED_JOIN has it; empty: probably.
    shimmed: str = ""


def task_environment(
    environ: Mapping[str, str],
    *,
    part: Part | None,
    wait: str,
    shim: Path | None,
    verbose: bool,
) -> dict[str, str]:
    """Returns the variables for the tasks; the user's own preload comes first.

    Without ``part`` only waits change. Without ``shim`` the variables affect only programs
    that import the mpi4py wrapper. ``wait``: a result of ``wait_policy``.
    """
    added = {"COSCHED_WAIT": wait}
    if part is not None:
        added["COSCHED_JOB"] = part.job
        if part.run_dir is not None:
            added["COSCHED_RUN_DIR"] = os.path.abspath(part.run_dir)
        if part.require:
            added["COSCHED_REQUIRE"] = part.require
        if part.shimmed:
            added["COSCHED_JOIN"] = part.shimmed
        added["COSCHED_STATUS"] = part.status
        if part.registers_in_init or any(name in environ for name in RANK_VARIABLES):
            # To the shim another process has reported already. Without this a launcher with
            # variables of an outer job would take itself for a rank.
            added["COSCHED_LAUNCHED"] = f"{part.job}:0"
        if part.memory_bytes:
            added["COSCHED_MEMORY"] = str(part.memory_bytes)
        if part.submitted_ns:
            added["COSCHED_SUBMITTED"] = str(part.submitted_ns)
        kind, lengths_ns = part.expectation
        if kind or lengths_ns:
            added["COSCHED_EXPECTED"] = f"{kind}:{','.join(map(str, lengths_ns))}"
    if shim is not None:
        added["LD_PRELOAD"] = join_preloads(environ.get("LD_PRELOAD", ""), [str(shim)])
    if verbose:
        added["COSCHED_VERBOSE"] = "1"
    return added


def launcher_environment(tasks: Mapping[str, str], *, inside: bool) -> dict[str, str]:
    """Returns the variables with which a launcher reports to this node's daemon that its
    job starts; none if its ranks report in MPI_Init alone, or not at all.

    ``tasks``: those for the ranks. ``inside``: it starts on a virtual node, where the lab
    adds the variable ``LAUNCHER``.
    """
    if "COSCHED_JOB" not in tasks or "COSCHED_LAUNCHED" in tasks:
        return {}
    return {**tasks, **({} if inside else {LAUNCHER: "1"})}


def submission_ns(environ: Mapping[str, str], usual_ns: int) -> int:
    """Returns the time of submission since 1970: COSCHED_SUBMITTED, otherwise
    ``usual_ns``."""
    text = environ.get("COSCHED_SUBMITTED", "")
    if not text:
        return usual_ns
    if not is_whole(text):
        raise CoschedError(
            f"COSCHED_SUBMITTED={text} is not a number of nanoseconds since 1970; unset it"
        )
    return parse_integer(text, "COSCHED_SUBMITTED", 0, (1 << 63) - 1)


def wait_policy(text: str) -> str:
    """Returns ``spin``, ``yield``, ``busy``, ``block:NS`` or ``auto:NS``, as the shim reads
    it.

    The user writes ``block[:TIME]`` or ``auto[:TIME]``. A wait spins for TIME, by default
    20 us, before it sleeps.
    """
    if text in ("spin", "yield", "busy"):
        return text
    kind, colon, duration = text.partition(":")
    if kind not in ("block", "auto") or (colon and not duration):
        raise CoschedError(
            f"wait '{text}': must be spin, yield, block, auto or busy, "
            "block and auto also with :TIME"
        )
    spin_ns = parse_duration(duration, "wait") if duration else BLOCK_SPIN_NS
    return f"{kind}:{spin_ns}"


def carrier_for(asked: str, *, interposer: bool, wrapped: bool) -> str:
    """Returns the carrier of the sender's status; ``asked`` is its name or ``auto``.

    ``shadow`` costs a message next to nothing and cannot damage it. So ``auto`` means
    ``shadow`` with the interposer, since the ranks agree in MPI_Init whether all have it.
    Without an interposer (for the mpi4py wrapper) it means ``shadow`` if cosched-run itself
    starts every rank. Otherwise it means ``none``.
    """
    if asked != "auto":
        return asked
    return "shadow" if interposer or not wrapped else "none"
