"""Lists the commands of ``cosched`` in a table: the class and the help line of each."""

from __future__ import annotations

import click

from cosched.cli.groups import LazyGroup
from cosched.version import VERSION

SECTIONS = {
    "Jobs": {
        "status": ("jobs.status", "Status", "Show nodes, jobs, shares and switches."),
        "top": ("jobs.top", "Top", "Show nodes and jobs, live."),
        "dashboard": ("jobs.dashboard", "Dashboard", "Show nodes and jobs in the browser."),
        "why": ("jobs.why", "Why", "Explain why a job runs or does not."),
        "history": ("jobs.history", "History", "Show jobs that have ended."),
        "suspend": ("jobs.suspend", "Suspend", "Stop a job of yours until you resume it."),
        "resume": ("jobs.suspend", "Resume", "Undo suspend, boost or detach."),
        "boost": ("jobs.suspend", "Boost", "Run a job alone on its CPUs."),
        "detach": ("jobs.suspend", "Detach", "Take a job out of coscheduling."),
    },
    "Nodes": {
        "up": ("nodes.up", "Up", "Start the daemons of this node."),
        "down": ("nodes.down", "Down", "Stop the daemons of this node."),
        "config": ("nodes.config", "config", "Show, check and change the configuration."),
        "doctor": ("nodes.doctor", "Doctor", "Examine nodes, and name each remedy."),
    },
    "Domain": {
        "submit": ("domain.submit", "Submit", "Send a job to the domain's queue."),
        "queue": ("domain.queue", "Queue", "Show the jobs of the domain's queue."),
        "output": ("domain.output", "Output", "Print the output of a job."),
        "cancel": ("domain.cancel", "Cancel", "End jobs, or take them from the queue."),
        "hold": ("domain.cancel", "Hold", "Keep waiting jobs from starting."),
        "unhold": ("domain.cancel", "Unhold", "Let held jobs start."),
        "resize": ("domain.cancel", "Resize", "Change the bounds of a malleable job."),
        "cluster": ("cluster.group", "command", "Run a queue and an agent on each node."),
    },
    "Measure": {
        "demo": ("measure.demo", "Demo", "Show the gain on this machine."),
        "bench": ("measure.bench", "Bench", "Compare runs with and without cosched."),
        "tune": ("measure.tune", "Tune", "Find the best slice and GMET for a workload."),
        "advise": ("measure.advise", "Advise", "Advise whether to coschedule a job."),
        "report": ("measure.report", "Report", "Draw traces and results as HTML."),
        "replay": ("measure.replay", "Replay", "Replay a trace and compare decisions."),
        "sim": ("sim.group", "command", "Try scheduling decisions in virtual time."),
    },
    "Tools": {
        "lab": ("tools.lab", "lab", "Make virtual nodes on this machine."),
        "shim": ("tools.shim", "shim", "Inspect, build or check the MPI interposer."),
        "malleable": (
            "tools.malleable",
            "Malleable",
            "Print what compilers need for malleable programs.",
        ),
        "completion": (
            "tools.completion",
            "Completion",
            "Complete command lines in a shell.",
        ),
    },
}
COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


@click.command(
    cls=LazyGroup,
    sections=SECTIONS,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 80,
        "show_default": True,
    },
    epilog="Start jobs with cosched-run; see cosched-run --help.",
)
@click.version_option(VERSION)
def cosched() -> None:
    """Coscheduling of MPI jobs that share nodes.

    A job runs on all its nodes at the same time, and jobs take turns. A turn lasts a
    slice. Within the guaranteed minimum execution time (GMET) no message ends it. A domain
    is a queue of jobs, and the nodes on which they run. docs/glossary.md has all terms.

    \b
    Examples:
      cosched demo
      cosched-run -n 2 ./app
      cosched submit -n 2 ./app
      cosched queue
      cosched history
    """
