"""Each job gets its part of the time, whatever the order; no lie helps a user."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from benchmarks.sim.liar import CLAIMS, mean_responses_s, stream, with_claims
from benchmarks.sim.one_node import OneNode, StreamJob
from cosched.core.node.knowledge import Expectation
from cosched.core.node.settings import USUAL, Fairness
from cosched.core.units import NS_PER_S

S = NS_PER_S
PERIOD_NS = USUAL.least_share.period_ns
#: Ticks, GMET and jobs about to end delay a job that is due.
DELAY_NS = 2 * S

TENTHS = st.integers(1, 600).map(lambda tenths: tenths * S // 10)
STREAMS = st.lists(
    st.builds(
        StreamJob,
        submit_ns=st.integers(0, 90).map(lambda seconds: seconds * S),
        length_ns=TENTHS,
        user=st.integers(0, 2),
        expectation=st.builds(
            Expectation, st.integers(0, 4), st.lists(TENTHS, max_size=3).map(tuple)
        ),
    ),
    min_size=2,
    max_size=9,
)


def had_ns(run, number, begin_ns, end_ns):
    """Returns the CPU time of a job in a window."""
    return sum(
        max(0, min(turn.end_ns, end_ns) - max(turn.begin_ns, begin_ns))
        for turn in run.turns
        if turn.job == number
    )


def present(jobs, run, begin_ns, end_ns):
    """Returns the numbers of the jobs that are on the node at some time of a window."""
    return [
        number
        for number, job in enumerate(jobs)
        if job.submit_ns + S < end_ns and run.ends_ns[number] > begin_ns
    ]


def windows(jobs, run):
    """Returns (job, begin, end) of each window of two periods that a job spends here."""
    for number, job in enumerate(jobs):
        begin_ns = job.submit_ns + S
        while begin_ns + 2 * PERIOD_NS <= run.ends_ns[number]:
            yield number, begin_ns, begin_ns + 2 * PERIOD_NS
            begin_ns += 7 * S


@given_settings(max_examples=60)
@given(STREAMS)
def test_each_job_gets_a_quarter_of_its_share_and_no_time_is_lost(jobs):
    run = OneNode(jobs, USUAL)
    for number, begin_ns, end_ns in windows(jobs, run):
        rivals = len(present(jobs, run, begin_ns, end_ns))
        least_ns = USUAL.least_share.reserved_ns // rivals
        assert had_ns(run, number, begin_ns, end_ns) >= least_ns - DELAY_NS
    check_no_time_is_lost(jobs, run)


def check_no_time_is_lost(jobs, run):
    assert sorted(run.ends_ns) == list(range(len(jobs)))
    for number, job in enumerate(jobs):
        assert had_ns(run, number, 0, 10**15) == job.length_ns
    for before, after in zip(run.turns, run.turns[1:], strict=False):
        assert before.end_ns <= after.begin_ns


@given_settings(max_examples=40)
@given(STREAMS)
def test_users_share_equally_if_fairness_is_between_users(jobs):
    run = OneNode(jobs, replace(USUAL, fairness=Fairness.USERS))
    for number, begin_ns, end_ns in windows(jobs, run):
        rivals = present(jobs, run, begin_ns, end_ns)
        users = {jobs[rival].user for rival in rivals}
        own = [rival for rival in rivals if jobs[rival].user == jobs[number].user]
        least_ns = USUAL.least_share.reserved_ns // len(users) // len(own)
        assert had_ns(run, number, begin_ns, end_ns) >= least_ns - DELAY_NS


def test_ten_jobs_of_one_user_do_not_starve_one_of_another():
    long = StreamJob(0, 60 * S, user=1, expectation=Expectation(1, (60 * S,)))
    short = [
        StreamJob(number * S, 30 * S, user=2, expectation=Expectation(2, (30 * S,)))
        for number in range(10)
    ]
    seconds = {}
    for fairness in Fairness:
        run = OneNode([long, *short], replace(USUAL, fairness=fairness))
        seconds[fairness] = had_ns(run, 0, 60 * S, 240 * S) / S
    assert seconds[Fairness.JOBS] < 12
    assert seconds[Fairness.USERS] >= 180 * 0.25 / 2 - 2


def test_job_starves_without_the_guarantee():
    """The property tests above can fail."""
    share = replace(USUAL.least_share, percent=0)
    jobs = [StreamJob(n * 8 * S, 10 * S, 0, Expectation(1, (10 * S,))) for n in range(20)]
    jobs.append(StreamJob(0, 60 * S, 0, Expectation(2, (60 * S,))))
    without = OneNode(jobs, replace(USUAL, least_share=share))
    assert had_ns(without, 20, 10 * S, 150 * S) == 0
    assert had_ns(OneNode(jobs, USUAL), 20, 10 * S, 150 * S) >= 8 * S


def test_false_expectation_gains_nothing():
    seeds = range(12)
    mean_s = {
        name: fmean(mean_responses_s(with_claims(stream(seed), claim))[0] for seed in seeds)
        for name, claim in CLAIMS.items()
    }
    truth_s = mean_s.pop("the truth")
    assert min(mean_s.values()) > 0.97 * truth_s, "no better, but for the noise"
    assert mean_s["one second"] > 1.1 * truth_s
