"""The played domain and the clock with which an hour of the dashboard is measured."""

from __future__ import annotations

import subprocess
import sys
import time

from tests.places import ROOT
from tests.tools.played_site import PAST_S, Site

CLOCK = """
import time
from benchmarks.fast_clock import go_faster
real_s, began = time.time(), time.monotonic()
go_faster(1000, real_s - 1)
first_s, first_ns = time.time(), time.time_ns()
print(first_s - real_s, first_ns / 1e9 - first_s, time.monotonic() - began)
"""


def test_a_faster_clock_goes_on_from_its_epoch_and_leaves_the_monotonic_one():
    done = subprocess.run(
        [sys.executable, "-c", CLOCK], capture_output=True, text=True, cwd=ROOT, check=True
    )
    ahead_s, later_s, took_s = map(float, done.stdout.split())
    assert 999 <= ahead_s <= 999 + took_s * 1001
    assert 0 <= later_s <= took_s * 1001


def test_modules_with_the_same_epoch_have_the_same_time():
    words = (sys.executable, "-m", "benchmarks.fast_clock", "3", str(time.time() - 100))
    script = "tests.tools.print_time"
    began_s = time.time()
    done = subprocess.run(
        [*words, script, "word"], capture_output=True, text=True, cwd=ROOT, check=True
    )
    ended_s = time.time()
    shown_s, word = done.stdout.split()
    assert word == "word"
    assert began_s + 200 <= float(shown_s) <= ended_s + 200 + 2 * (ended_s - began_s)


def test_a_lasting_site_has_as_many_jobs_after_an_hour():
    site = Site(nodes=16, jobs=250, at_s=0.0, lasting_s=3600.0)

    def live(at_s):
        return sum(job.submitted_s <= at_s < job.ended_s for job in site.jobs)

    assert live(0.0) <= 250
    for at_s in range(0, 3601, 600):
        assert 0.75 * live(0.0) <= live(at_s) <= 1.25 * live(0.0), at_s
    alone = Site(nodes=16, jobs=250, at_s=0.0)
    assert [job.began_s for job in alone.jobs] == [
        job.began_s for job in site.jobs[: len(alone.jobs)]
    ]
    assert alone.began_s == -PAST_S
