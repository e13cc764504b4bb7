"""Runs the agent of a node as a process: its configuration, its keys and its lock."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cosched.cluster.agent.agent import Agent
from cosched.cluster.agent.steps import StepNotes
from cosched.cluster.keys import load_keys
from cosched.cluster.member import run_member
from cosched.cluster.paths import DomainPaths
from cosched.config.domain import load_config
from cosched.core.errors import CoschedError
from cosched.node.service.lock import DaemonLock


def serve(run_dir: Path, node: str, notes: StepNotes, slots: int = 0) -> None:
    """Serves until a signal ends it. Raises CoschedError if it cannot.

    notes: takes the steps of starts. slots: tasks of a job that this node takes if
    domain.toml leaves that open; 0: one for each CPU.
    """
    paths = DomainPaths(run_dir)
    config = load_config(paths.config)
    config = replace(config, slots=config.slots or slots)
    if node not in config.nodes:
        raise CoschedError(f"{paths.config}: has no node '{node}'; give --node")
    keys = load_keys(paths.keys, node, config.members)
    paths.node(node).mkdir(mode=0o755, parents=True, exist_ok=True)
    lock = DaemonLock(paths.agent_lock(node))
    if not lock.acquire():
        raise CoschedError(f"node {node}: another agent is up")
    try:
        run_member(
            lambda ready, log: Agent(node, config, keys, paths, log, notes).run(ready)
        )
    finally:
        lock.release()
