"""``cosched sim generate``: writes a generated log."""

from __future__ import annotations

from pathlib import Path

import click

from cosched.cli.declared import Command, argument, command, option, part
from cosched.cli.files import writing
from cosched.cli.sim.options import command_line, seed_option
from cosched.cli.values import Whole
from cosched.sim.logs.generate import Recipe, generate
from cosched.sim.logs.swf import write_swf


@command("generate")
class Generate(Command):
    """Write a generated log of jobs.

    Arrivals depend on the hour of the day. Sizes are mostly powers of two. Run
    times are mostly short and sometimes very long. Walltimes are round numbers.
    The same options make the same log.

    \b
    Examples:
      cosched sim generate year.swf --jobs 30000 --machine 128
      cosched sim generate - --jobs 100 --machine 16 --load 1.2 --seed 7
    """

    out: Path = argument(type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
    recipe: Recipe = part(
        Recipe,
        jobs=option(type=Whole(1), required=True, help="How many."),
        machine=option(type=Whole(1), required=True, help="Nodes of the machine."),
        load=option(
            type=float, help="Node-seconds of the jobs / node-seconds of the machine."
        ),
        seed=seed_option(),
    )

    def run(self) -> None:
        workload = generate(self.recipe)
        with writing(self.out) as stream:
            write_swf(workload, stream, [command_line()])
