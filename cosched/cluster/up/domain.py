"""Starts the members of a domain and waits until they are up; ends the domain."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from cosched.cluster.answers import JOINED
from cosched.cluster.client import USUAL_PATIENCE, Client, NoDomain, Patience
from cosched.cluster.keys import make_keys, remove_keys, without_keys
from cosched.cluster.paths import DomainPaths
from cosched.cluster.up.members import start_agent, start_controller
from cosched.cluster.up.nodes import DomainNode, controller_node
from cosched.config.domain import DomainConfig, load_config, write_config
from cosched.config.slurm import is_coupled
from cosched.core.config.tables import differences
from cosched.core.errors import CoschedError
from cosched.core.names import CONTROLLER, PRIVATE
from cosched.core.units import NS_PER_S
from cosched.documents import is_there
from cosched.linux.files.owners import acting_as_owner, acts_for_another
from cosched.linux.files.whole import write_whole
from cosched.linux.waiting import comes_true
from cosched.rundir.directories import check_own_domain, is_listening
from cosched.rundir.lock import is_held, was_killed

#: How long members may take to come up.
WITHIN_S = 60.0
_POLL_S = 0.05


def write_domain(paths: DomainPaths, config: DomainConfig) -> None:
    """Writes ``domain.toml`` and the keys that are missing. The keys stay as they are."""
    paths.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    write_whole(paths.config, write_config(config))
    make_keys(paths.keys, config.members)


@contextlib.contextmanager
def written_domain(paths: DomainPaths, config: DomainConfig) -> Iterator[bool]:
    """Writes a domain for the block, which starts it. Yields whether ``domain.toml`` had
    other settings than these; then its copy stays as ``paths.former_config``.

    If the block fails, the file and the keys are as before. Raises CoschedError for the
    file of a domain whose engine is the site's Slurm, and for the name of private domains.
    """
    if is_coupled(paths.config):
        raise CoschedError(
            f"{paths.config}: is of a domain whose nodes Slurm has; start its controller "
            "with: cosched cluster couple --config FILE, or name another --run-dir"
        )
    if config.name == PRIVATE:
        raise CoschedError(
            f"{paths.run_dir}: the name '{PRIVATE}' is for domains that commands start by "
            "themselves; name another --run-dir, or another domain in --config FILE"
        )
    before = paths.config.read_bytes() if paths.config.exists() else None
    had_others = before is not None and _has_others(load_config(paths.config), config)
    new = without_keys(paths.keys, config.members)
    try:
        write_domain(paths, config)
        yield had_others
    except BaseException:
        remove_keys(paths.keys, new)
        if before is None:
            paths.config.unlink(missing_ok=True)
        else:
            write_whole(paths.config, before)
        raise
    if before is not None and had_others:
        write_whole(paths.former_config, before)


def _has_others(old: DomainConfig, new: DomainConfig) -> bool:
    """Returns whether a user may want the settings of a former domain back."""
    return old.name != PRIVATE and bool(other_settings(old, new))


def other_settings(old: DomainConfig, new: DomainConfig) -> list[str]:
    """Returns the settings in which two domains differ, other than their names, nodes and
    addresses."""
    placed = replace(old, name=new.name, controller=new.controller, nodes=new.nodes)
    return list(differences(placed, new))


def start_domain(
    paths: DomainPaths,
    places: Sequence[DomainNode],
    *options: str,
    steps: Path | None = None,
) -> None:
    """Starts the controller at the first place and an agent at each, and waits until all
    have joined. Ends what it has started if one fails.

    options: words for the controller. steps: a file in which all agents note the steps of
    starts.
    """
    config = load_config(paths.config)
    with contextlib.ExitStack() as started:
        controller = start_controller(places[0], paths, *options)
        started.callback(controller.end)
        agents = []
        for place in places:
            agent = start_agent(place, paths, steps)
            started.callback(agent.end)
            agents.append(agent)
        for member in (controller, *agents):  # they start side by side
            member.wait_ready()
        wait_joined(paths, config.node_names)
        started.pop_all()
    for member in (controller, *agents):
        member.leave()


def start_coupled(paths: DomainPaths) -> None:
    """Starts only the controller of a domain, on this machine."""
    start_controller(DomainNode(os.uname().nodename, ""), paths).settle()


def start_killed(paths: DomainPaths, places: Sequence[DomainNode]) -> list[str]:
    """Starts the members of a domain that were killed while others are up; returns their
    names. They read the same ``domain.toml``.

    places: the nodes from here. Returns none if no member is up here, or if the domain has
    other nodes. Then agents whose controller has ended have ended, too.
    """
    names = [place.name for place in places]
    if not is_there(paths.config) or is_coupled(paths.config):
        return []
    config = load_config(paths.config)
    locks = {CONTROLLER: paths.controller_lock}
    locks |= {name: paths.agent_lock(name) for name in names}
    killed = [name for name, lock in locks.items() if was_killed(lock)]
    if not any(map(is_held, locks.values())) or sorted(names) != sorted(config.nodes):
        return []
    if killed:
        start_again(paths, places, killed)
    elif paths.controller_log.exists() and not is_held(paths.controller_lock):
        for name in names:  # the controller has just ended, and so do its agents
            await_end(paths, name)
    return killed


def start_again(
    paths: DomainPaths, places: Sequence[DomainNode], missing: Sequence[str], *options: str
) -> None:
    """Starts the missing members of a domain of which others are up, and waits until all
    nodes have joined. options: words for the controller."""
    for name in missing:
        if name == CONTROLLER:
            start_controller(places[0], paths, *options).settle()
        else:
            (place,) = (place for place in places if place.name == name)
            start_agent(place, paths).settle()
    wait_joined(paths, [place.name for place in places])


def refuse_second(paths: DomainPaths, nodes: Sequence[str]) -> None:
    """Raises CoschedError if a domain is up in this run directory, or if only agents of
    these nodes are, because their controller was killed."""
    locks = [paths.controller_lock, *map(paths.agent_lock, nodes)]
    if any(map(is_held, locks)):
        raise CoschedError(
            f"a domain is up already in {paths.run_dir}; end it with: cosched cluster down"
        )


def stop_domain(
    paths: DomainPaths,
    node: str | None,
    *,
    end_jobs: bool,
    patience: Patience = USUAL_PATIENCE,
    inside: Sequence[DomainNode] = (),
) -> list[int]:
    """Ends the domain; returns the jobs that were ended. Starts a killed controller again,
    because only the controller ends the agents. Raises NoDomain if no domain is up, and
    CoschedError if jobs run and are not to be ended. Root has only the rights of the
    directory's owner meanwhile. inside: see ``controller_node``."""
    with acting_as_owner(paths.directory):
        with _controller_to_end(paths, inside) as config:
            if config is not None:
                _wait_reported(paths, config)
            with Client.connect(paths.run_dir, node, patience) as client:
                ended = client.down(end_jobs=end_jobs)
        if comes_true(lambda: _controller_has_ended(paths), WITHIN_S, _POLL_S):
            return ended
    raise CoschedError(f"the controller does not end; its log: {paths.controller_log}")


