"""Makes a steward's first frame from the job object, and the directory of its files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from cosched.cluster.agent.frames import Prepare
from cosched.cluster.agent.route import Route
from cosched.cluster.paths import DomainPaths
from cosched.core.cluster.startup.jobobject import JobObject
from cosched.core.errors import CoschedError


def directory_of(spool: Path, route: Route) -> Path:
    """Returns the directory for the files of one world of a job."""
    return spool / f"{route.job}.{route.start}.{route.world}"


def make_directory(directory: Path, found: JobObject) -> None:
    """Makes the directory for the job's user. Raises CoschedError if that fails."""
    try:
        directory.parent.mkdir(mode=0o711, exist_ok=True)
        directory.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(directory, found.uid, found.gid)
    except OSError as error:
        raise CoschedError(f"{directory}: {error.strerror}") from None


def environ_of_node(name: str, paths: DomainPaths) -> dict[str, str]:
    """Returns the node's name for its tasks where its scheduler daemon has it, too.
    Otherwise they look for a daemon by the host's name."""
    daemon = paths.node(name) / "register.sock"
    return {"COSCHED_NODE": name} if daemon.exists() else {}


def prepare(
    route: Route,
    found: JobObject,
    directory: Path,
    cpus: tuple[tuple[int, ...], ...],
    environ_of_node: Mapping[str, str],
    topology: Path,
) -> Prepare:
    """Returns the frame with which the job's steward makes this node's tasks."""
    return Prepare(
        name=f"{found.name}.{route.job}.{route.start}",
        uid=found.uid,
        gid=found.gid,
        world=route.world,
        commands=found.commands,
        given=found.spawned.given if found.spawned else {},
        environ={**found.environ, **environ_of_node},
        cwd=found.cwd,
        umask=found.umask,
        place=route.place,
        hosts=route.hosts,
        counts=found.counts,
        cpus=cpus,
        pmi=found.pmi,
        pmix_library=found.pmix_library,
        directory=str(directory),
        topology=str(topology),
        input=found.input,
        output=found.output,
        error=found.error,
        label=found.label,
        grace_s=found.grace_s,
    )
