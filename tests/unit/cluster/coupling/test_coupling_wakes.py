"""Checks the next wake-up of a coupled domain against the times of all its jobs."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.cluster.coupling.groups import Timing
from cosched.core.cluster.coupling.state import Stage
from cosched.core.cluster.coupling.timers import Timers
from tests.unit.cluster.coupling.coupled_workloads import run, systems

wake_up = Timers.wake_up


def times_of(timers: Timers):
    """Yields the times of all jobs, whatever was noted of them."""
    for member in timers._state.members.values():
        if member.waits:
            yield timers._participant.wake_ns(member)
            yield member.dates.retry_ns
            if member.stage is Stage.HOLDING and member.turn.round is None:
                yield member.turn.lease_ns
            if member.dates.may_start_ns > timers._state.ticked_ns:
                yield member.dates.may_start_ns


def checked(timers: Timers) -> None:
    wake_up(timers)
    state = timers._state
    times = [timers._post.wake_ns(), timers._coordinator.wake_ns(), *times_of(timers)]
    first = min((at for at in times if at is not None), default=None)
    assert state.wake_ns == (None if first is None else max(first, state.now_ns))
    waits = [member for member in state.members.values() if member.waits]
    held = {member.number for member in waits if member.stage is not Stage.QUEUING}
    assert timers._jobs.placed.keys() == held
    promised = any(member.has_promised for member in waits)
    assert timers._jobs.promised == promised


@given(
    data=st.data(),
    timing=st.sampled_from(list(Timing)),
    slowest=st.sampled_from([0, 2]),
    seed=st.integers(0, 99),
)
@settings(max_examples=50, deadline=None)
def test_no_time_of_a_job_is_missed(data, timing, slowest, seed):
    system = data.draw(systems(domains=3, timing=st.just(timing)))
    checks = patch.object(Timers, "wake_up", autospec=True, side_effect=checked)
    with checks as woken:
        run(replace(system, delay=5), 2_000, slowest, seed)
    assert woken.called