@contextlib.contextmanager
def _controller_to_end(
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
    check_own_domain(paths.directory, os.geteuid())
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


def _controller_has_ended(paths: DomainPaths) -> bool:
    """Returns whether its socket is gone, and then its process with the job store."""
    return not paths.controller_socket.exists() and not is_held(paths.controller_lock)


def await_end(paths: DomainPaths, node: str) -> None:
    """Waits until the former agent of a node has ended, if this machine has its lock."""
    comes_true(lambda: not is_held(paths.agent_lock(node)), WITHIN_S, _POLL_S)


def wait_joined(paths: DomainPaths, nodes: Sequence[str]) -> None:
    """Waits until the controller has all nodes. Asks the agent of the first one, or a
    controller on this machine. Raises CoschedError if some do not join, and at once if a
    controller on this machine has ended."""
    missing = _still_missing(paths, nodes, WITHIN_S)
    if missing:
        raise CoschedError(
            f"{', '.join(missing)} did not join within {WITHIN_S:g} s; "
            f"see {paths.agent_log(missing[0])}"
        )


def _wait_reported(paths: DomainPaths, config: DomainConfig) -> None:
    """Waits until the agents have reported their jobs to a controller that was started
    again. It takes a silent node as lost after a while, and sees that at its next beat."""
    within_ns = config.life.lost_after_ns + 2 * config.life.beat_ns
    _still_missing(paths, config.node_names, within_ns / NS_PER_S)


def _still_missing(paths: DomainPaths, nodes: Sequence[str], within_s: float) -> list[str]:
    """Returns the nodes that do not join within this time."""
    deadline = time.monotonic() + within_s
    missing = list(nodes)
    here = is_held(paths.controller_lock)
    while missing and time.monotonic() < deadline:
        with (
            contextlib.suppress(NoDomain),
            Client.connect(paths.run_dir, nodes[0]) as client,
        ):
            missing = [
                each["node"] for each in client.nodes() if each["state"] not in JOINED
            ]
        if missing and here and not is_held(paths.controller_lock):
            raise CoschedError(f"the controller has ended; see {paths.controller_log}")
        if missing:
            time.sleep(_POLL_S)
    return missing
