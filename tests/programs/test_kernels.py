"""The node kernels check their own results, alone and beside each other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from benchmarks.kernels.__main__ import parse_halves
from benchmarks.kernels.build import KERNELS, NETWORK, SOURCES, build
from benchmarks.kernels.emulated import EmulatedNode
from benchmarks.kernels.kernel_processes import KernelSetup, Occupant, occupied
from benchmarks.kernels.matrix import model_of
from cosched.core.errors import CoschedError
from cosched.sim.symbiotic.matrix import parse_model
from tests.places import ROOT

pytestmark = pytest.mark.mpi_job

SIZE = 1 << 20
CPUS = tuple(sorted(os.sched_getaffinity(0)))[:1]
SHORT = 0.02

if shutil.which("cc") is None or not (Path(sys.executable).parent / "mpicc").exists():
    pytest.skip("no cc, or no mpicc beside this Python", allow_module_level=True)


def kernels(*words, cwd=ROOT):
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.kernels", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(list(KERNELS), tmp_path_factory.mktemp("built"), None)


def place(folder):
    return KernelSetup(CPUS, SIZE, folder)


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel_works_beside_another_one(kernel, built, tmp_path):
    other = "cpu" if kernel == NETWORK else "gups"
    with occupied(other, built, place(tmp_path)), ExitStack() as stack:
        occupant = Occupant(kernel, built, place(tmp_path), SHORT, stack)
        occupant.go()
        assert occupant.rate() > 0.0
    assert list(tmp_path.iterdir()) == []
    assert psutil.Process().children() == []


@pytest.mark.parametrize(
    ("kernel", "old", "new"),
    [
        ("cpu", "823573", "823574"),
        ("stream", "b[i] = SCALE * c[i]", "b[i] = (i == 99 ? 0.0 : SCALE) * c[i]"),
        ("gups", "] ^= random_now", "] ^= random_now + (rounds == 1)"),
        ("io", "written[place] = stamp", "written[place] = stamp + (place == 3)"),
        (NETWORK, "check(in, size, which + 1)", "check(in, size, which)"),
    ],
)
def test_wrong_result_is_detected(kernel, old, new, tmp_path):
    for header in ("kernel.h", "node.h"):
        shutil.copy(SOURCES / header, tmp_path)
    text = (SOURCES / f"{kernel}.c").read_text()
    assert text.count(old) == 1
    (tmp_path / f"{kernel}.c").write_text(text.replace(old, new))
    wrong = build([kernel], tmp_path, None, tmp_path)
    with ExitStack() as stack:
        occupant = Occupant(kernel, wrong, place(tmp_path), 3 * SHORT, stack)
        occupant.go()
        with pytest.raises(CoschedError, match=f"{kernel}: verification failed"):
            occupant.rate()


def test_cpu_kernel_counts_its_work():
    """By integers alone: the kernel's coordinates are multiples of 2^-31."""
    state, inside = 271828183, 0
    for _ in range(1 << 20):
        squares = 0
        for _ in "xy":
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            squares += ((state >> 32) - 2**31) ** 2
        inside += squares <= 2**62
    assert f"= {inside};" in (SOURCES / "cpu.c").read_text()


def test_fault_of_one_kernel_ends_all(built, tmp_path):
    with (
        pytest.raises(CoschedError, match="io: no file can be made in --folder"),
        occupied("gups", built, place(tmp_path)),
        occupied("io", built, place(tmp_path / "absent")),
    ):
        pytest.fail("the kernel has no folder and cannot run")
    assert psutil.Process().children() == []


