"""Runs BTIO and DT in class S: verification, message counts, files, damaged files."""

from __future__ import annotations

import pytest

from tests.npb.conftest import check_class_s, run_several, runner

pytestmark = pytest.mark.mpi_job

#: The messages of a rank of two: those of BT; the length and the numbers of each arc whose
#: ends are on different ranks.
# SH: each of four comparators has one tail on the other rank, and no sink has.
# BH and WH: the ends of two of four arcs are on different ranks.
SENT = {
    "btio epio": 4 * 62 + 4 * 61,
    "btio simple": 4 * 62 + 4 * 61,
    "btio full": 4 * 62 + 4 * 61,
    "dt SH": 2 * 4 / 2,
    "dt BH": 2 * 2 / 2,
    "dt WH": 2 * 2 / 2,
}


def words(name, folder):
    """Returns the command line of a benchmark and its variant."""
    benchmark, variant = name.split()
    if benchmark == "dt":
        return ["dt", "--graph", variant]
    return ["btio", "--io", variant, "--folder", str(folder)]


def run_all(run, ranks, folder):
    """Runs each variant; returns what each reports."""
    runs = [([*words(name, folder), "--json"], None) for name in SENT]
    done = run_several(run, ranks, *runs)
    for name, (status, _, errors) in zip(SENT, done, strict=True):
        assert (status, errors) == (0, ""), name
    assert list(folder.iterdir()) == []
    return {
        name: check_class_s(text, name, ranks)
        for name, (_, text, _) in zip(SENT, done, strict=True)
    }


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_class_s_verifies_in_each_way_and_on_each_graph(run_once, ranks, tmp_path):
    assert set(run_all(run_once, ranks, tmp_path)) == set(SENT)


def test_class_s_verifies_and_sends_as_the_algorithm(site, tmp_path):
    found = run_all(runner(site), 2, tmp_path)
    assert {name: each["messages_per_rank"] for name, each in found.items()} == SENT


def test_more_ranks_than_nodes_of_the_graph_are_idle(run_once):
    ((status, text, errors),) = run_several(run_once, 6, (["dt", "--graph", "WH"], None))
    assert (status, errors) == (0, "")
    assert "verification  successful" in text


@pytest.mark.parametrize("way", ["epio", "simple", "full"])
def test_wrong_constant_is_reported(run_once, way, tmp_path):
    changes = (("BTIO", "error", 3, 1 + 1e-6), ("BTIO", "residual", 0, 1 + 1e-6))
    runs = [(words(f"btio {way}", tmp_path), change) for change in changes]
    for status, text, _ in run_several(run_once, 2, *runs):
        assert (status, "verification  FAILED: 1 value" in text) == (1, True)


@pytest.mark.parametrize("graph", ["BH", "WH", "SH"])
def test_another_size_has_another_checksum(run_once, graph):
    runs = [(words(f"dt {graph}", None), ("DT", "samples", None, 2))]
    ((status, text, _),) = run_several(run_once, 2, *runs)
    assert (status, "verification  FAILED" in text) == (1, True)


#: Runs the command with a changed ``reopen``, which first does something to the file.
DAMAGING = """
import os, runpy, sys
import numpy as np
os.umask(0)
from benchmarks.npb import kernels
kernels.load("btio")
from benchmarks.npb.fluid.solution_file import SolutionFile
reopen = SolutionFile.reopen
def damage(self):
    reopen(self)
    if self._link.rank == 0:
        {damage}
    self._link.barrier()
SolutionFile.reopen = damage
sys.argv = ["npb", *sys.argv[1:]]
runpy.run_module("benchmarks.npb", run_name="__main__")
"""
#: Overwrites a number of the fourth solution of twelve.
ONE_NUMBER = """
        with self._path.open("r+b") as file:
            file.seek(self._path.stat().st_size // 4 + 8 * {place})
            file.write(np.array([7.5]).tobytes())
"""
CUT = "os.truncate(self._path, self._path.stat().st_size - 8)"


@pytest.mark.parametrize("place", [0, 1001], ids=["boundary", "inside"])
@pytest.mark.parametrize("way", ["epio", "simple", "full"])
def test_damaged_file_is_found(run_once, way, place, tmp_path):
    program = DAMAGING.format(damage=ONE_NUMBER.format(place=place).strip())
    done = run_once(2, "-c", program, *words(f"btio {way}", tmp_path))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "verification  FAILED" in done.stdout
    assert "error of equation" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("way", ["epio", "simple", "full"])
def test_file_that_was_cut_is_one_line(run_once, way, tmp_path):
    done = run_once(2, "-c", DAMAGING.format(damage=CUT), *words(f"btio {way}", tmp_path))
    assert done.returncode == 2, done.stdout + done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("npb:")]
    assert len(lines) == 1
    assert "bytes read; something cut the file" in lines[0]
    assert list(tmp_path.iterdir()) == []


#: Runs the command with a limit of the size of files, far below what is written.
LIMITED = """
import resource, runpy, sys
from benchmarks.npb import kernels
kernels.load("btio")
from mpi4py import MPI
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
sys.argv = ["npb", *sys.argv[1:]]
runpy.run_module("benchmarks.npb", run_name="__main__")
"""


@pytest.mark.parametrize("way", ["epio", "simple", "full"])
def test_failed_write_is_one_line_and_leaves_no_file(run_once, way, tmp_path):
    done = run_once(2, "-c", LIMITED, *words(f"btio {way}", tmp_path))
    assert done.returncode == 2, done.stdout + done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("npb:")]
    assert len(lines) == 1
    assert lines[0].startswith(f"npb: {tmp_path}/npb-btio-")
    assert list(tmp_path.iterdir()) == []


#: Prints mode and size of each file between the writes and the reads.
LOOKING = """
        found = [path.stat() for path in self._path.parent.iterdir()]
        print([(oct(each.st_mode), each.st_size) for each in found])
"""


@pytest.mark.parametrize(("way", "files"), [("epio", 2), ("simple", 1), ("full", 1)])
def test_files_are_private_and_hold_all_solutions(run_once, way, files, tmp_path):
    program = DAMAGING.format(damage=LOOKING.strip())
    done = run_once(2, "-c", program, *words(f"btio {way}", tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    whole = 12 * 12**3 * 5 * 8
    assert done.stdout.splitlines()[0] == str([("0o100600", whole // files)] * files)


@pytest.mark.parametrize("way", ["epio", "simple", "full"])
def test_folder_that_cannot_be_written_is_one_line(run_once, way, tmp_path):
    absent = tmp_path / "absent"
    runs = [(words(f"btio {way}", absent), None)]
    done = run_several(run_once, 2, *runs)
    assert done == [(2, "", f"npb: {absent}: No such file or directory\n")]


@pytest.mark.parametrize(
    ("option", "value", "owner"),
    [("--io", "full", "btio"), ("--folder", "x", "btio"), ("--graph", "SH", "dt")],
)
def test_option_of_another_benchmark_is_refused(run_once, option, value, owner):
    done = run_once(1, "-m", "benchmarks.npb", "ep", option, value)
    assert done.returncode == 2
    assert f"{option} is an option of {owner} alone" in done.stderr
