"""Keeps the samples of the last seconds, and each job's trend, for ``cosched top``."""

from __future__ import annotations

from collections import deque

from cosched.core.units import NS_PER_S
from cosched.observe.top.model import WINDOW_NS, View, view
from cosched.observe.top.sample import Sample

HISTORY = 60


class Recent:
    """The samples of the last ``window_s`` seconds.

    Figures cover the whole window, because within one slice a job has either all of the
    CPUs or none. Trends cover each interval.
    """

    def __init__(self, window_s: float = WINDOW_NS / NS_PER_S) -> None:
        self.trends = Trends()
        self._window_s = window_s
        self._samples: deque[Sample] = deque()

    def add(self, sample: Sample) -> View | None:
        """Takes a sample, later than the earlier ones; returns None for the first."""
        samples = self._samples
        sample = sample.after(samples[-1] if samples else None)
        if samples:
            self.trends.add(view(samples[-1], sample))
        samples.append(sample)
        while len(samples) > 2 and samples[1].at_s <= sample.at_s - self._window_s:
            samples.popleft()
        return view(samples[0], sample) if len(samples) > 1 else None

    def forget(self) -> None:
        """Drops the samples after a gap; trends stay."""
        self._samples.clear()


class Trends:
    """The share of each job in the last views, for sparklines. Keyed like ``JobRow``."""

    def __init__(self, length: int = HISTORY) -> None:
        self._length = length
        self._shares: dict[str, deque[float]] = {}

    def add(self, seen: View) -> None:
        """Takes a view; drops the jobs that are not in it."""
        self._shares = {
            job.key: self._shares.get(job.key, deque(maxlen=self._length))
            for job in seen.jobs
        }
        for job in seen.jobs:
            self._shares[job.key].append(job.scheduled)

    def of(self, key: str) -> tuple[float, ...]:
        """Returns the job's shares, the oldest first."""
        return tuple(self._shares.get(key, ()))
