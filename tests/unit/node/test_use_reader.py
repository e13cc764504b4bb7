"""How often the use of the jobs is read."""

from __future__ import annotations

from types import SimpleNamespace

from cosched.core.node.cpu_need import Use
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
    fed, jobs = [], [SimpleNamespace(key="0.a", waits_ns=0, tasks={})]
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
    jobs.append(SimpleNamespace(key="0.b", waits_ns=0, tasks={}))
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


def test_the_first_threads_of_all_tasks_are_read(monkeypatch):
    monkeypatch.setattr(use_reader, "thread_times", {7: (30, 5), 8: (10, 1)}.get)
    fed = []
    driver = SimpleNamespace(feed=fed.append, machine=SimpleNamespace(jobs={}))
    tasks = {
        slot: SimpleNamespace(pid=pid, is_launcher=pid == 1)
        for slot, pid in enumerate((1, 7, 8))
    }
    job = SimpleNamespace(key="0.a", waits_ns=4, tasks=tasks)

    def read():
        UseReader(driver, [job], SimpleNamespace(), lambda _key: 9).read()
        return fed[-1].uses

    assert read() == (("0.a", Use(4, 9, 46)),)
    tasks[3] = SimpleNamespace(pid=9, is_launcher=False)
    assert read() == (("0.a", Use(4, 9, None)),), "a task without an account"
