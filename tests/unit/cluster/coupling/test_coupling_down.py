"""The wait of jobs without mates while the other domain does not answer."""

from __future__ import annotations

from statistics import fmean

import pytest

from cosched.core.cluster.coupling.settings import CouplingSettings, Patience, WhenDown
from cosched.core.units import NS_PER_S
from cosched.sim.coupling.coupled_runs import make_queue
from cosched.sim.coupling.domains import CoupledDomain, Exchange
from cosched.sim.coupling.pairs import by_share, groups_of
from cosched.sim.logs.generate import Recipe, generate
from cosched.sim.logs.workload import Estimates
from cosched.sim.virtual_time import NEVER, VirtualTime

SHARE = 0.1
#: The other domain never comes back, so there is no need to ask every ten seconds.
PATIENCE = Patience(probe_ns=600 * NS_PER_S)


def mean_wait_s(log, settings, unit=None):
    """Runs a log whose mates' domain is down; returns the mean wait of jobs without mates,
    in seconds, and how many jobs never started."""
    engine, names = VirtualTime(), ("up", "down")
    (groups, _) = groups_of(by_share([log, log], SHARE), names)
    queue = make_queue("up", log.machine, "wfp", settings, names, unit)
    exchange = Exchange(engine)  # has no other domain
    domain = CoupledDomain(engine, exchange, log, queue, Estimates.LOG, groups)
    engine.run(lambda: None)
    pairs = zip(domain.start_ns, log.submit_ns, strict=True)
    waits = [
        (start - submit) / 1e9
        for index, (start, submit) in enumerate(pairs)
        if index not in groups
    ]
    return fmean(waits), domain.start_ns.count(NEVER)


@pytest.fixture(scope="module")
def log():
    return generate(Recipe(1500, 128, load=0.7, seed=5))


@pytest.fixture(scope="module")
def alone_s(log):
    wait_s, stuck = mean_wait_s(log, CouplingSettings(enabled=False))
    assert stuck == 0
    assert wait_s > 600
    return wait_s


def test_jobs_without_mates_wait_as_without_coupling(log, alone_s):
    """A job with mates starts at once, so the queue does what it does without coupling."""
    settings = CouplingSettings(when_down=WhenDown.START, patience=PATIENCE)
    wait_s, stuck = mean_wait_s(log, settings)
    assert stuck == 0
    assert abs(wait_s / alone_s - 1) < 0.02


def test_short_holds_cost_others_little(log, alone_s):
    settings = CouplingSettings(
        when_down=WhenDown.HOLD, down_hold_ns=60 * NS_PER_S, patience=PATIENCE
    )
    wait_s, stuck = mean_wait_s(log, settings)
    assert stuck == 0
    assert wait_s / alone_s - 1 < 0.1
