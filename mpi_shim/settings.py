"""What the environment tells a task: the contract that the C interposer shares.

=================  ==================================================================
COSCHED_JOB        the job's name; unset or empty: the wrapper stays out of the way
COSCHED_RUN_DIR    the daemons' run directory, /run/cosched unless set
COSCHED_NODE       this node's name, that of the kernel unless set
COSCHED_STATUS     how the status travels: ``prefix`` or, unless set, ``none``
COSCHED_VERBOSE    1: say on standard error why a task did not register
=================  ==================================================================

``prefix`` is for jobs of which every rank has a shim: a peer without one would take the
status byte for data. A carrier that the wrapper does not have (``shadow``) becomes
``none``: every rank reads the same environment, so all of them agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DEFAULT_RUN_DIR = "/run/cosched"


@dataclass(frozen=True, slots=True)
class Settings:
    """The environment of one task."""

    job: str
    run_dir: Path
    node: str
    prefix: bool
    verbose: bool
    complaint: str = ""

    @property
    def register_socket(self) -> Path:
        """Where the node's scheduler daemon takes registrations."""
        return self.run_dir / self.node / "register.sock"


def read_settings(environ: Mapping[str, str], nodename: str) -> Settings | None:
    """The settings in ``environ``, or None where no job was named."""
    job = environ.get("COSCHED_JOB")
    if not job:
        return None
    carrier = environ.get("COSCHED_STATUS") or "none"
    known = carrier in ("prefix", "none")
    return Settings(
        job=job,
        run_dir=Path(environ.get("COSCHED_RUN_DIR") or DEFAULT_RUN_DIR),
        node=environ.get("COSCHED_NODE") or nodename,
        prefix=carrier == "prefix",
        verbose=environ.get("COSCHED_VERBOSE") == "1",
        complaint=""
        if known
        else f"COSCHED_STATUS={carrier}: the mpi4py wrapper knows prefix and none; "
        "it carries no status",
    )
