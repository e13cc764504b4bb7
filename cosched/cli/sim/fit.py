"""``cosched sim fit``: fits a model to a log, from which similar logs can be made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import click

from cosched.cli.declared import Command, command, option
from cosched.cli.files import check_writable, write_outcome
from cosched.cli.options import json_file_option
from cosched.cli.sim.options import (
    command_line,
    log_argument,
    machine_option,
    strict_option,
)
from cosched.core.decoding import parse_integer
from cosched.sim.cells import left_out
from cosched.sim.logs.fit import LogModel, fit
from cosched.sim.logs.opening import log_name
from cosched.sim.logs.swf import Log, read_swf

CLOCK = r"([01]?\d|2[0-3]):([0-5]\d)"


@command("fit")
class Fit(Command):
    """Fit a model to a log: arrivals by hour, sizes, run times.

    Arrivals are a Poisson process with a rate for each hour of the day, sizes are
    powers of two, run times a Weibull distribution (Weissman et al. 2003).
    'cosched sim malleable' takes the JSON file as a source of jobs.

    \b
    Examples:
      cosched sim fit KTH.swf.gz
      cosched sim fit SDSC.swf.gz --begins 18:11 --out sdsc.json
    """

    trace: Path = log_argument()
    name: str | None = option(help="Name of the model; by default that of the log.")
    begins: str | None = option(
        metavar="HH:MM",
        help="Time of day when the log begins; by default as in its header (UTC), or"
        " 00:00.",
    )
    machine: int | None = machine_option("Another size of the machine.")
    strict: bool = strict_option()
    json_file: Path | None = json_file_option(
        "Write the model to FILE, as JSON ('-': as --json)."
    )

    def run(self) -> None:
        check_writable(self.json_file)
        log = read_swf(self.trace, machine=self.machine, strict=self.strict)
        name = self.name or log_name(self.trace)
        model = fit(log.workload, name, _begins_s(self.begins, log))
        jobs = len(log.workload)
        skipped = log.skipped_lines()
        document = {
            **model.document(),
            "command": command_line(),
            "jobs": jobs,
            "skipped_lines": skipped,
        }
        write_outcome(self.json_file, _text(model, jobs, skipped), document)


def _begins_s(begins: str | None, log: Log) -> int:
    if begins is None:
        return log.start_s or 0
    match = re.fullmatch(CLOCK, begins)
    if match is None:
        raise click.UsageError(f"--begins: '{begins}' is not a time of day like 18:11.")
    hours, minutes = (parse_integer(each, "--begins", 0, 99) for each in match.groups())
    return hours * 3600 + minutes * 60


def _text(model: LogModel, jobs: int, skipped: Mapping[str, int]) -> str:
    lines = [
        f"{model.name}: {jobs} jobs, {model.machine} nodes",
        *left_out(skipped),
        f"run times: Weibull, shape {model.shape:.4f}, scale {model.scale_s:.1f} s",
        "sizes:",
        *(
            f"  {2**power:>7} {share:>7.2%}"
            for power, share in enumerate(model.sizes)
            if share
        ),
        "arrivals an hour, by the hour of the day:",
    ]
    for first in range(0, 24, 6):
        rates = " ".join(f"{rate:>9.3f}" for rate in model.per_hour[first : first + 6])
        lines.append(f"  {first:02}:00 {rates}")
    lines.append(f"load of the model: {model.load:.2f}")
    return "\n".join(lines) + "\n"
