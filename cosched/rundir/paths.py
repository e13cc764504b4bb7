"""Gives the paths of a node's sockets, locks, bells and regions (docs/dev/architecture.md).

The functions depend on their arguments alone. The command line reads the environment once
and passes it down.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple

_SOCKET_PATH_BYTES = 107  # sockaddr_un has 108, the last of which is 0
_NAME_SHOWN = 80
_JOB_NAME = r"[A-Za-z0-9._-]{1,63}"


def default_run_dir(environ: Mapping[str, str], euid: int) -> Path:
    """Returns the run directory that ``environ`` names, or this user's default."""
    asked = environ.get("COSCHED_RUN_DIR")
    if asked:
        return Path(asked)
    return Path("/run/cosched") if euid == 0 else Path(f"/tmp/cosched-{euid}")


def check_job_name(name: str) -> str:
    """Returns ``name``. Raises CoschedError if a job may not have it."""
    if re.fullmatch(_JOB_NAME, name) is None or name in (".", ".."):
        from cosched.core.decoding import printable  # slow to import, and seldom needed

        raise CoschedError(
            f"job name '{printable(name)[:_NAME_SHOWN]}': use 1 to 63 characters of "
            "letters, digits, '.', '_', '-'"
        )
    return name


def job_key(uid: int, name: str) -> str:
    """Returns the job's name on the node. Two users may give their jobs the same name."""
    return f"{uid}.{name}"


def name_for(key: str, other: str) -> str:
    """Returns how the owner of job ``key`` names another job: by its name, or by its key if
    it is another user's."""
    owner, _, name = other.partition(".")
    return name if owner == key.partition(".")[0] else other


class NodePaths(NamedTuple):
    """The paths and names of everything that a node's daemons own."""

    run_dir: Path  #: the directory with a folder for each node
    node: str  #: the node's name, which its folder there has

    @property
    def directory(self) -> Path:
        return self.run_dir / self.node

    @property
    def tag(self) -> str:
        """Distinguishes this node's regions and classes from those of other run
        directories."""
        import hashlib  # which most clients do not need

        digest = hashlib.sha256(bytes(self.directory)).hexdigest()
        return f"{self.node}-{digest[:8]}"

    def check_length(self) -> None:
        """Raises CoschedError if the run directory is too long for a socket's path."""
        over = len(bytes(self.register_socket)) - _SOCKET_PATH_BYTES
        if over > 0:
            raise CoschedError(
                f"run directory '{self.run_dir}': {over} characters too long for the path "
                "of a socket; give a shorter one with --run-dir or COSCHED_RUN_DIR"
            )

    @property
    def register_socket(self) -> Path:
        return self.directory / "register.sock"

    @property
    def control_socket(self) -> Path:
        return self.directory / "control.sock"

    @property
    def scheduler_lock(self) -> Path:
        return self.directory / "scheduler.lock"

    @property
    def timer_lock(self) -> Path:
        return self.directory / "timer.lock"

    @property
    def spare_lock(self) -> Path:
        return self.directory / "spare.lock"

    @property
    def metrics_lock(self) -> Path:
        return self.directory / "metrics.lock"

    @property
    def log(self) -> Path:
        return self.directory / "scheduler.log"

    @property
    def bells(self) -> Path:
        return self.directory / "bells"

    @property
    def node_region(self) -> str:
        return f"/cosched-{self.tag}-node"

    @property
    def job_region_prefix(self) -> str:
        return f"/cosched-{self.tag}-job-"

    def job_region(self, key: str) -> str:
        return self.job_region_prefix + key

    def bell(self, key: str) -> Path:
        return self.bells / key
