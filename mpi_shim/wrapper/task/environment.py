"""What the environment tells a task: the contract that the C interposer shares.

====================  ===============================================================
COSCHED_JOB           the job's name; unset or empty: the task is not coscheduled
COSCHED_RUN_DIR       the daemons' run directory, /run/cosched unless set
COSCHED_NODE          this node's name, that of the kernel unless set
COSCHED_STATUS        how the status travels: ``prefix``, in front of each message;
                      ``shadow``, beside them; or, unless set, ``none``
COSCHED_WAIT          what a waiter does that may run: ``spin`` (unless set), ``yield``,
                      ``block:NANOSECONDS``, which spins so long and then sleeps, or
                      ``auto:NANOSECONDS``, which does so where its CPU is shared
COSCHED_COLLECTIVES   which form collective calls take: ``blocking`` (unless set), the
                      library's own, or ``nonblocking``, in which an unscheduled task
                      sleeps; the wrapper alone reads it
COSCHED_MEMORY        bytes that the job needs on each of its nodes; unset: it does not say
COSCHED_SUBMITTED     when the job was submitted, nanoseconds since 1970; unset: unknown
COSCHED_VERBOSE       1: say on standard error what does not work and why
====================  ===============================================================

``prefix`` is for jobs of which every rank has a shim: a peer without one would take the
status byte for data. With ``shadow`` the others would wait some seconds for that one to
join, and go on without any status. ``nonblocking`` is for jobs of which every rank has the
wrapper: MPI does not match the two forms. Every rank reads the same environment, so all of
them agree; nothing of this depends on whether a daemon answered.

Without COSCHED_JOB and with COSCHED_WAIT at ``spin`` the wrapper stays out of the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DEFAULT_RUN_DIR = "/run/cosched"


@dataclass(frozen=True, slots=True)
class WaitPolicy:
    """What a waiter that may run does between two tests that found nothing.

    ``kind`` is spin, yield, block or auto; ``spin_ns`` is how long the last two spin
    before they sleep.
    """

    kind: str = "spin"
    spin_ns: int = 0


@dataclass(frozen=True, slots=True)
class Settings:
    """The environment of one task; without a job only its waits are changed."""

    job: str
    run_dir: Path
    node: str
    carrier: str  # prefix, shadow or none
    wait: WaitPolicy
    nonblocking_collectives: bool
    verbose: bool
    complaints: tuple[str, ...] = ()
    memory_bytes: int = 0  # 0: the job does not say what it needs
    submitted_ns: int = 0  # since 1970; 0: it does not say

    @property
    def register_socket(self) -> Path:
        """Where the node's scheduler daemon takes registrations."""
        return self.run_dir / self.node / "register.sock"


def read_settings(environ: Mapping[str, str], nodename: str) -> Settings | None:
    """The settings in ``environ``, or None where there is nothing to do."""
    job = environ.get("COSCHED_JOB", "")
    wait = _parse_wait(environ.get("COSCHED_WAIT", ""))
    if not job and (wait is None or wait.kind == "spin"):
        return None
    complaints = []
    if wait is None:
        complaints.append(
            f"COSCHED_WAIT={environ['COSCHED_WAIT']} is not spin, yield, "
            "block:NANOSECONDS or auto:NANOSECONDS: spin is used"
        )
    carrier = environ.get("COSCHED_STATUS") or "none"
    if carrier not in ("prefix", "shadow", "none"):
        complaints.append(
            f"COSCHED_STATUS={carrier} is not prefix, shadow or none: none is used"
        )
        carrier = "none"
    collectives = environ.get("COSCHED_COLLECTIVES") or "blocking"
    if collectives not in ("blocking", "nonblocking"):
        complaints.append(
            f"COSCHED_COLLECTIVES={collectives} is neither blocking nor nonblocking: "
            "blocking is used"
        )
    memory_bytes = _declared(environ, "COSCHED_MEMORY", "bytes", complaints)
    submitted_ns = _declared(environ, "COSCHED_SUBMITTED", "nanoseconds", complaints)
    return Settings(
        job=job,
        run_dir=Path(environ.get("COSCHED_RUN_DIR") or DEFAULT_RUN_DIR),
        node=environ.get("COSCHED_NODE") or nodename,
        carrier=carrier,
        wait=wait or WaitPolicy(),
        nonblocking_collectives=collectives == "nonblocking",
        verbose=environ.get("COSCHED_VERBOSE") == "1",
        complaints=tuple(complaints),
        memory_bytes=memory_bytes,
        submitted_ns=submitted_ns,
    )


def _declared(
    environ: Mapping[str, str], variable: str, unit: str, complaints: list[str]
) -> int:
    """What the environment says of the job; 0 where it does not say."""
    text = environ.get(variable, "")
    if _is_number(text):
        return int(text)
    if text:
        complaints.append(f"{variable}={text} is not a number of {unit}: it is ignored")
    return 0


def _parse_wait(text: str) -> WaitPolicy | None:
    """None if ``text`` is no policy."""
    if text in ("", "spin", "yield"):
        return WaitPolicy(text or "spin")
    kind, _, number = text.partition(":")
    if kind in ("block", "auto") and _is_number(number):
        return WaitPolicy(kind, int(number))
    return None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
