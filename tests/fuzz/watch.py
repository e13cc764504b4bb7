"""Watches daemons under fuzz: whether they live, their CPU time, memory and logs."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.targets import Target

TICKS = os.sysconf("SC_CLK_TCK")
#: CPU time is a mean over this many seconds, at the worst moment.
WINDOW_S = 10.0
PROBED = ("control", "register", "controller", "agent")
PROBE_UID = 61_003


def cpu_s(pid: int) -> float | None:
    """Returns the CPU time of a process, or None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return None
    state, *fields = text[text.rindex(")") + 2 :].split()
    return None if state == "Z" else (int(fields[10]) + int(fields[11])) / TICKS


def memory_kb(pid: int) -> int:
    """Returns the resident memory of a process in KiB, 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS")), 0)


@dataclass
class Process:
    """One daemon. samples: (when, CPU seconds)."""

    pid: int
    samples: list[tuple[float, float]] = field(default_factory=list)
    ended: bool = False
    memory_before_kb: int = 0

    def most_share(self) -> float:
        """Returns the largest part of a CPU over WINDOW_S, or over a shorter run."""
        most = 0.0
        for place, (began, before) in enumerate(self.samples):
            for at, now in self.samples[place + 1 :]:
                if at - began >= WINDOW_S:
                    most = max(most, (now - before) / (at - began))
                    break
        return most or self.mean_share()

    def mean_share(self) -> float:
        """Returns the mean part of a CPU."""
        if len(self.samples) < 2:
            return 0.0
        (began, before), (ended, after) = self.samples[0], self.samples[-1]
        return (after - before) / (ended - began)


class Watch:
    """Watches some targets, and measures the requests of another user there."""

    def __init__(self, targets: list[Target]) -> None:
        self.processes = {
            name: Process(pid, memory_before_kb=memory_kb(pid))
            for target in targets
            for name, pid in target.processes.items()
        }
        self._logs = [path for target in targets for path in target.logs]
        self._log_bytes = self._log_size()
        places = {
            name: place
            for target in targets
            for name, place in target.places.items()
            if name in PROBED
        }
        self._probe = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.probe", str(PROBE_UID), json.dumps(places)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def sample(self) -> None:
        """Takes the CPU time of each process now."""
        for process in self.processes.values():
            used = cpu_s(process.pid)
            if used is None:
                process.ended = True
            else:
                process.samples.append((time.monotonic(), used))

    @property
    def ended(self) -> list[str]:
        """Returns the daemons that have ended."""
        return [name for name, process in self.processes.items() if process.ended]

    def took(self) -> dict[str, list[float]]:
        """Returns the seconds of each request of the other user since the last call."""
        assert self._probe.stdin is not None
        assert self._probe.stdout is not None
        self._probe.stdin.write("\n")
        self._probe.stdin.flush()
        line = self._probe.stdout.readline()
        assert line, "a request of the other user failed"
        found: dict[str, list[float]] = json.loads(line)
        return found

    def log_bytes(self) -> int:
        """Returns how many bytes of log were written since the beginning."""
        return self._log_size() - self._log_bytes

    def _log_size(self) -> int:
        return sum(path.stat().st_size for path in self._logs if path.exists())

    def close(self) -> None:
        """Ends the other user's requests."""
        assert self._probe.stdin is not None
        assert self._probe.stdout is not None
        self._probe.stdin.close()
        self._probe.wait()
        self._probe.stdout.close()


def median_ms(times: list[float]) -> float:
    """Returns the median in milliseconds, 0 for none."""
    return statistics.median(times) * 1e3 if times else 0.0
