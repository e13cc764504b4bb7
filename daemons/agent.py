"""Runs the agent of one node of a domain (cosched-agent): it starts the tasks of jobs."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from cosched.cluster.agent.agent import Agent
from cosched.cluster.config import load_config
from cosched.cluster.keys import load_keys
from cosched.cluster.member import run_member
from cosched.cluster.paths import DomainPaths
from cosched.core.errors import CoschedError
from cosched.node.service.lock import DaemonLock


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the agent's options."""
    options = argparse.ArgumentParser(
        prog="cosched-agent",
        description=__doc__,
        epilog="example: cosched-agent --run-dir /run/cosched",
    )
    options.add_argument("--run-dir", type=Path, default=Path("/run/cosched"))
    options.add_argument("--node", default=os.uname().nodename, help="this node's name")
    return options


def serve(run_dir: Path, node: str) -> None:
    """Serves until a signal ends it. Raises CoschedError if it cannot."""
    paths = DomainPaths(run_dir)
    config = load_config(paths.config)
    if node not in config.nodes:
        raise CoschedError(f"{paths.config}: has no node '{node}'")
    keys = load_keys(paths.keys, node, config.members)
    paths.node(node).mkdir(mode=0o755, parents=True, exist_ok=True)
    lock = DaemonLock(paths.agent_lock(node))
    if not lock.acquire():
        raise CoschedError(f"node {node}: another agent is up")
    try:
        run_member(lambda ready, log: Agent(node, config, keys, paths, log).run(ready))
    finally:
        lock.release()


def main() -> None:
    """Runs the agent."""
    options = parser().parse_args()
    try:
        serve(options.run_dir, options.node)
    except CoschedError as error:
        raise SystemExit(f"cosched-agent: {error}") from None


if __name__ == "__main__":
    main()
