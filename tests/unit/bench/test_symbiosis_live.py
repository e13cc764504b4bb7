"""The prototype's experiment: its figures from played answers, and its table."""

import pytest

from benchmarks.experiments.symbiosis.symbiosis_live import (
    ARMS,
    all_figures,
    overhead_ns,
    shared_of,
    simulated,
    text_of,
)
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.sim.symbiotic.datastar import NPB
from cosched.sim.symbiotic.stream import StreamRecipe, make_stream

RECIPE = StreamRecipe(jobs=40, run_s=(1.0, 10.0))
STREAM = make_stream(RECIPE, NPB)


def answers(shared, more_ns=0):
    """Returns the answers of a domain whose jobs had these times."""
    return [
        {
            "job": place + 1,
            "name": "a",
            "state": "done",
            "reason": "",
            "submitted_ns": 10**18 + shared.submit_ns[place],
            "started_ns": 10**18 + shared.start_ns[place],
            "ended_ns": 10**18 + shared.end_ns[place] + more_ns,
        }
        for place in range(len(shared.submit_ns))
    ]


@pytest.fixture(scope="module")
def sim():
    return simulated(STREAM, NPB, RECIPE, 0)


def test_live_times_give_the_figures_of_the_same_simulated_times(sim):
    live = {arm: shared_of(answers(one)) for arm, one in sim.items()}
    assert all_figures(STREAM, live) == all_figures(STREAM, sim)
    assert overhead_ns(STREAM, list(live.values())) < NS_PER_S


def test_cost_of_starts_is_that_of_jobs_that_nothing_slows(sim):
    late = shared_of(answers(sim["whole"], more_ns=NS_PER_S))
    assert overhead_ns(STREAM, [late]) - overhead_ns(STREAM, [sim["whole"]]) == NS_PER_S
    again = simulated(STREAM, NPB, RECIPE, NS_PER_S)
    assert max(again["whole"].end_ns) > max(sim["whole"].end_ns)


def test_job_that_failed_ends_the_experiment(sim):
    failed = answers(sim["whole"])
    failed[3] |= {"state": "failed", "reason": "out of memory"}
    with pytest.raises(CoschedError, match=r"job 4 \(a\) failed: out of memory"):
        shared_of(failed)


def test_table_fits_and_has_each_arm(sim):
    figures = all_figures(STREAM, sim)
    document = {"runs": [{"live": figures, "simulated": figures}] * 3}
    lines = text_of(document).splitlines()
    assert max(map(len, lines)) <= 80
    for arm in ARMS:
        assert sum(line.startswith(arm) for line in lines) == 4
    assert "+0%" in lines[1]
    assert "paper: 1.20" in lines[-1]
