"""Changes the policy and the grace of a queue that runs."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.cluster.queue.domain import EndJob, SettingsChanged, Why
from cosched.core.cluster.queue.forecast import forecast
from cosched.core.cluster.queue.messages import Ticked
from cosched.core.cluster.queue.scheduler import POLICIES
from tests.unit.cluster.test_exclusive_jobs import Domain


def change(domain, policy, grace=10**6):
    domain.handle(SettingsChanged(domain.now, POLICIES[policy], grace))
    domain.tick()


def test_new_policy_decides_about_jobs_that_wait_already():
    domain = Domain(rows=1, policy="fcfs")
    for number, size in enumerate((3, 4, 1)):
        domain.submit(number, size)
    domain.tick()
    assert domain.started() == {0: 0}
    change(domain, "easy")
    assert domain.started() == {0: 0, 2: 0}


def test_new_grace_is_for_jobs_that_start_later():
    domain = Domain(rows=1)
    domain.submit(1, 2, walltime=10)
    domain.tick()
    change(domain, "easy", grace=5)
    domain.submit(2, 2, walltime=10)
    domain.tick()
    domain.now = 15
    assert domain.queue.handle(Ticked(15))[0] == EndJob(2, Why.WALLTIME)


_steps = st.lists(
    st.one_of(
        st.tuples(st.integers(1, 4), st.integers(1, 40), st.booleans(), st.integers(0, 15)),
        st.sampled_from(sorted(POLICIES)),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=200, deadline=None)
@given(_steps, st.sampled_from(sorted(POLICIES)), st.integers(1, 3))
def test_changes_touch_no_running_job_and_lose_none(steps, policy, rows):
    domain, number = Domain(rows, policy), 0
    for step in steps:
        if isinstance(step, str):
            running = dict(domain.running)
            waiting = domain.queue.waiting
            domain.handle(SettingsChanged(domain.now, POLICIES[step], 10**6))
            assert (domain.running, domain.queue.waiting) == (running, waiting)
            domain.tick()
            policy = step
            assert running.items() <= domain.running.items()
        else:
            size, walltime, alone, gap = step
            domain.advance(domain.now + gap)
            number += 1
            domain.submit(number, size, walltime, alone=alone and rows > 1)
            domain.tick()
    expected = forecast(domain.queue, domain.now)
    domain.advance(10**9)
    assert len(domain.starts) == number
    assert not domain.ordered
    assert {job: domain.starts[job][0] for job in expected} == expected
