"""BTIO and DT beside the node kernels: protocol, checks, and what they draw from a node."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from benchmarks.kernels.build import JOBS, build
from benchmarks.kernels.emulated import EmulatedNode
from benchmarks.kernels.kernel_processes import KernelSetup, Occupant, occupied
from benchmarks.kernels.matrix import rate_of
from benchmarks.npb.fluid.bt import PASSES
from cosched.core.errors import CoschedError

pytestmark = pytest.mark.mpi_job

SIZE = 1 << 20
CPUS = tuple(sorted(os.sched_getaffinity(0)))[:1]
SHORT = 0.02
#: Class S: lines of points of two ranks, whose cells are 6 points wide.
LINES = 2 * 12 * 12
#: Bytes that all ranks stream in a time step of class S.
STREAMED = 8 * PASSES * 12**3

if shutil.which("cc") is None or not (Path(sys.executable).parent / "mpiexec").exists():
    pytest.skip("no cc, or no mpiexec beside this Python", allow_module_level=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build([*JOBS, "gups"], tmp_path_factory.mktemp("built"), None)


def here(folder):
    return KernelSetup(CPUS, SIZE, folder)


@pytest.mark.parametrize("job", JOBS)
def test_job_works_beside_a_kernel_and_a_kernel_beside_it(job, built, tmp_path):
    with occupied("gups", built, here(tmp_path)):
        assert rate_of(job, built, here(tmp_path), SHORT) > 0.0
    with occupied(job, built, here(tmp_path)):
        assert rate_of("gups", built, here(tmp_path), SHORT) > 0.0
    assert list(tmp_path.iterdir()) == []
    assert psutil.Process().children() == []


#: Damages a file, or changes a published value, and runs the job.
DAMAGED = """
from benchmarks.npb.fluid.solution_file import SolutionFile
reopen = SolutionFile.reopen
def damage(self):
    reopen(self)
    with self._path.open("r+b") as file:
        file.seek(8 * 1001)
        file.write(bytes(8))
SolutionFile.reopen = damage
"""
WRONG_ERROR = """
from benchmarks.npb import classes
from dataclasses import replace
size = classes.BTIO["S"]
classes.BTIO["S"] = replace(size, error=(*size.error[:4], size.error[4] * (1 + 1e-6)))
"""
WRONG_CHECKSUM = """
from benchmarks.npb import classes
classes.DT["W"].checksums["SH"] += 1.0
"""
THEN = """
import sys
from benchmarks.kernels.nas import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("job", "program", "fault"),
    [
        ("btio-e", DAMAGED, "solution 0 is not what was written"),
        ("btio-s", DAMAGED, "solution 0 is not what was written"),
        ("btio-f", DAMAGED, "solution 0 is not what was written"),
        ("btio-f", WRONG_ERROR, "error of equation 5 is 26.527953"),
        ("dt", WRONG_CHECKSUM, "checksum is 186944764, not 186944765"),
    ],
)
def test_wrong_result_is_detected(job, program, fault, built, tmp_path):
    words = ("env", "OPENBLAS_NUM_THREADS=1", sys.executable, "-c", program + THEN, job)
    wrong = replace(built, commands={**built.commands, job: words})
    # Long enough for the 60 steps whose error is published.
    with pytest.raises(CoschedError, match=f"{job}: verification failed: {fault}"):
        rate_of(job, wrong, here(tmp_path), 2.0)
    assert list(tmp_path.iterdir()) == []


def test_published_values_are_reached(built, tmp_path):
    """The wrong value above was found, so the job made its 60 steps; this one is right."""
    assert rate_of("btio-f", built, here(tmp_path), 2.0) > 60 / 2.0


def test_absent_folder_is_one_line(built, tmp_path):
    absent = tmp_path / "absent"
    for job in JOBS:
        with pytest.raises(CoschedError, match=rf"^{absent}: No such file or directory$"):
            rate_of(job, built, here(absent), SHORT)


def test_job_with_another_mpi_is_refused(built, tmp_path):
    """As if mpiexec had started two ranks for a Python that knows nothing of it."""
    words = ("env", "-u", "PMI_RANK", "-u", "PMI_FD", *built.commands["dt"])
    apart = replace(built, commands={"dt": words})
    pair = replace(here(tmp_path), cpus=CPUS * 2)
    with pytest.raises(CoschedError, match="dt: the MPI of this Python is not that of mpi"):
        rate_of("dt", apart, pair, SHORT)


def emulated_rate(built, folder, node, job, ranks, seconds=0.3):
    """Returns the rate of a job alone on an emulated node."""
    with node.made() as shared, ExitStack() as stack:
        setup = KernelSetup(tuple(range(ranks)), SIZE, folder, shared)
        occupant = Occupant(job, built, setup, seconds, stack)
        occupant.go()
        return occupant.rate()


def test_steps_of_bt_stream_through_the_emulated_bus(built, tmp_path):
    node = EmulatedNode(bus_mb_s=20.0, stream_mb_s=20.0)
    for ranks in (1, 2):
        found = emulated_rate(built, tmp_path, node, "btio-f", ranks)
        assert found <= 20e6 / STREAMED * 1.05


def test_data_of_dt_stream_through_the_emulated_bus(built, tmp_path):
    node = EmulatedNode(bus_mb_s=100.0, stream_mb_s=100.0)
    # Each feature is made, and read or passed on, at least.
    assert emulated_rate(built, tmp_path, node, "dt", 2) <= 100e6 / 2 * 1.05


def test_processor_of_the_emulated_node_is_slow(built, tmp_path):
    usual = EmulatedNode(stretch=1.0, bus_mb_s=1e5, stream_mb_s=1e5)
    slow = replace(usual, stretch=100.0)
    rates = [emulated_rate(built, tmp_path, one, "btio-f", 1) for one in (usual, slow)]
    assert rates[1] < rates[0] / 5


def test_small_writes_of_several_ranks_pay_a_seek_each(built, tmp_path):
    node = EmulatedNode(stretch=1.0, bus_mb_s=1e5, stream_mb_s=1e5, seek_ms=5.0)
    # The two ranks take turns, but after a late wake-up.
    assert emulated_rate(built, tmp_path, node, "btio-s", 2) <= 5 / (LINES * 0.005) * 2
    # One rank alone is always the process that was served last.
    assert emulated_rate(built, tmp_path, node, "btio-s", 1) > 5 / (LINES / 2 * 0.005) * 2


def test_own_files_pay_a_seek_and_a_collective_write_none(built, tmp_path):
    node = EmulatedNode(stretch=1.0, bus_mb_s=1e5, stream_mb_s=1e5, seek_ms=400.0)
    # The rank that was served last may come first again: one seek a solution is certain.
    one_seek = 5 / 0.4 * 1.1
    assert emulated_rate(built, tmp_path, node, "btio-e", 2, 2.0) <= one_seek
    assert emulated_rate(built, tmp_path, node, "btio-f", 2, 2.0) > one_seek