def test_matrix_is_read_by_the_simulator(tmp_path):
    words = ["--kernels", "cpu,stream,gups", "--seconds", SHORT, "--size", 1]
    words += ["--repeat", 2, "--halves", f"{CPUS[0]}/{sorted(os.sched_getaffinity(0))[-1]}"]
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU has no halves")
    result = kernels("matrix", *words, "--json", "mine.json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    document = json.loads((tmp_path / "mine.json").read_text())
    model = parse_model(document, "mine.json")
    assert model.matrix.names == ("cpu", "stream", "gups")
    assert all(model.matrix.speedup(name, name) == 1.0 for name in model.matrix.names)
    assert [len(cell["rates"]) for cell in document["rates"]] == [2] * 12
    simulate = [sys.executable, "-m", "cosched.cli.main", "sim", "symbiosis"]
    for part in ("pairs", "stream"):
        done = subprocess.run(
            [*simulate, part, "--model", "mine.json"],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr


def test_figures_and_tables_of_symbiosis_and_no_number_twice(tmp_path):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU is not shared")
    command = [sys.executable, "-m", "benchmarks.experiments.symbiosis", "fig4", "table1"]
    command += ["table2", "--kernels", "cpu", "gups", "--seconds", str(SHORT)]
    command += ["--repeat", "1", "--size", "1", "--out", str(tmp_path / "out")]
    said = []
    for _ in range(2):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=240, check=False, cwd=ROOT
        )
        assert done.returncode == 0, done.stderr
        said.append((done.stdout, (tmp_path / "out/symbiosis_samples.jsonl").read_text()))
    assert said[0] == said[1]
    assert max(len(line) for line in said[0][0].splitlines()) <= 80
    assert "slowdown of GUPS, by instances" in said[0][0]
    for part in ("fig4", "table1", "table2"):
        document = json.loads((tmp_path / f"out/symbiosis_{part}.json").read_text())
        assert 0.0 <= document["quiet"]["outside_median"] <= 1.0
        assert (tmp_path / f"out/symbiosis_{part}.png").exists()
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {
        ".json", ".jsonl", ".png", ".svg", ".txt",
    }  # fmt: skip


def test_speedups_from_rates():
    rates = {("cpu", "cpu"): [2.0, 9.0, 2.0], ("cpu", "io"): [3.0], ("cpu", None): [4.0]}
    rates |= {("io", "io"): [10.0], ("io", "cpu"): [5.0], ("io", None): [20.0]}
    model = model_of(rates, ["cpu", "io"])
    assert model.matrix.rows == ((1.0, 1.5), (0.5, 1.0))
    assert model.matrix.idle == (2.0, 2.0)
    assert model.limits == (KERNELS["cpu"], KERNELS["io"])


def test_halves():
    assert parse_halves(None, {4, 1, 2, 0, 9}) == ((0, 1), (2, 4))
    assert parse_halves("0,2/1,3", {0, 1, 2, 3}) == ((0, 2), (1, 3))
    assert parse_halves("0-1/2-3", {0, 1, 2, 3}) == ((0, 1), (2, 3))
    for text, words in (
        ("0-1", "want two of equal size"),
        ("0/0", "want two of equal size"),
        ("0/1-2", "want two of equal size"),
        ("0/7", "CPU 7 is not one we may use"),
        ("a/b", "write CPUs like"),
        ("1-0/2", "each half wants CPUs"),
        ("0,0/1,2", "each once"),
    ):
        with pytest.raises(CoschedError, match=words):
            parse_halves(text, {0, 1, 2, 3})
    with pytest.raises(CoschedError, match="one CPU has no halves"):
        parse_halves(None, {0})


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["matrix", "--kernels", "cpu,disk"], "'disk' is none of cpu, stream"),
        (["matrix", "--json", "absent/x.json"], "its folder cannot be written to"),
        (["run", "network", "--mpi", "/absent/mpiexec"], "/absent/mpiexec"),
    ],
)
def test_bad_input_gets_one_line_and_a_status(words, says, tmp_path):
    result = kernels(*words, cwd=tmp_path)
    assert result.returncode == 1
    assert result.stdout == ""
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_help_shows_examples(tmp_path):
    result = kernels("--help", cwd=tmp_path)
    assert result.returncode == 0
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    assert "examples:" in result.stdout


def emulated_rates(built, folder, node, kernel, count):
    """Returns the rate of all kernels on an emulated node together."""
    with node.made() as shared, ExitStack() as stack:
        setup = KernelSetup(tuple(range(count)), 3 * SIZE, folder, shared)
        occupant = Occupant(kernel, built, setup, 0.3, stack)
        occupant.go()
        return occupant.rate()


def test_stream_is_no_faster_than_the_emulated_bus(built, tmp_path):
    node = EmulatedNode(bus_mb_s=100.0, stream_mb_s=80.0)
    assert emulated_rates(built, tmp_path, node, "stream", 1) <= 80e6 * 1.05
    assert emulated_rates(built, tmp_path, node, "stream", 3) <= 100e6 * 1.25


def test_random_accesses_are_no_more_than_the_emulated_banks_take(built, tmp_path):
    node = EmulatedNode(bank_m_s=4.0, access_ns=500.0)
    assert emulated_rates(built, tmp_path, node, "gups", 1) <= 2e6 * 1.05
    assert emulated_rates(built, tmp_path, node, "gups", 3) <= 4e6 * 1.25


def test_disk_loses_a_seek_whenever_it_serves_another_process(built, tmp_path):
    node = EmulatedNode(disk_mb_s=100.0, seek_ms=10.0)
    assert emulated_rates(built, tmp_path, node, "io", 1) <= 100e6 * 1.05
    each_s = SIZE / 100e6 + 0.010
    # The first round of each may find the disk at the same process.
    assert emulated_rates(built, tmp_path, node, "io", 2) <= SIZE / each_s * 1.25


def test_kernel_refuses_a_file_that_is_no_emulated_node(built, tmp_path):
    wrong = tmp_path / "wrong"
    wrong.write_bytes(bytes(4096))
    setup = KernelSetup(CPUS, SIZE, tmp_path, wrong)
    with ExitStack() as stack, pytest.raises(CoschedError, match="KERNEL_NODE names no"):
        Occupant("stream", built, setup, SHORT, stack)
