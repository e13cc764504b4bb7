"""MPI programs that other people wrote: how each is run, and what of its output must be the
same in every run. Each must also say itself that its results are right, where it can."""

from __future__ import annotations

import gzip
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

INPUTS = Path(__file__).parent / "inputs"
HPCC_INPUT = Path("/usr/share/doc/hpcc/examples/_hpccinf.txt")
RAY_READS = Path("/usr/share/doc/ray/test_data")
SCALAPACK_DATA = Path("/usr/share/scalapack")
SCALAPACK = next(Path("/usr/lib").glob("*/scalapack"), Path("/usr/lib/scalapack"))
MUMPS = Path("/usr/lib/mumps/dsimpletest")
#: Beside ranks, threads would add up in an order of their own.
ENVIRON = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def _nothing(_: Path) -> None:
    """Needs no files."""


@dataclass(frozen=True)
class Foreign:
    """``needs``: files of Debian's ``package``, or with ``module`` of a Python package.

    ``prepare`` fills the working directory. ``result`` takes what the program printed and
    its working directory; it raises AssertionError if the program found itself wrong.
    ``blocks``: whether it ever waits in a call of MPI. ``leftovers``: how many messages it
    leaves behind at most. ``short``: it ends within a second or two.
    """

    name: str
    package: str
    argv: tuple[str, ...]
    result: Callable[[str, Path], list[str]]
    needs: tuple[Path, ...] = ()
    module: str = ""
    prepare: Callable[[Path], None] = _nothing
    stdin: str = ""
    environ: dict[str, str] = field(default_factory=lambda: dict(ENVIRON))
    blocks: bool = True
    leftovers: int = 0
    short: bool = False

    def missing(self) -> str:
        """Why it cannot run here; empty if it can."""
        if self.module:
            from importlib.util import find_spec

            found = find_spec(self.module) is not None
            return "" if found else f"no {self.module}: pip install {self.package}"
        if shutil.which(self.argv[0]) is None:
            return f"{self.argv[0]} is not installed: apt-get install {self.package}"
        absent = [str(path) for path in self.needs if not path.exists()]
        return f"of {self.package}, {' '.join(absent)} is missing" if absent else ""


def _between(text: str, first: str, last: str) -> list[str]:
    """The lines from the one that starts with ``first`` to before ``last``."""
    lines = text.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.strip().startswith(first))
    end = next(i for i in range(begin, len(lines)) if lines[i].startswith(last))
    return lines[begin:end]


# LAMMPS, molecular dynamics in C++: Sendrecv, Irecv and Send of ghost atoms, Allreduce.


def _lammps_result(output: str, folder: Path) -> list[str]:
    thermodynamics = _between(output, "Step", "Loop time")
    assert len(thermodynamics) > 10
    balance = ("Nlocal:", "Nghost:", "Neighs:", "Total #")
    counts = [line for line in output.splitlines() if line.startswith(balance)]
    return [*thermodynamics, *counts, *(folder / "atoms.txt").read_text().splitlines()]


def lammps(size: int, steps: int) -> Foreign:
    """A melting crystal of 4 * ``size``**3 atoms."""
    variables = ("-var", "size", str(size), "-var", "steps", str(steps))
    return Foreign(
        name="lammps",
        package="lammps",
        argv=("lmp", "-log", "none", *variables),
        stdin=(INPUTS / "melt.in").read_text(),
        result=_lammps_result,
        short=True,
    )


# HPC Challenge in C: HPL, PTRANS, RandomAccess, FFT, bandwidths; collectives and all.


def _hpcc_prepare(folder: Path) -> None:
    text = HPCC_INPUT.read_text()
    for name, value in (("Ns", 200), ("Ps", 2), ("Qs", 1)):
        text, found = re.subn(rf"^\S+(\s+{name})$", rf"{value}\1", text, flags=re.M)
        assert found == 1
    (folder / "hpccinf.txt").write_text(text)


def _hpcc_result(_: str, folder: Path) -> list[str]:
    lines = (folder / "hpccoutf.txt").read_text().splitlines()
    assert "Success=1" in lines
    assert not [line for line in lines if "FAILED" in line]
    verdicts = re.compile(
        r"Found \d+ errors|Node\(s\) with error|tests? completed and (passed|failed)"
        r"|^Solution Validates|(Errors|failed|Failures)\w*="
    )
    found = [line for line in lines if verdicts.search(line)]
    wrong = re.compile(r"Found [1-9]|with error [1-9]|[1-9]\d* tests? completed and failed")
    assert not [line for line in found if wrong.search(line)]
    # PTRANS adds a line of CPU time wherever that time is not 0, so those do not count. Its
    # residual in the summary is 0 or 1 by chance where ranks have no part in its grid.
    passed = sum("PASSED" in line and not line.startswith("CPU") for line in lines)
    assert len(found) > 20
    assert passed > 2
    return [*found, f"{passed} passed"]


HPCC = Foreign(
    name="hpcc",
    package="hpcc",
    needs=(HPCC_INPUT,),
    argv=("hpcc",),
    prepare=_hpcc_prepare,
    result=_hpcc_result,
    short=True,
)


# NetPIPE in C: two ranks exchange messages of many sizes and look at each byte.


def _netpipe_result(output: str, _: Path) -> list[str]:
    # The other rank says this at any time, in the midst of a line, too.
    lines = output.replace("Using synchronous sends\n", "").splitlines()
    sizes = [line for line in lines if re.match(r"\s*\d+:\s+\d+ bytes", line)]
    assert len(sizes) > 30
    assert all(line.endswith("Integrity check passed") for line in sizes)
    return sizes


