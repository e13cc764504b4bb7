"""The prototype's experiment: its figures from played answers, and its table."""

from typing import ClassVar

import pytest

from benchmarks.experiments.stored import read
from benchmarks.experiments.symbiosis import symbiosis_live
from benchmarks.experiments.symbiosis.live_report import ARMS, PART, claims_of, text_of
from benchmarks.experiments.symbiosis.symbiosis_live import (
    Live,
    all_figures,
    overhead_ns,
    run_of,
    shared_of,
    simulated,
)
from benchmarks.experiments.verdicts import NO
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
    lines = text_of([{"live": figures, "simulated": figures}] * 3).splitlines()
    assert max(map(len, lines)) <= 80
    for arm in ARMS:
        assert sum(line.startswith(arm) for line in lines) == 4
    assert "+0%" in lines[1]
    assert "paper: 1.20" in lines[-1]


class PlayedMachine:
    """Plays a domain on which each stream takes as long as in virtual time."""

    model = NPB
    ran: ClassVar = []

    def __init__(self, options, folder):
        self.mpi = symbiosis_live.find(options.mpi)
        self._recipe = options.recipe

    def run(self, folder, stream, arm):
        self.ran.append((folder.name, len(stream)))
        return Live(simulated(stream, self.model, self._recipe, 0)[arm], ())


@pytest.fixture
def play(monkeypatch, tmp_path):
    """Runs the command in a folder, with a played machine; returns the runs it made."""
    monkeypatch.setattr(symbiosis_live, "Machine", PlayedMachine)
    monkeypatch.setattr(PlayedMachine, "ran", [])

    def run(*words):
        PlayedMachine.ran.clear()
        symbiosis_live.main([*words, "--count", "20", "--out", str(tmp_path)])
        return list(PlayedMachine.ran)

    return run


def test_streams_that_are_there_are_not_run_again(play, tmp_path):
    assert len(play("--repeat", "1")) == len(ARMS)
    page = tmp_path / "page.md"
    page.write_text(f"<!-- {PART}: begin -->\n<!-- {PART}: end -->\n")
    ran = play("--repeat", "2", "--docs", str(page))
    assert {name for name, _ in ran} == {f"2-{arm}" for arm in ARMS}
    assert "Streams 1, 2:" in page.read_text()
    (claim,) = read(tmp_path / f"claims/{PART}.json").claims
    assert claim.finding.repeated


def test_streams_of_another_recipe_are_other_streams(play):
    play("--repeat", "1")
    assert len(play("--repeat", "1", "--least", "2")) == len(ARMS)
    assert play("--repeat", "1") == []


def test_streams_without_a_gain_refute_the_prototype(sim):
    lives = {arm: Live(sim["whole"], ()) for arm in ARMS}
    run = run_of(RECIPE, STREAM, lives, NPB)
    (claim,) = claims_of([run, run])
    assert (claim.ours, claim.verdict) == ("1.00", NO)
