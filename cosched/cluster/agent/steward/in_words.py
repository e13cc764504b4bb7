"""Turns the wire text of a steward's first frame into words of this process."""

from __future__ import annotations

from msgspec.structs import replace

from cosched.cluster.agent.frames import Prepare
from cosched.core.cluster.startup.questions import Command
from cosched.linux.system_text import environ_from_wire, from_wire, words_from_wire


def in_words(job: Prepare) -> Prepare:
    """Returns the frame with programs, variables and paths as this process uses them."""
    return replace(
        job,
        commands=tuple(map(_command, job.commands)),
        environ=environ_from_wire(job.environ),
        cwd=from_wire(job.cwd),
        pmix_library=from_wire(job.pmix_library),
        directory=from_wire(job.directory),
        topology=from_wire(job.topology),
        input=from_wire(job.input),
        output=from_wire(job.output),
        error=from_wire(job.error),
    )


def _command(command: Command) -> Command:
    return replace(
        command,
        argv=words_from_wire(command.argv),
        cwd=from_wire(command.cwd),
        path=from_wire(command.path),
        environ=environ_from_wire(command.environ),
    )
