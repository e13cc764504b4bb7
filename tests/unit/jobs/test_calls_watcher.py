"""The watcher reports each job once, whatever happens to the others and to the domain."""

from __future__ import annotations

import contextlib
import threading

from cosched.core.errors import CoschedError
from cosched.jobs.calls import watcher
from cosched.jobs.calls.watcher import Watcher


class Played:
    """A domain that has the jobs ``ended`` alone, and ``running``, which end after the
    third question. asked: the jobs of each question."""

    def __init__(self, ended):
        self._ended = ended
        self.running = set()
        self.asked = []

    def ended(self, numbers, within_s):
        self.asked.append(numbers)
        if len(self.asked) > 3:
            self._ended |= self.running
            self.running = set()
        for number in numbers:
            if number not in self._ended | self.running:
                raise CoschedError(f"job {number}: there is no such job")
        return [
            {"job": number, "state": "done"} for number in numbers if number in self._ended
        ]

    @contextlib.contextmanager
    def connected(self):
        yield self


def reported(connect, numbers):
    """Returns what is reported about each of these jobs."""
    found, connects = {}, threading.Event()

    def connect_later():  # all jobs are in the first question
        connects.wait()
        return connect()

    watching = Watcher(connect_later)
    for number in numbers:
        watching.add(number, lambda end, number=number: found.update({number: end}))
    connects.set()
    watching.join()
    return found


def test_unknown_job_costs_no_other_one_its_end():
    domain = Played({1, 3})
    found = reported(domain.connected, [1, 2, 3])
    assert [found[number]["state"] for number in (1, 3)] == ["done", "done"]
    assert str(found[2]) == "job 2: there is no such job"
    assert domain.asked == [[1, 2, 3], [1], [2], [3]]


def test_jobs_that_run_on_keep_no_end_of_others_back(monkeypatch):
    monkeypatch.setattr(watcher, "NAMED_MOST", 2)
    domain = Played({3})
    domain.running = {1, 2}
    found = reported(domain.connected, [1, 2, 3])
    assert list(found) == [3, 1, 2]


def test_unexpected_error_is_the_outcome_of_all_jobs():
    def connect():
        raise OSError("no descriptor is free")

    found = reported(connect, [1, 2])
    assert [str(found[number]) for number in (1, 2)] == ["no descriptor is free"] * 2
