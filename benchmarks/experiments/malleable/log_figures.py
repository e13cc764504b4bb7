"""Figures 5 to 8 of Weissman et al. (2003): how well the model of a log fits the log.

The log is any in the Standard Workload Format. Its model is that of ``cosched sim fit``,
and streams as long as the log are made from it. Bins are of 500 seconds, as in the paper.
Which arrivals came by day is known if the log's header has its time and its time zone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from benchmarks.experiments.claims import TUNED, Claim, judged, near
from benchmarks.experiments.verdicts import (
    EQUAL_WITHIN,
    Above,
    Judge,
    Measured,
    exact,
    over_cases,
)
from benchmarks.pictures import picture
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.sim.logs.fit import HOUR_S, HOURS, LogModel, fit, generate_like
from cosched.sim.logs.opening import log_name
from cosched.sim.logs.swf import read_swf
from cosched.sim.logs.workload import Workload
from cosched.sim.queue.metrics import column

BIN_S = 500
#: Bins drawn in Figs. 6 and 8; the rest of the jobs is in the last one.
BINS = 40
#: Streams made from each model.
SEEDS = range(3)

#: The day, by the log's clock: from 8 to 20 h.
DAY_HOURS = slice(8, 20)

#: The likely reasons of verdicts.
SPIKE = "the gaps of a Poisson process always have their first bin the greatest"
FITTED = "the model has the log's own rate in each hour"
BURSTS = (
    "arrivals of logs come in bursts, which a Poisson process with hourly rates has not"
)
SHORT = "one Weibull curve has too few of the shortest jobs"

Shares = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fitted:
    """A log, its model, and streams of the model."""

    log: Workload  #: the log
    begins_s: int  #: the time of day at the log's time 0 in UTC; 0 if it is not known
    zone_s: int | None  #: the log's clock - UTC in seconds; None: not known
    model: LogModel  #: fitted to the log
    streams: Sequence[Workload]  #: as long as the log, one for each of SEEDS


def fitted(path: Path) -> Fitted:
    """Returns the log of a file with its model. Raises CoschedError for a log that is
    shorter than a day: it has no arrivals in some hours."""
    found = read_swf(path)
    submits_ns = found.workload.submit_ns
    if submits_ns[-1] - submits_ns[0] < HOURS * HOUR_S * NS_PER_S:
        raise CoschedError(f"{path}: covers less than a day; take a longer log")
    begins_s = found.start_s or 0
    zone_s = None if found.start_s is None else found.zone_s
    name = log_name(path).split("-")[0]
    model = fit(found.workload, name, begins_s)
    jobs = len(found.workload)
    streams = [generate_like(model, jobs, seed) for seed in SEEDS]
    return Fitted(found.workload, begins_s, zone_s, model, streams)


def by_hour(jobs: Workload, begins_s: int = 0) -> Shares:
    """Returns the share of the arrivals in each hour of the day (Fig. 5)."""
    hours = (column(jobs.submit_ns) // NS_PER_S + begins_s) // HOUR_S % HOURS
    return np.bincount(hours, minlength=HOURS) / len(jobs)


def by_bin(times_ns: npt.NDArray[np.int64]) -> Shares:
    """Returns the share of the times in each bin of 500 s; the last bin has the rest."""
    bins = np.minimum(times_ns // (BIN_S * NS_PER_S), BINS - 1)
    return np.bincount(bins, minlength=BINS) / len(bins)


def intervals(jobs: Workload) -> Shares:
    """Returns the shares of the times between arrivals (Fig. 6)."""
    return by_bin(np.diff(column(jobs.submit_ns)))


def by_power(jobs: Workload) -> Shares:
    """Returns the share of the jobs with 1, 2, 4, ... nodes; the last one has all other
    sizes (Fig. 7)."""
    sizes = column(jobs.size)
    powers = (sizes & (sizes - 1)) == 0
    most = jobs.machine.bit_length()
    found = np.bincount(np.rint(np.log2(sizes[powers])).astype(int), minlength=most)
    return np.append(found, len(sizes) - powers.sum()) / len(sizes)


def run_times(jobs: Workload) -> Shares:
    """Returns the shares of the run times (Fig. 8)."""
    return by_bin(column(jobs.run_ns))


def by_day(found: Fitted) -> Measured | None:
    """Returns the arrivals by day / those by night; None if the clock is not known."""
    if found.zone_s is None:
        return None
    day = float(by_hour(found.log, found.begins_s + found.zone_s)[DAY_HOURS].sum())
    return exact(day / (1 - day))


def busiest(shares: Shares) -> float:
    """Returns the arrivals in the busiest twelve hours in a row / those in the others. It
    is 1 or more for any log."""
    half = max(float(np.roll(shares, -first)[: HOURS // 2].sum()) for first in range(HOURS))
    return half / (1 - half)


def claims_of(found: Fitted) -> list[Claim]:
    """Returns the claims of section 4.2 for a log and its model."""
    name = found.model.name

    def claim(
        figure: str,
        what: str,
        paper: str,
        ours: Measured | None,
        by: Judge | None,
        why: str = "",
    ) -> Claim:
        return judged(figure, f"{name}: {what}", paper, ours, by, why=why)

    def beside(shares: Callable[[Workload], float]) -> Measured:
        """Returns the model's figure / the log's."""
        return over_cases(map(shares, found.streams)).over(exact(shares(found.log)))

    ran = column(found.log.run_ns)
    hourly = claim(
        "5", "arrivals, the busiest half of the day / the rest, model / log", "drawn",
        over_cases(busiest(by_hour(one)) for one in found.streams).over(
            exact(busiest(by_hour(found.log)))), near(1.0), FITTED)  # fmt: skip
    spike = claim(
        "6", "the first bin of the model / its next one", "a spike",
        over_cases(intervals(one)[0] / intervals(one)[1] for one in found.streams),
        Above(1.0, EQUAL_WITHIN), SPIKE)  # fmt: skip
    return [
        claim("5", "arrivals by day (8 to 20 h) / by night", "more by day",
              by_day(found), Above(1.0, EQUAL_WITHIN)),
        msgspec.structs.replace(hourly, apart=TUNED),
        claim("6", "share of arrivals within 500 s of the last", "most",
              exact(float(intervals(found.log)[0])), Above(0.5)),
        msgspec.structs.replace(spike, apart=TUNED),
        claim("6", "share of arrivals within 500 s, model / log", "captured, not perfect",
              beside(lambda jobs: float(intervals(jobs)[0])), near(1.0), BURSTS),
        claim("6", "share of gaps above 5,000 s, model / log", "captured, not perfect",
              beside(lambda jobs: float(intervals(jobs)[10:].sum())), near(1.0), BURSTS),
        claim("7", "share of sizes 1, 2, 4, ...", "all others rare",
              exact(1 - float(by_power(found.log)[-1])), Above(0.5)),
        claim("8", "share of jobs that run for less than the mean", "most",
              exact(float((ran < ran.mean()).mean())), Above(0.5)),
        claim("8", "share of run times below 500 s, model / log", "drawn",
              beside(lambda jobs: float(run_times(jobs)[0])), near(1.0), SHORT),
        claim("8", "share of run times above 5,000 s, model / log", "drawn",
              beside(lambda jobs: float(run_times(jobs)[10:].sum())), near(1.0), SHORT),
        claim("-", "load of the model / the log's", "",
              exact(found.model.load / load_of(found.log)), None),
    ]  # fmt: skip


def load_of(jobs: Workload) -> float:
    """Returns the node-seconds of the jobs / those of the machine while they came."""
    submit = column(jobs.submit_ns)
    asked = float((column(jobs.size) * (column(jobs.run_ns) / NS_PER_S)).sum())
    return asked / (jobs.machine * float(submit.max() - submit.min()) / NS_PER_S)


def draw(found: Fitted, path: Path) -> None:
    """Draws the four figures of a log: bars of the log, a line of the model."""
    log, stream = found.log, found.streams[0]
    seconds = np.arange(BINS) * BIN_S
    powers = [f"{2**power}" for power in range(log.machine.bit_length())]
    panels: list[tuple[str, Any, Shares, Shares]] = [
        ("Fig. 5: arrivals by the hour", np.arange(HOURS),
         by_hour(log, found.begins_s), by_hour(stream)),
        ("Fig. 6: time between arrivals, s", seconds, intervals(log), intervals(stream)),
        ("Fig. 7: nodes of a job", [*powers, "other"], by_power(log), by_power(stream)),
        ("Fig. 8: run times, s", seconds, run_times(log), run_times(stream)),
    ]  # fmt: skip
    with picture(path, size=(14, 3.2), columns=len(panels)) as (sheet, (axes,)):
        for axis, (title, places, ours, model) in zip(axes, panels, strict=True):
            width = BIN_S if places is seconds else 0.8
            axis.bar(places, 100 * ours, width, color="#bbbbbb", label="log")
            axis.plot(places, 100 * model, "o-", markersize=2, label="model")
            axis.set_title(title, fontsize=9)
            axis.tick_params(labelsize=7)
        axes[0].set_ylabel("share of the jobs, %", fontsize=8)
        axes[0].legend(fontsize=7)
        sheet.suptitle(found.model.name, fontsize=10)
