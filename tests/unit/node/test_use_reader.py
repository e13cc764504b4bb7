"""How often the use of the jobs is read."""

from __future__ import annotations

from types import SimpleNamespace

from cosched.core.units import NS_PER_S
from cosched.node.tasks import use_reader
from cosched.node.tasks.use_reader import (
    AGE_PART,
    FRESH_NS,
    USE_NS,
    CpuTimes,
    UseReader,
)


def test_readings_grow_rare_until_another_job_comes(monkeypatch):
    now = SimpleNamespace(ns=10 * NS_PER_S)
    monkeypatch.setattr(use_reader.time, "monotonic_ns", lambda: now.ns)
    fed, jobs = [], [SimpleNamespace(key="0.a", waits_ns=0)]
    driver = SimpleNamespace(feed=fed.append, machine=SimpleNamespace(jobs={}))
    reader = UseReader(driver, jobs, SimpleNamespace(), lambda _key: None)

    def readings(seconds):
        fed.clear()
        for _ in range(10 * seconds):
            reader.read()
            now.ns += NS_PER_S // 10
        return len(fed)

    assert readings(4) == 4 * NS_PER_S // USE_NS
    readings(3600)
    assert readings(600) <= 600 * AGE_PART / 3600 + 1
    jobs.append(SimpleNamespace(key="0.b", waits_ns=0))
    assert readings(4) == 4 * NS_PER_S // USE_NS
    jobs.clear()
    assert readings(4) == 0


def test_accounts_that_ask_at_one_moment_get_one_reading(monkeypatch):
    now, read = SimpleNamespace(ns=10 * NS_PER_S), []
    monkeypatch.setattr(use_reader.time, "monotonic_ns", lambda: now.ns)
    times = CpuTimes(lambda job: read.append(job) or len(read))
    assert [times("0.a"), times("0.b"), times("0.a")] == [1, 2, 1]
    now.ns += FRESH_NS
    assert times("0.a") == 1
    now.ns += 1
    assert [times("0.a"), times("0.a")] == [3, 3]
