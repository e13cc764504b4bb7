"""Jobs that one resource of an emulated node limits, and their speeds beside each other.

The speeds are measured with the same program, on one node, before the streams run: so the
simulator gets the same machine as the live domain.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.kernels.emulated import EmulatedNode
from benchmarks.mpi import WITH_MARK, build
from cosched.core.errors import CoschedError
from cosched.core.symbiosis.resources import Limits, Resource
from cosched.launch.family import Mpi
from cosched.sim.symbiotic.matrix import Model, SpeedupMatrix

#: The programs, and what limits each; section 2.4 has benchmarks of the same classes.
KINDS: Mapping[str, Limits] = {
    "stream": frozenset({Resource.MEMORY}),
    "gups": frozenset({Resource.MEMORY}),
    "cpu": frozenset({Resource.CPU}),
    "io": frozenset({Resource.IO}),
}
#: A rank stands for the processes of half a node, and needs hardly any CPU time.
NODE = EmulatedNode(processors=2, stretch=1.0, seek_ms=0.25, access_ns=1.0, stream_mb_s=1e6)
#: The rounds a second of a rank that nothing slows.
FULL_RATE = 400.0
_SOURCE = Path(__file__).parents[2] / "kernels/c/limited.c"
#: How long a measured job and its neighbour may take beyond the measured time.
_PATIENCE_S = 30.0
#: Ranks of a job on whole nodes, on each node; and on halves.
WHOLE, HALF = 2, 1


def build_programs(mpi: Mpi, folder: Path) -> dict[str, Path]:
    """Returns a program for each kind, with its name: a domain knows programs by names."""
    made = build(_SOURCE, mpi, WITH_MARK)
    return {kind: Path(shutil.copy(made, folder / kind)) for kind in KINDS}


@contextmanager
def emulated_nodes(names: Sequence[str]) -> Iterator[Path]:
    """Makes the memories and disks of nodes; returns the folder with a file for each."""
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="cosched-nodes-"))
        )
        for name in names:
            (folder / name).symlink_to(stack.enter_context(NODE.made()))
        yield folder


def words_of(program: Path, seconds: float, rate: float, nodes: Path) -> list[str]:
    """Returns the command of a job that takes so long on whole nodes. rate: the rounds a
    second of its program there."""
    return [str(program), program.name, f"{seconds:.3f}", f"{rate:.3f}", str(nodes)]


class Speeds:
    """Measures how fast the programs are. seconds: the length of a measurement."""

    def __init__(self, mpi: Mpi, programs: Mapping[str, Path], seconds: float) -> None:
        self._mpi = mpi
        self._programs = programs
        self._seconds = seconds

    def measure(self) -> tuple[Model, dict[str, float]]:
        """Returns the speedups of the programs against whole nodes, and their rounds a
        second there."""
        whole = {kind: self._rate(kind, WHOLE) for kind in KINDS}
        rows = [
            tuple(
                1.0 if other == kind else self._rate(kind, HALF, other) / whole[kind]
                for other in KINDS
            )
            for kind in KINDS
        ]
        idle = [self._rate(kind, HALF) / whole[kind] for kind in KINDS]
        matrix = SpeedupMatrix(tuple(KINDS), tuple(rows), tuple(idle))
        return Model(matrix, tuple(KINDS.values())), whole

    def _rate(self, kind: str, ranks: int, beside: str | None = None) -> float:
        """Returns the rounds a second of a job on one node."""
        with emulated_nodes(["n"]) as nodes, ExitStack() as stack:
            if beside is not None:
                longer_s = self._seconds + _PATIENCE_S
                other = self._start(beside, HALF, longer_s, nodes)
                stack.callback(_end, other)
            job = self._start(kind, ranks, self._seconds, nodes)
            out, _ = job.communicate(timeout=self._seconds + _PATIENCE_S)
        words = out.split()
        if job.returncode != 0 or len(words) != 4:
            raise CoschedError(f"{kind}: its measurement failed (status {job.returncode})")
        return float(words[1]) / float(words[3])

    def _start(
        self, kind: str, ranks: int, seconds: float, nodes: Path
    ) -> subprocess.Popen[str]:
        command = words_of(self._programs[kind], seconds, FULL_RATE, nodes)
        return subprocess.Popen(
            [str(self._mpi.mpiexec), "-n", str(ranks), *command],
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "COSCHED_NODE": "n"},
        )


def _end(job: subprocess.Popen[str]) -> None:
    job.terminate()
    job.wait()
