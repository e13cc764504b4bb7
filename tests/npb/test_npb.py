"""Runs each NAS benchmark in class S: verification, message counts, wrong constants."""

from __future__ import annotations

import json

import pytest

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


def check_class_s(done, benchmark, ranks):
    """Checks a run with --json; returns what it printed."""
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["verified"] is True
    assert found["failed"] == []
    assert (found["benchmark"], found["class"]) == (benchmark, "S")
    assert found["ranks"] == ranks
    assert found["seconds"] > 0
    assert found["mops"] > 0
    return found


@pytest.mark.parametrize("benchmark", SENT)
def test_class_s_verifies_on_one_rank(run_once, benchmark):
    done = run_once(1, "-m", "benchmarks.npb", benchmark, "--json")
    check_class_s(done, benchmark, 1)


@pytest.mark.parametrize("benchmark", SENT)
def test_class_s_verifies_and_sends_as_the_algorithm(npb, benchmark):
    found = check_class_s(npb(2, benchmark, "--json"), benchmark, 2)
    messages, size = SENT[benchmark]
    if messages is not None:
        assert found["messages_per_rank"] == messages
    if size is not None:
        assert found["message_bytes_per_rank"] == size
    # FT and IS exchange all their data; sums and times are a few bytes more.
    if benchmark == "ft":
        # Twice into frequency space, six times back; half of the complex numbers each.
        grid = 64**3 * 16 // 2
        assert 0 <= found["collective_bytes_per_rank"] - 8 * grid < 1000
    if benchmark == "is":
        rounds, keys, counts = 11, 2**16 * 4 // 2, (2**9 + 5) * 4
        rest = found["collective_bytes_per_rank"] - rounds * (keys + counts + 2 * 4)
        assert 0 <= rest < 100


@pytest.mark.parametrize(
    ("benchmark", "ranks"),
    [
        *(("ep", 3), ("is", 3), ("cg", 4), ("mg", 8), ("ft", 4)),
        *((benchmark, ranks) for benchmark in ("lu", "sp", "bt") for ranks in (3, 4)),
    ],
)
def test_class_s_verifies_on_more_ranks(run_once, benchmark, ranks):
    done = run_once(ranks, "-m", "benchmarks.npb", benchmark)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verification  successful" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


#: Replaces one value of one table by one that is off by a hundred times the tolerance.
SPOILED = """
import runpy, sys
from dataclasses import replace
from benchmarks.npb import classes

table, field, part, factor = {change!r}
sizes = getattr(classes, table)
value = getattr(sizes["S"], field)
if part is None:
    value = value * factor
else:
    value = (*value[:part], value[part] * factor, *value[part + 1 :])
sizes["S"] = replace(sizes["S"], **{{field: value}})
sys.argv = ["npb", {benchmark!r}]
runpy.run_module("benchmarks.npb", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("benchmark", "change"),
    [
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
    ],
)
def test_verification_with_wrong_constant_fails(run_once, benchmark, change):
    done = run_once(2, "-c", SPOILED.format(change=change, benchmark=benchmark))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "verification  FAILED" in done.stdout


@pytest.mark.parametrize(
    ("benchmark", "ranks", "why"),
    [
        ("cg", 3, "npb: cg: 3 ranks; it needs a power of two"),
        ("mg", 3, "npb: mg: 3 ranks; it needs a power of two"),
        ("ft", 3, "npb: ft class S: 3 ranks; it needs a power of two up to 64"),
        ("lu", 5, "npb: lu class S: 5 ranks leave less than 3 points to each"),
        ("bt", 5, "npb: 5 ranks cut 12 points into cells of less than 3; take fewer"),
    ],
)
def test_unsupported_rank_count_gives_one_line(run_once, benchmark, ranks, why):
    done = run_once(ranks, "-m", "benchmarks.npb", benchmark)
    assert done.returncode == 2
    assert [line for line in done.stderr.splitlines() if line.startswith("npb:")] == [why]
    assert "verification" not in done.stdout


def test_concurrent_ranks_share_one_build(any_site, tmp_path):
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    done = any_site.run(4, "-m", "benchmarks.npb", "ep", environ=environ)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.rglob("_npb_ep.so"))) == 1
    assert not list(tmp_path.rglob("build-*"))
