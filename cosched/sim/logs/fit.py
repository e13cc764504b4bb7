"""Fits a model to a log, and makes logs from a model (Weissman et al. 2003, section 4.2).

- arrivals: a Poisson process whose rate depends on the hour of the day, 24 rates;
- sizes: 1, 2, 4, ... with the frequencies of the log; other sizes count as the power of
  two that is nearest by ratio, and rare powers are left out;
- run times: one Weibull distribution, fitted by maximum likelihood.

Size, run time and hour are independent of each other in the model. In a log they are
not, so the model's load differs from that of the log.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.sim.logs.workload import Workload
from cosched.sim.queue.metrics import column

HOURS = 24
HOUR_S = 3600
#: Sizes with a smaller share of the jobs are rare. The paper's Figure 7 ends at 64 of 128
#: nodes.
COMMON = 0.01
#: The range of the shape parameter; run times in logs have less than 1.
LEAST_SHAPE, GREATEST_SHAPE = 0.05, 20.0


@dataclass(frozen=True, slots=True)
class LogModel:
    """A model of a log."""

    name: str  #: names generated logs, and the model in errors
    machine: int  #: nodes of the log's machine
    per_hour: tuple[float, ...]  #: jobs that arrive in each hour of the day, midnight first
    sizes: tuple[float, ...]  #: the share of the jobs with 1, 2, 4, ... nodes
    shape: float  #: shape of the run times' Weibull distribution
    scale_s: float  #: scale of the same distribution

    def __post_init__(self) -> None:
        what = f"model {self.name}"
        if len(self.per_hour) != HOURS or min(self.per_hour) < 0 or not sum(self.per_hour):
            raise CoschedError(f"{what}: want 24 rates of arrival, none below 0, not all 0")
        if not self.sizes or min(self.sizes) < 0 or abs(sum(self.sizes) - 1) > 1e-3:
            raise CoschedError(f"{what}: the shares of the sizes do not sum to 1")
        if 2 ** (len(self.sizes) - 1) > self.machine:
            raise CoschedError(
                f"{what}: its largest jobs do not fit on {self.machine} nodes"
            )
        if self.shape <= 0 or self.scale_s <= 0:
            raise CoschedError(f"{what}: want shape and scale above 0")

    @property
    def load(self) -> float:
        """Node-seconds of the jobs / node-seconds of the machine."""
        size = sum(share * 2.0**power for power, share in enumerate(self.sizes))
        run_s = self.scale_s * math.gamma(1 + 1 / self.shape)
        asked = size * run_s * sum(self.per_hour)
        return float(asked / (HOURS * HOUR_S * self.machine))

    def at_load(self, load: float) -> LogModel:
        """Returns the model with this load: the same jobs arrive at other rates."""
        rates = tuple(rate * load / self.load for rate in self.per_hour)
        return replace(self, per_hour=rates)

    def document(self) -> dict[str, Any]:
        """Returns the model as JSON."""
        return asdict(self)


def model_of(document: Any, what: str) -> LogModel:
    """Returns the model of a JSON document; raises CoschedError if it has none."""
    try:
        return LogModel(
            name=str(document["name"]),
            machine=int(document["machine"]),
            per_hour=tuple(map(float, document["per_hour"])),
            sizes=tuple(map(float, document["sizes"])),
            shape=float(document["shape"]),
            scale_s=float(document["scale_s"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CoschedError(
            f"{what}: not a model ({error!r}); make one with cosched sim fit"
        ) from None


def fit(log: Workload, name: str, begins_s: int = 0) -> LogModel:
    """Fits a model to a log. begins_s: the time of day at the log's time 0, in seconds.

    Run times of 0 are left out. Raises CoschedError for a log
    that is too short or too uniform for a fit.
    """
    submit_s = column(log.submit_ns) / NS_PER_S
    days = (submit_s[-1] - submit_s[0]) / (HOURS * HOUR_S) if len(log) else 0.0
    if days <= 0:
        raise CoschedError(f"{name}: all jobs come at once; want a log of some days")
    hours = ((submit_s + begins_s) // HOUR_S).astype(np.int64) % HOURS
    run_s = column(log.run_ns) / NS_PER_S
    shape, scale_s = fit_weibull(run_s[run_s > 0], name)
    return LogModel(
        name=name,
        machine=log.machine,
        per_hour=tuple(float(n / days) for n in np.bincount(hours, minlength=HOURS)),
        sizes=_shares_of_powers(column(log.size), log.machine),
        shape=shape,
        scale_s=scale_s,
    )


def _shares_of_powers(sizes: npt.NDArray[np.int64], machine: int) -> tuple[float, ...]:
    powers = np.rint(np.log2(sizes)).astype(np.int64)
    counts = np.bincount(np.minimum(powers, int(math.log2(machine))))
    counts[counts < COMMON * len(sizes)] = 0
    common = np.trim_zeros(counts, "b")
    return tuple(float(count / common.sum()) for count in common)


def fit_weibull(values: npt.NDArray[np.float64], name: str) -> tuple[float, float]:
    """Returns the shape and scale of maximum likelihood, by bisection of the shape."""
    if len(values) < 2 or values.min() == values.max():
        raise CoschedError(f"{name}: its run times are all alike; a fit wants more")
    scaled = values / values.max()  # then no power overflows
    logs = np.log(scaled)

    def rises(shape: float) -> bool:
        weights = scaled**shape
        slope = (weights * logs).sum() / weights.sum() - 1 / shape - logs.mean()
        return bool(slope < 0)

    low, high = LEAST_SHAPE, GREATEST_SHAPE
    if not rises(low) or rises(high):
        raise CoschedError(
            f"{name}: no Weibull distribution of shape {low:g} to {high:g} "
            "fits its run times"
        )
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if rises(middle) else (low, middle)
    scale = float((scaled**low).mean() ** (1 / low) * values.max())
    return low, scale


def generate_like(
    model: LogModel, jobs: int, seed: int, machine: int | None = None
) -> Workload:
    """Returns a log of a model; one seed, one log. machine: another number of nodes.

    Jobs are never larger than the machine. Times are whole seconds, run times at least
    one. The log begins at midnight.
    """
    machine = machine or model.machine
    chance = Random(seed)
    powers = range(min(len(model.sizes), int(math.log2(machine)) + 1))
    shares = model.sizes[: len(powers)]
    if not sum(shares):
        raise CoschedError(f"model {model.name} has no jobs that fit on {machine} nodes")
    sizes = chance.choices([2**power for power in powers], shares, k=jobs)
    log = Workload(f"{model.name}-{seed}", machine)
    at_s = 0.0
    for number, size in enumerate(sizes, 1):
        at_s = _next_arrival_s(model.per_hour, at_s, chance.expovariate(1.0))
        run_s = max(1, round(chance.weibullvariate(model.scale_s, model.shape)))
        run_ns = run_s * NS_PER_S
        log.append(number, int(at_s) * NS_PER_S, run_ns, size, run_ns)
    return log


def _next_arrival_s(per_hour: tuple[float, ...], at_s: float, due: float) -> float:
    """Returns the time until which ``due`` more arrivals are expected."""
    while True:
        hour = int(at_s // HOUR_S)
        rate = per_hour[hour % HOURS] / HOUR_S
        end_s = (hour + 1) * HOUR_S
        if rate and due <= rate * (end_s - at_s):
            return at_s + due / rate
        due -= rate * (end_s - at_s)
        at_s = float(end_s)
