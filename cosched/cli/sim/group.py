"""``cosched sim``: the table of the commands that simulate."""

from __future__ import annotations

import click

from cosched.cli.groups import LazyGroup

SECTIONS = {
    "Commands": {
        "calibrate": (
            "sim.calibrate",
            "Calibrate",
            "Measure how programs communicate.",
        ),
        "couple": ("sim.coupling", "Couple", "Machines whose jobs start together."),
        "fit": ("sim.fit", "Fit", "Fit a model to a log: arrivals, sizes, run times."),
        "generate": ("sim.generate", "Generate", "Write a generated log of jobs."),
        "malleable": ("sim.malleable", "Malleable", "Run jobs whose nodes may change."),
        "nodes": ("sim.nodes", "Nodes", "The node's scheduler on many nodes."),
        "queue": ("sim.queue", "Queue", "Run logs through a batch queue."),
        "share": ("sim.share", "Share", "Run logs on nodes that several jobs share."),
        "startup": ("sim.startup", "Startup", "Start a job on many nodes."),
        "symbiosis": (
            "sim.symbiosis",
            "symbiosis",
            "Run jobs that share nodes, half and half.",
        ),
    }
}


@click.group("sim", cls=LazyGroup, sections=SECTIONS)
def command() -> None:
    """Try scheduling decisions in virtual time.

    The simulations run the decisions of live nodes and domains, and some that
    only a simulator has. A log of jobs, real or generated, takes the place of
    users and nodes. A year takes seconds.

    \b
    Examples:
      cosched sim generate year.swf --jobs 30000 --machine 128 --load 0.8
      cosched sim queue year.swf --policy easy
      cosched sim queue year.swf --policy easy,wfp,conservative --out out.json
      cosched sim couple compute.swf analysis.swf --pairs 2min
      cosched sim nodes --nodes 1024 --pattern bulk --dom 4
      cosched sim calibrate mine.toml
      cosched sim startup --nodes 248 --tasks 32
      cosched sim share KTH.swf.gz --dom 3
      cosched sim malleable sdsc --minimum 50,30
      cosched sim symbiosis stream --repeat 20

    Logs of real machines: https://www.cs.huji.ac.il/labs/parallel/workload/
    """
