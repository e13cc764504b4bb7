"""The benchmark programs check their own answers, with every MPI and number of ranks."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cosched.bench.workload.build import FLAGS, build_program
from tests.places import ROOT

PROGRAMS = ROOT / "benchmarks" / "programs"
RANKS = (1, 2, 3, 4)

pytestmark = pytest.mark.mpi_job


def installations():
    """The folders beside this Python's environment that hold an mpicc."""
    here = Path(sys.executable).parent
    others = sorted(ROOT.glob(".venv*/bin"))
    found = [bin for bin in dict.fromkeys((here, *others)) if (bin / "mpicc").exists()]
    return [pytest.param(bin, id=bin.parent.name.lstrip(".")) for bin in found]


INSTALLATIONS = installations() or [
    pytest.param(None, marks=pytest.mark.skip("no mpicc beside this Python"))
]


class Mpi:
    """Builds and runs programs with one MPI."""

    def __init__(self, folder, cache):
        self.mpicc, self.mpiexec = folder / "mpicc", folder / "mpiexec"
        self.cache = cache

    def run(self, program, ranks, *args):
        source = PROGRAMS / f"{program}.c"
        built = build_program(source, self.mpicc, os.environ, self.cache)
        return subprocess.run(
            [self.mpiexec, "-n", str(ranks), built, *args],
            env={
                **os.environ,
                "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture(scope="module")
def cache(session_folder):
    return session_folder / "programs"


@pytest.fixture(scope="module", params=INSTALLATIONS)
def mpi(request, cache):
    return Mpi(request.param, cache)


@pytest.fixture(scope="module", params=INSTALLATIONS[:1])
def any_mpi(request, cache):
    """The first MPI, for what the program does without one."""
    return Mpi(request.param, cache)


def field(line, name):
    return re.search(rf" {name} (\S+)", line)[1]


@pytest.mark.parametrize("program", ["wavefront", "compute", "bulk"])
def test_programs_compile_without_warnings(mpi, program, tmp_path):
    strict = ("-Wpedantic", "-Wshadow", "-Wstrict-prototypes", "-Werror")
    source = PROGRAMS / f"{program}.c"
    done = subprocess.run(
        [mpi.mpicc, *FLAGS, *strict, "-c", source, "-o", tmp_path / "object"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_wavefront_gives_the_same_bits_on_any_number_of_ranks(mpi):
    """Far from converged, so that every step of every sweep shows in the bits."""
    sums = set()
    for ranks in RANKS:
        done = mpi.run("wavefront", ranks, "-g", "13", "-i", "4")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.count("\n") == 1
        assert done.stdout.endswith("verification: success\n")
        sums.add(field(done.stdout, "checksum"))
    assert len(sums) == 1


@pytest.mark.one_mpi
def test_wavefront_counts_its_messages(mpi):
    """Two ranks: one a plane and sweep, and one face every 25 iterations and at the end."""
    done = mpi.run("wavefront", 2, "-g", "16", "-i", "30")
    edge, face = 16 * 8 * 8, 16 * 16 * 8 * 8
    assert int(field(done.stdout, "messages")) == 2 * 30 * 16 + 2
    assert int(field(done.stdout, "bytes")) == 2 * 30 * 16 * edge + 2 * face


@pytest.mark.one_mpi
def test_wavefront_converges_to_rounding(mpi):
    done = mpi.run("wavefront", 2, "-g", "10", "-i", "200")
    assert float(field(done.stdout, "error")) < 1e-12
    assert float(field(done.stdout, "residual")) < 1e-12


@pytest.mark.one_mpi
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_compute_reproduces_the_published_sums(mpi, ranks):
    done = mpi.run("compute", ranks, "--preset", "tiny")
    assert (done.returncode, done.stderr) == (0, "")
    assert " gaussians 13176389 " in done.stdout
    assert done.stdout.endswith("verification: success\n")


@pytest.mark.one_mpi
@pytest.mark.parametrize(
    ("ranks", "work"), [(1, "1000"), (2, "99999"), (3, "1000"), (4, "1"), (4, "99999")]
)
def test_bulk_result_equals_its_formula(mpi, ranks, work):
    done = mpi.run("bulk", ranks, "--steps", "37", "--work", work)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("verification: success\n")


@pytest.mark.parametrize(
    ("program", "args"),
    [
        ("wavefront", ("-g", "16", "-i", "90")),
        ("compute", ("--preset", "tiny")),
        ("bulk", ("--steps", "20", "--work", "10000")),
    ],
)
@pytest.mark.parametrize("ranks", [1, 2])
def test_wrong_answer_fails(any_mpi, program, args, ranks):
    done = any_mpi.run(program, ranks, *args, "--inject-error")
    assert done.returncode == 1
    assert "verification: failure\n" in done.stdout


@pytest.mark.parametrize(
    ("program", "args", "message"),
    [
        ("wavefront", ("-g", "0"), "wavefront: '-g' is no option, or its value is"),
        ("wavefront", ("-i",), "wavefront: '-i' is no option, or its value is"),
        ("wavefront", ("--fast",), "wavefront: '--fast' is no option, or"),
        ("wavefront", ("-g", "1"), "wavefront: a grid of 1 cannot be split over 2x1 ranks"),
        ("compute", ("--preset", "x"), "compute: '--preset' is no option, or its value"),
        ("bulk", ("--steps", "0", "--work", "1"), "usage: bulk --steps N --work K"),
        ("bulk", ("--steps", "9", "--work"), "usage: bulk --steps N --work K"),
        ("bulk", ("--steps", "9k", "--work", "1"), "usage: bulk --steps N --work K"),
    ],
)
def test_wrong_usage_gets_one_line(any_mpi, program, args, message):
    done = any_mpi.run(program, 2, *args)
    assert done.returncode == 2
    assert done.stdout.count("verification") == 0
    assert message in done.stderr
