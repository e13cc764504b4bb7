"""Compares the configuration of a Slurm with what pairs need."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cosched.core.decoding import is_whole, parse_integer

#: The longest wait of a yield, in seconds, if nothing brings the job forward sooner.
_EXPIRE_S = 120
_BATCH_DELAY_S = 3


def advise(config: Mapping[str, str]) -> list[str]:
    """Returns a line for each setting that hinders pairs. config: as ``scontrol show
    config`` prints it."""
    lines = []
    prolog = config.get("PrologSlurmctld", "(null)")
    if prolog == "(null)":
        lines.append("PrologSlurmctld is not set: jobs start without their mates")
    limit = config.get("PrologEpilogTimeout", "65534")
    if is_whole(limit.split()[0], most=65533):
        lines.append(f"PrologEpilogTimeout={limit} ends holds; leave it unset")
    expire = re.search(r"cred_expire=(\d+)", config.get("AuthInfo", ""))
    if (_EXPIRE_S if expire is None else _seconds(expire[1])) > 30:
        lines.append(
            "AuthInfo: add cred_expire=10, or a job that yields waits 2 minutes when the "
            "controller is away"
        )
    delay = re.search(r"batch_sched_delay=(\d+)", config.get("SchedulerParameters", ""))
    if (_BATCH_DELAY_S if delay is None else _seconds(delay[1])) > 1:
        lines.append(
            "SchedulerParameters: add batch_sched_delay=0, or a mate starts seconds later"
        )
    if config.get("JobRequeue", "1") == "0":
        lines.append("JobRequeue=0: jobs with mates need sbatch --requeue to yield")
    return lines


def _seconds(text: str) -> int:
    return parse_integer(text, "Slurm's configuration", 0, 1 << 62)
