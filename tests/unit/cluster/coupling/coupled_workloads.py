"""Random small coupled systems, and what runs them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random

from hypothesis import strategies as st
from msgspec.structs import replace

from cosched.core.cluster.coupling.engine_messages import Received
from cosched.core.cluster.coupling.groups import Timing
from cosched.core.cluster.coupling.settings import CouplingSettings, Scheme
from cosched.sim.coupling.coupled_runs import make_queue
from cosched.sim.coupling.domains import CoupledDomain, Exchange
from cosched.sim.coupling.pairs import groups_of
from cosched.sim.logs.workload import Estimates
from cosched.sim.virtual_time import END, SUBMIT, VirtualTime
from tests.unit.cluster.queue.queue_workloads import workload_of

RELEASE = 9
SCHEMES = st.sampled_from(list(Scheme))


ANY_SETTINGS = st.builds(
    CouplingSettings,
    scheme=SCHEMES,
    release_ns=st.just(RELEASE),
    held_cap=st.sampled_from([0.0, 0.5, 1.0]),
    yield_cap=st.sampled_from([None, 0, 2]),
    raise_by=st.sampled_from([0, 1, 3]),
    pause_ns=st.just(1),
    rest_ns=st.sampled_from([0, 3]),
)


@dataclass
class System:
    """jobs: for each domain (submission, run time, size, walltime). mates: for each group
    the index of its job in each domain that has one."""

    machines: list[int]
    jobs: list[list[tuple[int, int, int, int]]]
    mates: list[dict[int, int]]
    settings: list[CouplingSettings]
    policies: list[str]
    timing: Timing = Timing.TOGETHER
    delay: int = 0
    down: frozenset[int] = field(default_factory=frozenset)


@st.composite
def systems(draw, domains=2, overruns=True, settings=None, down=False, **timing):
    """Two domains or more, with some jobs in groups."""
    machines = [draw(st.integers(1, 6)) for _ in range(domains)]
    jobs = []
    for machine in machines:
        count = draw(st.integers(1, 8))
        submits = sorted(draw(st.integers(0, 20)) for _ in range(count))
        mine = []
        for submit in submits:
            run = draw(st.integers(1, 12))
            walltime = draw(st.integers(1 if overruns else run, 16))
            mine.append((submit, run, draw(st.integers(1, machine)), walltime))
        jobs.append(mine)
    orders = [draw(st.permutations(range(len(mine)))) for mine in jobs]
    mates = [
        {place: order[count] for place, order in enumerate(orders) if count < len(order)}
        for count in range(draw(st.integers(0, 8)))
    ]
    chosen = ANY_SETTINGS if settings is None else settings
    gone = draw(st.sets(st.integers(0, domains - 1), max_size=domains - 1)) if down else ()
    return System(
        machines,
        jobs,
        [group for group in mates if len(group) > 1],
        [draw(chosen) for _ in machines],
        [draw(st.sampled_from(["fcfs", "easy", "wfp"])) for _ in machines],
        down=frozenset(gone),
        **{name: draw(values) for name, values in timing.items()},
    )


class SlowExchange(Exchange):
    """Messages take their time, and other things happen meanwhile."""

    def __init__(self, engine: VirtualTime, slowest: int, seed: int) -> None:
        super().__init__(engine)
        self._delay = partial(Random(seed).randint, 0, slowest)

    def deliver(self, to, event) -> None:
        if not isinstance(event, Received):
            super().deliver(to, event)
            return
        now = self._engine.now_ns + self._delay()
        arrived = super().deliver
        self._engine.at(now, END, lambda _: arrived(to, replace(event, now_ns=now)), None)


def run(
    system: System, until: int | None = None, slowest: int = 0, seed: int = 0
) -> list[CoupledDomain]:
    """The domains that are up, after all is over, or at a time."""
    engine = VirtualTime()
    exchange = SlowExchange(engine, slowest, seed) if slowest else Exchange(engine)
    names = [f"d{place}" for place in range(len(system.machines))]
    groups = groups_of(system.mates, names, system.timing, system.delay)
    domains = []
    for place, name in enumerate(names):
        if place in system.down:
            continue
        machine = system.machines[place]
        domains.append(
            CoupledDomain(
                engine,
                exchange,
                workload_of(system.jobs[place], machine),
                make_queue(
                    name, machine, system.policies[place], system.settings[place], names
                ),
                Estimates.LOG,
                groups[place],
            )
        )
    if until is not None:
        engine.at(until, SUBMIT, _enough, None)
    with suppress(Enough):
        engine.run(lambda: None)
    return domains


class Enough(Exception):
    """The time is over."""


def _enough(_) -> None:
    raise Enough


def starts(system: System, until: int | None = None) -> list[list[int]]:
    return [list(domain.start_ns) for domain in run(system, until)]
