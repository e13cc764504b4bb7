"""The played domain and the clock with which an hour of the dashboard is measured."""

from __future__ import annotations

import argparse
import subprocess
import sys

from benchmarks.micro.dashboard import measure
from benchmarks.stepped_clock import SteppedClock
from cosched.core.units import NS_PER_S
from tests.places import ROOT
from tests.tools.played_site import PAST_S, Site


def test_processes_with_the_same_clock_have_its_time(tmp_path):
    clock = SteppedClock.create(tmp_path / "clock", 1_000 * NS_PER_S)
    words = (sys.executable, "-m", "benchmarks.stepped_clock", tmp_path / "clock")
    shown = []
    for _ in range(2):
        clock.step(2 * NS_PER_S)
        done = subprocess.run(
            [*words, "tests.tools.print_time", "word"],
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=True,
        )
        shown.append(done.stdout.split())
    assert shown == [["1002.0", "word"], ["1004.0", "word"]]


def test_the_server_makes_each_look_in_virtual_time():
    options = argparse.Namespace(
        nodes=2, jobs=20, slice=1.0, interval=2.0, seconds=60.0, parts=3, virtual=True
    )
    lines, figures = measure(options)
    assert (figures["looks"], figures["watched_s"]) == (30, 60.0)
    assert len(figures["server_mib"]) == 4
    assert figures["jobs_now"] > 0
    assert lines[0] == "2 nodes, 20 jobs, slices of 1 s"


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
