"""The probe of the machine's speed: where it goes, what it leaves alone."""

import os
import threading

import pytest

from cosched.bench.measure.speed import SpeedProbe


@pytest.fixture
def moves(monkeypatch):
    """Where the probe went, by thread."""
    found = []
    real = os.sched_setaffinity

    def told(pid, cpus):
        real(pid, cpus)
        found.append((threading.current_thread().name, *cpus))

    monkeypatch.setattr(os, "sched_setaffinity", told)
    return found


def test_every_cpu_is_visited_by_the_probe(moves):
    mine = os.sched_getaffinity(0)
    with SpeedProbe(mine) as speed:
        pass
    assert moves[: len(mine)] == [("speed", cpu) for cpu in sorted(mine)]
    assert {thread for thread, _ in moves} == {"speed"}
    assert os.sched_getaffinity(0) == mine
    assert 0 < speed.probe_us < 1e5


def test_unusable_cpus_are_left_out():
    mine = sorted(os.sched_getaffinity(0))
    with SpeedProbe([*mine, 100_000]) as speed:
        pass
    assert speed.probe_us > 0
    with SpeedProbe([100_000]) as nowhere:
        pass
    assert nowhere.probe_us is None


def test_no_cpus_give_no_speed():
    with SpeedProbe(()) as speed:
        pass
    assert speed.probe_us is None


def test_error_in_the_run_ends_the_probe():
    with pytest.raises(RuntimeError, match="mine"), SpeedProbe(os.sched_getaffinity(0)):
        raise RuntimeError("mine")
    assert "speed" not in {thread.name for thread in threading.enumerate()}
