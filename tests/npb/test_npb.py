"""Runs each NAS benchmark in class S: verification, message counts, wrong constants."""

from __future__ import annotations

import pytest

from tests.npb.conftest import check_class_s, run_several, runner

pytestmark = pytest.mark.mpi_job

#: Messages that a rank sends in class S on two ranks, and their bytes, from the algorithm.
# CG: 16 inverse iterations of 26 products (half the 1400 rows, then all, of doubles) and
# 53 sums (one of them of two numbers).
CG_MESSAGES = 16 * (26 * 2 + 53)
CG_BYTES = 16 * (26 * 2 * 700 * 8 + 54 * 8)
# LU: an edge of 10 points for each of 10 planes, once a rank and sweep, in 51 iterations;
# two layers of 12 x 12 points for each of 53 residuals.
LU_MESSAGES = 51 * 10 + 53
LU_BYTES = 51 * 10 * 10 * 40 + 53 * 2 * 144 * 40
# MG: faces both ways along three axes, after each of 14 operators in 5 iterations, two
# charges and two first residuals.
MG_MESSAGES = 6 * (5 * 14 + 2 + 2)
# SP and BT: the state up and down two axes at 2 + steps right-hand sides; both ways of two
# sweeps in each of 1 + steps steps.
SP_MESSAGES = 4 * 102 + 4 * 101
BT_MESSAGES = 4 * 62 + 4 * 61


#: Messages of a rank in class S on two ranks, and their bytes; None: not counted here.
SENT = {
    "ep": (0, 0),
    "is": (None, None),
    "cg": (CG_MESSAGES, CG_BYTES),
    "mg": (MG_MESSAGES, None),
    "ft": (0, 0),
    "lu": (LU_MESSAGES, LU_BYTES),
    "sp": (SP_MESSAGES, None),
    "bt": (BT_MESSAGES, None),
}


def run_class_s(run, ranks):
    """Returns what each benchmark reports of class S."""
    done = run_several(run, ranks, *(([benchmark, "--json"], None) for benchmark in SENT))
    for benchmark, (status, _, errors) in zip(SENT, done, strict=True):
        assert (status, errors) == (0, ""), benchmark
    return {
        benchmark: check_class_s(text, benchmark, ranks)
        for benchmark, (_, text, _) in zip(SENT, done, strict=True)
    }


