"""``cosched cluster``: the table of the commands that start, end and inspect a domain."""

from __future__ import annotations

import click

from cosched.cli.groups import LazyGroup

SECTIONS = {
    "Commands": {
        "up": ("cluster.up", "Up", "Start a controller, and an agent on each node."),
        "down": ("cluster.up", "Down", "End the agents and the controller."),
        "status": ("cluster.nodes", "Status", "List the nodes and their jobs."),
        "add": ("cluster.change", "Add", "Add nodes to a domain that is up."),
        "remove": ("cluster.change", "Remove", "Remove nodes from a domain that is up."),
        "drain": ("cluster.nodes", "Drain", "Keep new jobs away from nodes."),
        "undrain": ("cluster.nodes", "Undrain", "Let jobs start on nodes again."),
        "reload": ("cluster.nodes", "Reload", "Let the controller read domain.toml again."),
        "backup": ("cluster.backup", "Backup", "Copy jobs, settings and keys."),
        "restore": ("cluster.backup", "Restore", "Bring a copy of them back."),
        "keygen": ("cluster.up", "Keygen", "Make the keys that members lack."),
        "couple": ("cluster.coupling", "Couple", "Start one of several coupled clusters."),
        "gate": ("cluster.coupling", "Gate", "Print the script for PrologSlurmctld."),
        "task-prolog": (
            "cluster.coupling",
            "task_prolog",
            "Print the script for TaskProlog.",
        ),
        "mates": ("cluster.coupling", "Mates", "List the jobs that wait for mates."),
    }
}


@click.group("cluster", cls=LazyGroup, sections=SECTIONS)
def command() -> None:
    """Run a domain: a queue of jobs, and an agent on each node.

    One controller queues the jobs. The agents start their tasks. Jobs are sent with
    cosched submit. Without a domain, cosched submit starts a private one.

    \b
    Examples:
      cosched cluster up
      cosched cluster up --lab
      cosched cluster up --hosts n1,n2,n3 --jobs-per-node 2
      cosched cluster status
      cosched cluster add --hosts n4
      cosched cluster remove n4 --wait
      cosched cluster drain n3 --reason "new disk"
      cosched cluster reload
      cosched cluster backup /root/domain-monday
      cosched cluster couple --config domain.toml
      cosched cluster down
    """
