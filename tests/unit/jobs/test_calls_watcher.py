"""The watcher reports each job once, whatever happens to the others and to the domain."""

from __future__ import annotations

import contextlib
import threading

from cosched.core.errors import CoschedError
from cosched.jobs.calls.watcher import Watcher


class Played:
    """A domain that has the jobs ``ended`` alone. asked: the jobs of each question."""

    def __init__(self, ended):
        self._ended = ended
        self.asked = []

    def ended(self, numbers, within_s):
        self.asked.append(numbers)
        for number in numbers:
            if number not in self._ended:
                raise CoschedError(f"job {number}: there is no such job")
        return [{"job": number, "state": "done"} for number in numbers]

    @contextlib.contextmanager
    def connected(self):
        yield self


def reported(connect, numbers):
    """Returns what is reported about each of these jobs."""
    found, connects = {}, threading.Event()

    def connect_later():  # all jobs are in the first question
        connects.wait()
        return connect()

    watcher = Watcher(connect_later)
    for number in numbers:
        watcher.add(number, lambda end, number=number: found.update({number: end}))
    connects.set()
    watcher.join()
    return found


def test_unknown_job_costs_no_other_one_its_end():
    domain = Played({1, 3})
    found = reported(domain.connected, [1, 2, 3])
    assert [found[number]["state"] for number in (1, 3)] == ["done", "done"]
    assert str(found[2]) == "job 2: there is no such job"
    assert domain.asked == [[1, 2, 3], [1], [2], [3]]


def test_unexpected_error_is_the_outcome_of_all_jobs():
    def connect():
        raise OSError("no descriptor is free")

    found = reported(connect, [1, 2])
    assert [str(found[number]) for number in (1, 2)] == ["no descriptor is free"] * 2
