"""Users whose labels are wrong, in the simulator: what they cost, and for how long."""

from __future__ import annotations

from collections import Counter

import pytest

from cosched.core.errors import CoschedError
from cosched.core.symbiosis.labels import WRONG_RUNS
from cosched.core.symbiosis.resources import Resource
from cosched.sim.symbiotic.datastar import NPB
from cosched.sim.symbiotic.stream import StreamRecipe, make_stream
from cosched.sim.symbiotic.symbiotic_runs import SharingRun, carry_out

CPU = frozenset({Resource.CPU})


def jobs_of(**more):
    return make_stream(StreamRecipe(jobs=300, seed=3, **more), NPB)


def test_words_change_labels_alone():
    plain, other = jobs_of(), jobs_of(wrong=0.5, liars=0.2)
    assert all(entry.job.limits == entry.limits for entry in plain)
    for one, two in zip(plain, other, strict=True):
        assert (one.uid, one.limits, one.run_ns) == (two.uid, two.limits, two.run_ns)
        assert (one.job.size, one.job.walltime_ns) == (two.job.size, two.job.walltime_ns)


def test_user_says_the_same_of_each_run_of_a_program():
    said = {}
    for entry in jobs_of(wrong=0.5):
        said.setdefault((entry.uid, entry.job.application), set()).add(entry.job.limits)
    assert {len(labels) for labels in said.values()} == {1}
    wrong = Counter(
        labels.pop() != NPB.labels[application] for (_, application), labels in said.items()
    )
    assert wrong[True] == pytest.approx(wrong[False], rel=0.5)


def test_liars_name_the_cpu_for_everything():
    liars, honest = set(), set()
    for entry in jobs_of(liars=0.3):
        lied = entry.limits != CPU and entry.job.limits == CPU
        (liars if lied else honest).add(entry.uid)
        assert lied or entry.job.limits == entry.limits
    assert 0 < len(liars) < 10


def gain(wrong_runs, queue=12, **words):
    """Returns the mean speedup of the prototype on five streams."""
    found = []
    for seed in range(5):
        recipe = StreamRecipe(jobs=400, seed=seed, **words)
        run = SharingRun(
            NPB,
            recipe,
            queue_limit=queue,
            placements=("whole", "split"),
            wrong_runs=wrong_runs,
        )
        figures = carry_out(run).figures
        found.append(figures["whole"]["makespan_s"] / figures["split"]["makespan_s"])
    return sum(found) / len(found) - 1.0


@pytest.mark.parametrize("queue", [12, 400])
def test_gain_of_the_prototype_in_spite_of_liars(queue):
    """20% liars take nearly all of its gain; most of it returns after some runs, also if
    their jobs wait before the first one is judged."""
    honest = gain(WRONG_RUNS, queue)
    assert honest > 0.1
    assert gain(0, queue, liars=0.2) < honest / 2
    assert gain(WRONG_RUNS, queue, liars=0.2) > honest * 2 / 3


def test_gain_of_the_prototype_in_spite_of_wrong_labels():
    honest = gain(WRONG_RUNS)
    assert gain(WRONG_RUNS, wrong=0.2) > honest * 2 / 3


@pytest.mark.parametrize("words", [{"wrong": 1.5}, {"liars": -0.1}, {"users": 0}])
def test_shares_must_be_shares(words):
    with pytest.raises(CoschedError):
        StreamRecipe(**words)
