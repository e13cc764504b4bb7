"""Runs the controller of a domain (cosched-controller): queue, nodes and job store."""

from __future__ import annotations

import argparse
from pathlib import Path

from cosched.cluster.config import load_config
from cosched.cluster.controller.controller import Controller
from cosched.cluster.keys import CONTROLLER, load_keys
from cosched.cluster.member import run_member
from cosched.cluster.paths import DomainPaths
from cosched.cluster.store import JobStore
from cosched.core.errors import CoschedError
from cosched.node.service.lock import DaemonLock


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the controller's options."""
    options = argparse.ArgumentParser(
        prog="cosched-controller",
        description=__doc__,
        epilog="example: cosched-controller --run-dir /run/cosched",
    )
    options.add_argument("--run-dir", type=Path, default=Path("/run/cosched"))
    options.add_argument(
        "--idle", type=float, metavar="S", help="end when no job came for S seconds"
    )
    return options


def serve(run_dir: Path, idle_s: float | None) -> None:
    """Serves until a signal ends it. Raises CoschedError if it cannot."""
    paths = DomainPaths(run_dir)
    config = load_config(paths.config)
    keys = load_keys(paths.keys, CONTROLLER, config.members)
    lock = DaemonLock(paths.controller_lock)
    if not lock.acquire():
        raise CoschedError(f"{run_dir}: another controller is up")
    try:
        store = JobStore(paths.store)
        try:
            run_member(
                lambda ready, log: Controller(config, keys, paths, store, log, idle_s).run(
                    ready
                )
            )
        finally:
            store.close()
    finally:
        lock.release()


def main() -> None:
    """Runs the controller."""
    options = parser().parse_args()
    try:
        serve(options.run_dir, options.idle)
    except CoschedError as error:
        raise SystemExit(f"cosched-controller: {error}") from None


if __name__ == "__main__":
    main()
