"""Tests how the live starts over slow links are evaluated."""

import pytest

from benchmarks.experiments.startup.live_comparison import beside
from benchmarks.experiments.startup.startup_live import (
    FIGURES,
    WAYS,
    Started,
    figure_of,
    main,
    times_of,
)
from cosched.cluster.agent.steps import StepNote
from cosched.config.domain import OBJECTS, TABLES
from cosched.sim.startup.costs import Costs
from cosched.sim.startup.model import DESIGNS

S = 1_000_000_000


def steps(node, **times):
    return [
        StepNote(node, 5, 1, step.replace("_", " "), at * S) for step, at in times.items()
    ]


def test_times_of_a_start():
    found = times_of(
        [
            *steps("n2", object=11, prepared=12, table_0=14, tables_0=15),
            *steps("n2", table_2=20, tables_2=24),
            *steps("n3", object=14, prepared=17, table_0=18, tables_0=19),
            *steps("n3", table_2=21, tables_2=23),
        ],
        10 * S,
    )
    assert found == Started(total=9, object=4, tables=4, prepare=2, hop=3)


def test_each_way_is_a_design_of_a_domain_and_of_the_emulator():
    for way in WAYS.values():
        assert way.object in OBJECTS
        assert way.tables in TABLES
        assert way.design in DESIGNS
    for _, series in FIGURES.values():
        assert set(series) <= set(WAYS)


@pytest.mark.parametrize("figure", FIGURES)
def test_a_live_figure_can_be_emulated(figure):
    quantity, series = FIGURES[figure]
    started = [Started(2.0, 1.0, 0.5, 0.01, 0.8), Started(2.2, 1.2, 0.6, 0.03, 0.9)]
    found = {(name, 8): started for name in WAYS}
    rows = list(beside(figure_of(figure, found, Costs(link_mb_s=0.25), rate=250_000)))
    assert [row.series for row in rows] == list(series.values())
    for row in rows:
        assert row.x == 8
        assert row.live.low == getattr(started[0], quantity)
        assert row.emulated > 0


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--nodes", "8,x"], "--nodes: invalid numbers value: '8,x'"),
        (["--nodes", "0"], "0 is less than 1"),
        (["--rate", "0"], "0 is less than 1"),
    ],
)
def test_bad_options_are_refused(words, problem, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main([*words, "--out", str(tmp_path)])
    assert problem in capsys.readouterr().err
