"""Keeps the demo on a few CPUs: on many its jobs would run side by side, undisturbed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cosched.core.errors import CoschedError
from cosched.lab.plan import order_cpus


def few_cpus(count: int, siblings: Sequence[frozenset[int]]) -> frozenset[int]:
    """Returns ``count`` CPUs, of different cores if there are as many. siblings: the usable
    CPUs, as one set for each core. Raises CoschedError if there are fewer CPUs."""
    cpus = order_cpus(siblings)
    if len(cpus) < count:
        raise CoschedError(f"the demo needs {count} CPUs, and may use {len(cpus)} here")
    return frozenset(cpus[:count])


@contextmanager
def on_cpus(cpus: frozenset[int]) -> Iterator[None]:
    """Lets this thread, and what it starts, use only these CPUs during the block."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
