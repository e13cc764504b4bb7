"""Restarts a killed controller, so that its domain can end."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from cosched.cluster.paths import DomainPaths
from cosched.cluster.up.members import start_controller
from cosched.cluster.up.nodes import DomainNode, controller_node
from cosched.config.domain import DomainConfig, load_config
from cosched.config.slurm import is_coupled
from cosched.core.errors import CoschedError
from cosched.linux.files.owners import acts_for_another
from cosched.rundir.directories import check_own, is_listening
from cosched.rundir.lock import is_held


@contextlib.contextmanager
def controller_to_end(
    paths: DomainPaths, inside: Sequence[DomainNode]
) -> Iterator[DomainConfig | None]:
    """Starts the controller for the end of its domain if only its agents are up; yields the
    configuration then, otherwise None. Ends the controller again if the domain is not
    ended.

    Does so only on the controller's machine and for the user who started the domain.
    inside: see ``controller_node``.
    Another process, such as an init system, may start it at the same time.
    """
    config = _config_of_agents(paths)
    place = None if config is None else controller_node(config, inside)
    if place is None:
        yield None
        return
    if acts_for_another():
        raise CoschedError(
            f"{paths.controller_lock}: its holder was killed; the owner of the domain ends "
            "it with: cosched cluster down"
        )
    check_own(paths.directory, os.geteuid())
    controller = start_controller(place, paths, "--ending")
    try:
        controller.wait_ready()
    except CoschedError:
        controller.end()
        if not is_held(paths.controller_lock):
            raise
        yield None
        return
    try:
        yield config
    except BaseException:
        controller.end()
        raise
    controller.leave()


def _config_of_agents(paths: DomainPaths) -> DomainConfig | None:
    """Returns the configuration of a domain whose agents are up on this machine, without
    its controller; None if it is not so."""
    if is_listening(paths.controller_socket) or is_held(paths.controller_lock):
        return None
    if not paths.config.exists() or is_coupled(paths.config):
        return None
    config = load_config(paths.config)
    agents = map(paths.agent_lock, config.nodes)
    return config if any(map(is_held, agents)) else None