def netpipe(flavour: str, name: str, *words: str) -> Foreign:
    """``flavour``: mpich2 or openmpi; ``words``: how it sends and receives."""
    return Foreign(
        name=f"netpipe-{flavour}-{name}",
        package=f"netpipe-{flavour}",
        argv=(f"NP{flavour}", "-i", "-u", "1048579", "-n", "20", *words, "-o", "/dev/null"),
        result=_netpipe_result,
        short=not words,
    )


# ScaLAPACK's own tests in Fortran over BLACS, which is C.


def _scalapack_prepare(folder: Path, data: str) -> None:
    """Its input with the two grids of two ranks; on a grid of one there are no messages."""
    text = (SCALAPACK_DATA / data).read_text()
    for name, values in (
        ("number of process grids", "2"),
        ("values of P", "1 2"),
        ("values of Q", "2 1"),
    ):
        text, found = re.subn(rf"^[\d ]+(\s+{name})", rf"{values}\1", text, flags=re.M)
        assert found == 1
    (folder / data).write_text(text)


def _scalapack_result(output: str, _: Path) -> list[str]:
    assert "FAILED" not in output
    lines = output.splitlines()
    checks = [line for line in lines if line.startswith("WALL")]
    assert len(checks) > 30
    assert all(line.endswith("PASSED") for line in checks)
    sums = [line for line in lines if "tests completed and" in line]
    passed, failed = (int(line.split()[0]) for line in sums)
    assert passed >= len(checks)
    assert failed == 0
    # All but the first numbers with a point, which are times and a speed.
    return [re.sub(r"\s+\d+\.\d+", "", line, count=3) for line in checks]


def scalapack(flavour: str, name: str) -> Foreign:
    """``flavour``: mpich or openmpi. ``name``: the test's and its input file's."""
    program = SCALAPACK / f"{flavour}-tests" / f"xd{name.lower()}"
    data = f"{name}.dat"
    return Foreign(
        name=f"scalapack-{flavour}-{name.lower()}",
        package="scalapack-mpi-test",
        needs=(SCALAPACK_DATA / data,),
        argv=(str(program),),
        prepare=lambda folder: _scalapack_prepare(folder, data),
        result=_scalapack_result,
    )


# MUMPS, a sparse direct solver in Fortran: Isend and Iprobe of packed data at any time.


def _laplace(edge: int) -> str:
    """MUMPS' input for a five-point stencil whose solution is 1, 2, 3, ..."""
    entries = {}
    for row in range(edge):
        for column in range(edge):
            here = row * edge + column
            entries[here, here] = 4.5
            if column:
                entries[here, here - 1] = entries[here - 1, here] = -1.0
            if row:
                entries[here, here - edge] = entries[here - edge, here] = -1.0
    right = [0.0] * edge**2
    for (row, column), value in entries.items():
        right[row] += value * (column + 1)
    lines = [f"{edge**2} :N", f"{len(entries)} :NZ"]
    lines += [f"{row + 1} {column + 1} {value}" for (row, column), value in entries.items()]
    return "\n".join([*lines, *map(str, right)]) + "\n"


def _mumps_result(output: str, _: Path) -> list[str]:
    line = next(line for line in output.splitlines() if "Solution is" in line)
    found = [float(word) for word in line.split()[2:]]
    assert len(found) > 1000
    # It sums up in the order in which messages happen to arrive.
    assert all(abs(x - i) < 1e-9 * i for i, x in enumerate(found, start=1))
    return re.findall(r"^ INFOG\(1\).*", output, re.M)


# Ray, which assembles genomes, in C++: it never blocks, but probes all the time.


def _ray_prepare(folder: Path) -> None:
    for part in ("1", "2"):
        with gzip.open(RAY_READS / f"ecoli_1K_{part}.fq.gz", "rt") as reads:
            lines = [next(reads) for _ in range(1200)]
        (folder / f"{part}.fq").write_text("".join(lines))


def _ray_result(_: str, folder: Path) -> list[str]:
    contigs = (folder / "out" / "Contigs.fasta").read_text().splitlines()
    assert len("".join(contigs[1:])) > 500
    files = ("Scaffolds.fasta", "CoverageDistribution.txt", "degreeDistribution.txt")
    return [*contigs, *((folder / "out" / name).read_text() for name in files)]


def _printed(output: str, _: Path) -> list[str]:
    lines = output.splitlines()
    assert len(lines) > 50
    return lines


SMALL_LAMMPS = lammps(6, 300)

PROGRAMS = (
    SMALL_LAMMPS,
    HPCC,
    *(
        netpipe(flavour, name, *words)
        for flavour in ("mpich2", "openmpi")
        for name, words in (
            ("plain", ()),
            ("preposted", ("-a", "-2")),
            ("synchronous", ("-S", "-O", "1,3")),
        )
    ),
    *(
        scalapack(flavour, name)
        for flavour in ("mpich", "openmpi")
        for name in ("LU", "LS", "INV")
    ),
    Foreign(
        name="mumps",
        package="mumps-test",
        argv=(str(MUMPS),),
        stdin=_laplace(40),
        result=_mumps_result,
    ),
    Foreign(
        name="ray",
        package="ray",
        needs=(RAY_READS / "ecoli_1K_1.fq.gz",),
        argv=("Ray", "-k", "31", "-p", "1.fq", "2.fq", "-o", "out"),
        prepare=_ray_prepare,
        result=_ray_result,
        blocks=False,
        leftovers=2,  # to a rank that has stopped to look, depending on who stops first
    ),
    Foreign(
        name="pylops-mpi",
        package="pylops-mpi",
        module="pylops_mpi",
        argv=(sys.executable, str(INPUTS / "least_squares.py")),
        result=_printed,
    ),
)
