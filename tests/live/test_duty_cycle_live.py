"""The class scheduler that an ordinary user has without delegation, the duty cycle, over
processes that spin. It needs no control groups."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from cosched.core.config.words import MODES
from cosched.core.units import NS_PER_S
from cosched.linux import proc
from cosched.linux.classes import ClassScheduler
from cosched.linux.probe import attach, probe
from tests.live.conftest import eventually
from tests.live.test_classes_live import (
    CPUS,
    JOBS,
    Spin,
    as_nobody,
    cpu_times,
    received,
    shares_of,
)
from tests.live.test_classes_live import spin as spin  # noqa: PLC0414

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: becomes another user"),
]

#: Each unscheduled job gets a third of them.
PULSES = 24


def pulse(classes: ClassScheduler, pids: dict[str, int]) -> tuple[dict[str, int], int]:
    """Returns the CPU time that each job gets during some pulses, and how long these last
    in all, in nanoseconds."""
    before, pulsed_ns = cpu_times(pids), 0
    for _ in range(PULSES):
        time.sleep((classes.pulse_period_ns or 0) / NS_PER_S)
        began_ns = time.monotonic_ns()
        classes.pulse()
        time.sleep((classes.pulse_period_ns or 0) / NS_PER_S)
        classes.pulse()
        pulsed_ns += time.monotonic_ns() - began_ns
    got = {job: ns - before[job] for job, ns in cpu_times(pids).items()}
    return got, pulsed_ns


def spinners_of_nobody() -> dict[str, int]:
    pids = {}
    for job in JOBS:
        process = subprocess.Popen(["sh", "-c", "while :; do :; done"], cwd="/")
        os.sched_setaffinity(process.pid, CPUS)
        pids[job] = process.pid
    return pids


def end(pids: dict[str, int]) -> None:
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("mode", MODES)
def test_duty_cycle_of_an_ordinary_user(mode: str) -> None:
    def drive() -> object:
        found = probe("live", want="dutycycle", mode=mode)
        classes, pids = found.scheduler, spinners_of_nobody()
        try:
            for job, pid in pids.items():
                classes.create(job, CPUS)
                classes.add(job, pid)
            classes.set_shares(shares_of(JOBS[0]))
            first = pulse(classes, pids)
            classes.set_shares(shares_of(JOBS[1]))
            second = pulse(classes, pids)
            classes.restore({})
            return [first, second, received(pids)]
        finally:
            classes.close()
            end(pids)

    answer = as_nobody(drive)
    assert isinstance(answer, list)
    first, second, restored = answer
    for scheduled, (got, pulsed_ns) in zip(JOBS, (first, second), strict=False):
        others = [got[job] for job in JOBS if job != scheduled]
        assert min(others) > 0
        # A busy machine makes each pulse longer, and nothing but the pulses.
        assert sum(others) < 1.1 * pulsed_ns
        assert got[scheduled] > max(others)
    assert min(restored.values()) > 0.1


def test_only_own_processes_can_be_stopped(spin: Spin) -> None:
    pid = spin()

    def drive() -> str:
        classes = attach("live", "dutycycle")
        classes.create(JOBS[0], CPUS)
        try:
            classes.add(JOBS[0], pid)
        except Exception as error:  # noqa: BLE001
            return str(error)
        return ""

    assert "belongs to another user" in str(as_nobody(drive))
    assert proc.state(pid) == "R"


def test_killed_scheduler_leaves_no_process_stopped() -> None:
    def abandon() -> dict[str, int]:
        """A scheduler daemon that ends while it runs."""
        classes, pids = attach("live", "dutycycle", "strict"), spinners_of_nobody()
        for job, pid in pids.items():
            classes.create(job, CPUS)
            classes.add(job, pid)
        classes.set_shares(shares_of(JOBS[0]))
        classes.pulse()
        return pids

    pids = as_nobody(abandon)
    assert isinstance(pids, dict)
    try:
        eventually(
            lambda: (
                sorted(str(proc.state(pid)) for pid in pids.values())
                == ["R", "T", "T", "T"]
            ),
            "one running, the others stopped",
        )

        def guard() -> None:
            attach("live", "dutycycle").restore(
                {job: {pid: proc.start_ticks(pid)} for job, pid in pids.items()}
            )

        as_nobody(guard)
        eventually(lambda: {proc.state(p) for p in pids.values()} == {"R"}, "all running")
    finally:
        end(pids)
