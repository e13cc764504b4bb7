"""Reads Slurm's configuration by ``scontrol``."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable

from cosched.core.decoding import parse_integer
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S, parse_run_time
from cosched.linux.processes.tools import run_tool
from cosched.observe.doctor.facts import UNLIMITED, Partition, SlurmFacts

WITHIN_S = 20.0
#: An answer that takes longer is announced.
SLOW_S = 2.0
_LINE = r"(?m)^(\S+)\s*=[ \t]*(.*?)\s*$"
_FIELD = r"(\w+)=(\S*)"
_SHARED = r"(FORCE|YES)(?::(\d+))?"
#: The meaning of FORCE and YES without a number.
_USUAL_SHARED = 4


def read_slurm(note_slow: Callable[[], object]) -> SlurmFacts | None:
    """Returns the configuration of this machine's Slurm; None without Slurm.

    note_slow: called once, in another thread, if Slurm has not answered after ``SLOW_S``.
    Raises CoschedError, one line, if Slurm does not answer.
    """
    if shutil.which("scontrol") is None:
        return None
    deadline_s = time.monotonic() + WITHIN_S
    slow = threading.Timer(SLOW_S, note_slow)
    slow.start()
    try:
        return SlurmFacts(
            config=parse_config(_scontrol(deadline_s, "show", "config")),
            partitions=parse_partitions(
                _scontrol(deadline_s, "show", "partition", "--oneliner")
            ),
        )
    finally:
        slow.cancel()


def parse_config(text: str) -> dict[str, str]:
    """Reads ``scontrol show config``: keys in lower case, the values as they are."""
    return {name.lower(): value for name, value in re.findall(_LINE, text)}


def parse_partitions(text: str) -> tuple[Partition, ...]:
    """Reads ``scontrol show partition --oneliner``."""
    return tuple(
        _partition(dict(re.findall(_FIELD, line)))
        for line in text.splitlines()
        if line.startswith("PartitionName=")
    )


def _count(text: str) -> int:
    return parse_integer(text, "OverSubscribe", 0, 1 << 31)


def _partition(fields: dict[str, str]) -> Partition:
    sharing = re.fullmatch(_SHARED, fields.get("OverSubscribe", ""))
    jobs = 1
    if sharing is not None:
        jobs = _USUAL_SHARED if sharing[2] is None else _count(sharing[2])
    return Partition(
        name=fields["PartitionName"],
        nodes=fields.get("Nodes", ""),
        shared=jobs,
        forced=sharing is not None and sharing[1] == "FORCE",
        most_s=_seconds(fields.get("MaxTime", UNLIMITED)),
        default_memory=any(
            fields.get(key, UNLIMITED) != UNLIMITED
            for key in ("DefMemPerCPU", "DefMemPerNode")
        ),
    )


def _seconds(text: str) -> float | None:
    try:
        return parse_run_time(text) / NS_PER_S
    except CoschedError:  # UNLIMITED, NONE
        return None


def _scontrol(deadline_s: float, *words: str) -> str:
    try:
        done = run_tool(("scontrol", *words), max(0.0, deadline_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise CoschedError(f"scontrol did not answer in {WITHIN_S:g} s") from None
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        last = lines[-1].removeprefix("scontrol: ") if lines else "failed"
        raise CoschedError(f"scontrol: {last}")
    return done.stdout