def test_command_reports_its_result(npb):
    done = npb(2, "is", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    check_class_s(done.stdout, "is", 2)


def test_class_s_verifies_on_one_rank(run_once):
    assert set(run_class_s(run_once, 1)) == set(SENT)


def test_class_s_verifies_and_sends_as_the_algorithm(site):
    found = run_class_s(runner(site), 2)
    for benchmark, (messages, size) in SENT.items():
        if messages is not None:
            assert found[benchmark]["messages_per_rank"] == messages, benchmark
        if size is not None:
            assert found[benchmark]["message_bytes_per_rank"] == size, benchmark
    # FT and IS exchange all their data; sums and times are a few bytes more. FT: twice into
    # frequency space, six times back; half of the complex numbers each.
    grid = 64**3 * 16 // 2
    assert 0 <= found["ft"]["collective_bytes_per_rank"] - 8 * grid < 1000
    rounds, keys, counts = 11, 2**16 * 4 // 2, (2**9 + 5) * 4
    rest = found["is"]["collective_bytes_per_rank"] - rounds * (keys + counts + 2 * 4)
    assert 0 <= rest < 100


@pytest.mark.parametrize(
    ("ranks", "benchmarks"),
    [
        (3, ("ep", "is", "lu", "sp", "bt")),
        (4, ("cg", "ft", "lu", "sp", "bt")),
        (8, ("mg",)),
    ],
)
def test_class_s_verifies_on_more_ranks(run_once, ranks, benchmarks):
    done = run_several(run_once, ranks, *(([name], None) for name in benchmarks))
    for benchmark, (status, text, errors) in zip(benchmarks, done, strict=True):
        assert (status, errors) == (0, ""), benchmark
        assert "verification  successful" in text, benchmark
        assert all(len(line) <= 80 for line in text.splitlines())


#: A table, a value of its class S, a part of the value, and a factor: it is then off by a
#: hundred times the tolerance.
WRONG = (
    ("ep", ("EP", "sum_x", None, 1 + 1e-6)),
    ("ep", ("EP", "sum_y", None, 1 - 1e-6)),
    ("ep", ("EP", "deviates", None, 1 + 1e-6)),
    ("is", ("IS", "test_ranks", 4, 2)),
    ("cg", ("CG", "zeta", None, 1 + 1e-8)),
    ("mg", ("MG", "norm", None, 1 - 1e-6)),
    ("mg", ("MG", "smoother", 2, 1 + 1e-4)),
    ("ft", ("FT", "checksums", 5, 1 + 1e-10)),
    ("lu", ("LU", "residual", 0, 1 + 1e-6)),
    ("lu", ("LU", "error", 4, 1 - 1e-6)),
    ("lu", ("LU", "surface", None, 1 + 1e-6)),
    ("sp", ("SP", "residual", 2, 1 + 1e-6)),
    ("sp", ("SP", "dt", None, 1 + 1e-4)),
    ("bt", ("BT", "error", 3, 1 + 1e-6)),
    ("bt", ("BT", "dt", None, 1 + 1e-4)),
)


def test_verification_with_wrong_constant_fails(run_once):
    right = [(name, None) for name in dict(WRONG)]  # no change outlives its run
    done = run_several(
        run_once, 2, *(([name], change) for name, change in (*WRONG, *right))
    )
    for wrong, (status, text, _) in zip(WRONG, done, strict=False):
        assert (status, "verification  FAILED" in text) == (1, True), wrong
    for (name, _), (status, text, _) in zip(right, done[len(WRONG) :], strict=True):
        assert (status, "verification  successful" in text) == (0, True), name


#: A program that changes a constant and runs the command.
SPOILED = """
import runpy, sys
from benchmarks.npb import classes
from dataclasses import replace
classes.EP["S"] = replace(classes.EP["S"], sum_x=classes.EP["S"].sum_x * (1 + 1e-6))
sys.argv = ["npb", "ep"]
runpy.run_module("benchmarks.npb", run_name="__main__")
"""


def test_command_ends_with_1_after_a_wrong_result(run_once):
    done = run_once(2, "-c", SPOILED)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "verification  FAILED" in done.stdout


@pytest.mark.parametrize(
    ("ranks", "lines"),
    [
        (
            3,
            {
                "cg": "npb: cg: 3 ranks; it needs a power of two",
                "mg": "npb: mg: 3 ranks; it needs a power of two",
                "ft": "npb: ft class S: 3 ranks; it needs a power of two up to 64",
            },
        ),
        (
            5,
            {
                "lu": "npb: lu class S: 5 ranks leave less than 3 points to each",
                "bt": "npb: 5 ranks cut 12 points into cells of less than 3; take fewer",
            },
        ),
    ],
    ids=["3", "5"],
)
def test_unsupported_rank_count_gives_one_line(run_once, ranks, lines):
    done = run_several(run_once, ranks, *(([name], None) for name in lines))
    assert done == [(2, "", f"{line}\n") for line in lines.values()]


def test_command_ends_with_2_if_it_cannot_run(run_once):
    done = run_once(3, "-m", "benchmarks.npb", "cg")
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if line.startswith("npb:")]
    assert lines == ["npb: cg: 3 ranks; it needs a power of two"]
    assert "verification" not in done.stdout


def test_concurrent_ranks_share_one_build(any_site, tmp_path):
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    done = any_site.run(4, "-m", "benchmarks.npb", "ep", environ=environ)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.rglob("_npb_ep.so"))) == 1
    assert not list(tmp_path.rglob("build-*"))
