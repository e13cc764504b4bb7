"""Recognises the groups that an engine makes for one job. Pure.

A group is the tuple of directory names from the root of its hierarchy; the root is ().

    Slurm         slurm/uid_U/job_J/step_S/task_T                  version 1
                  system.slice/slurmstepd.scope/job_J/step_S/...   version 2
    Kubernetes    kubepods/burstable/podUID/CONTAINER              cgroupfs driver
                  kubepods.slice/.../kubepods-...-podUID.slice     systemd driver
    Docker, Podman, CRI-O, containerd
                  docker/ID, libpod_parent/libpod-ID, docker-ID.scope, ...
    systemd       NAME.scope, run-NAME.service: a unit that was made for one command

Login sessions and services are no job's groups: a shell, an editor or other users'
processes run there too.
"""

from __future__ import annotations

import re

Group = tuple[str, ...]

_SLURM_JOB = r"job_\d+"
_SLURM = r"slurm(_.+)?|(.+_)?slurmstepd\.scope"
_POD = r"(kubepods-.*)?pod[0-9A-Za-z_-]+(\.slice)?"
_KUBERNETES = r"kubepods(\.slice)?"
_CONTAINER = r"([a-z]+-)*[0-9a-f]{64}(\.scope)?"
_UNIT = r".+\.scope|run-.+\.service"
#: Scopes that hold more than one command.
_SHARED_UNIT = r"session-.+\.scope|init\.scope|(.+_)?slurmstepd\.scope"


def job_group(group: Group) -> int | None:
    """Returns the length of the outermost part of the path that is a job's group.

    ``group[:length]`` is that group; None if there is none."""
    for index, name in enumerate(group):
        if _is_job_group(name, group[:index]):
            return index + 1
    return None


def _is_job_group(name: str, above: Group) -> bool:
    if re.fullmatch(_SLURM_JOB, name):
        return any(re.fullmatch(_SLURM, outer) for outer in above)
    if re.fullmatch(_POD, name):
        return any(re.fullmatch(_KUBERNETES, outer) for outer in above)
    if re.fullmatch(_SHARED_UNIT, name):
        return False
    return bool(re.fullmatch(_CONTAINER, name) or re.fullmatch(_UNIT, name))
