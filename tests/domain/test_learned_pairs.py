"""A domain learns from its nodes how fast programs are beside each other."""

import json
import os
import time

import pytest

from benchmarks.experiments.symbiosis.limited_jobs import (
    FULL_RATE,
    build_programs,
    emulated_nodes,
    words_of,
)
from benchmarks.mpi import find

WITHIN_S = 60.0
KEPT_APART = "free halves beside job 2: one of the two was slowed too much"

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="halves need two CPUs"),
]


def test_speed_beside_a_neighbour_is_learned_and_keeps_the_two_apart(lab_command, tmp_path):
    cosched = lab_command
    programs = build_programs(find(None), tmp_path)
    cosched("lab", "up", "--nodes", "1", "--cores-per-node", "2")
    try:
        cosched("cluster", "up", "--lab", "--parts", "2")
        with emulated_nodes(["lab1"]) as nodes:

            def submit(kind):
                words = words_of(programs[kind], 300.0, FULL_RATE, nodes)
                cosched("submit", "--limited-by", "memory", "-n", "1", *words)

            submit("gups")
            submit("gups")
            deadline, pairs = time.monotonic() + WITHIN_S, []
            while not any(pair["harmful"] for pair in pairs):
                assert time.monotonic() < deadline, "no pair was seen to be harmful"
                pairs = json.loads(cosched("advise", "--pairs", "--json"))["pairs"]
            (pair,) = pairs
            assert (pair["program"], pair["beside"], pair["uid"]) == ("gups", "gups", 0)
            assert pair["speed"] < 0.9  # two of them want 1.4 times what the memory gives
            submit("gups")
            cosched("cancel", "1")
            # Its half is free once job 1 has ended.
            while KEPT_APART not in (why := cosched("why", "3")):
                assert time.monotonic() < deadline, why
            jobs = json.loads(cosched("queue", "--json"))["jobs"]
            assert {job["job"]: job["state"] for job in jobs}[3] == "queued"
        cosched("cluster", "down", "--end-jobs")
    finally:
        cosched("lab", "down")
