"""Keeps a Slurm job between its allocation and its start; PrologSlurmctld runs it.

It sends the controller one line about the job, and waits for the order: *go* or *yield*.
While the controller is away it tries again. It uses nothing but Python's own library, so
that it starts quickly and no other package can break it. The shell script that Slurm runs
(``prolog_scripts.py``) turns its status into Slurm's: 0 starts the job, 1 puts it back.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import secrets
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Mapping

#: Statuses that Python itself never ends with.
GO = 10
YIELD = 11
#: The controller has answered, but with no order. Never a status of this program.
REFUSED = -1
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_LONGEST_ANSWER = 4096
_PR_SET_PDEATHSIG = 1
_PEER = struct.Struct("iII")  #: ``struct ucred``


def facts(environ: Mapping[str, str], life: str) -> dict[str, int | str]:
    """Returns the facts about the job of this environment. life: tells this gate from an
    earlier one of the same job."""
    return {
        "job": int(environ["SLURM_JOB_ID"]),
        "uid": int(environ["SLURM_JOB_UID"]),
        "restarts": int(environ.get("SLURM_JOB_RESTART_COUNT", "0")),
        "nodes": environ.get("SLURM_JOB_NODELIST", ""),
        "life": life,
    }


def hello(job: Mapping[str, int | str], waited_s: float) -> bytes:
    """Returns the line about a job whose gate has waited for a time."""
    return json.dumps({**job, "waited_s": waited_s}).encode() + b"\n"


def ask(path: str, line: bytes, until: float) -> tuple[bool, int | None]:
    """Returns whether the controller was reached, and its order: None if it is away or
    leaves; REFUSED if it answers something else. At the time ``until`` (monotonic clock)
    the order is YIELD."""
    reached = False
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(path)
            raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
            if _PEER.unpack(raw)[1] not in (0, os.geteuid()):
                return False, None  # another user listens there
            connection.sendall(line)
            reached = True
            answer = b""
            while not answer.endswith(b"\n"):
                left = until - time.monotonic()
                if left <= 0 or not select.select([connection], [], [], left)[0]:
                    return True, YIELD
                more = connection.recv(_LONGEST_ANSWER)
                if not more or len(answer) > _LONGEST_ANSWER:
                    return True, None
                answer += more
        except OSError:
            return reached, None
    return True, _status(answer)


def _status(answer: bytes) -> int:
    """Returns the status for an answer; REFUSED if it is no order."""
    try:
        said = json.loads(answer)
    except (ValueError, RecursionError):
        return REFUSED
    order = said.get("ok") if isinstance(said, dict) else None
    return {"go": GO, "yield": YIELD}.get(str(order), REFUSED)


def wait(
    path: str,
    job: Mapping[str, int | str],
    longest_hold_s: float,
    controller_lost_after_s: float,
    otherwise: int,
) -> int:
    """Returns the status for Slurm's script.

    job: its facts. longest_hold_s: the job yields after this time at the latest.
    controller_lost_after_s: how long the controller may be away; then the status is
    ``otherwise``.
    """
    began = seen = time.monotonic()
    until = began + longest_hold_s
    pause = _FIRST_PAUSE_S
    while True:
        line = hello(job, time.monotonic() - began)
        reached, status = ask(path, line, until)
        if status not in (None, REFUSED):
            return status
        now = time.monotonic()
        if reached:
            seen = now
            if status is None:
                pause = _FIRST_PAUSE_S
        if now >= until:
            return YIELD
        if now >= seen + controller_lost_after_s:
            return otherwise
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def end_with_parent() -> None:
    """Makes the kernel end this process when Slurm ends its script."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def main() -> int:
    """Runs the gate of the job that the environment names."""
    end_with_parent()
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--socket", required=True)
    options.add_argument("--longest-hold", type=float, required=True)
    options.add_argument("--controller-lost-after", type=float, required=True)
    options.add_argument("--then", choices=("start", "yield"), required=True)
    chosen = options.parse_args()
    job = facts(os.environ, secrets.token_hex(8))
    otherwise = GO if chosen.then == "start" else YIELD
    lost_after_s = chosen.controller_lost_after
    return wait(chosen.socket, job, chosen.longest_hold, lost_after_s, otherwise)


if __name__ == "__main__":
    sys.exit(main())
