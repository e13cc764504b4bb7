"""``python -m benchmarks.kernels.nas NAME SECONDS SIZE_BYTES FOLDER`` under mpiexec: a NAS
benchmark that speaks the protocol of the node kernels (``c/kernel.h``).

NAME is btio-e, btio-s, btio-f (BTIO epio, simple, full) or dt. SIZE_BYTES is ignored: the
benchmark's class says how much data it has. The benchmark goes on until it is stopped. A
result is checked as far as NASA published it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.npb.kernels import Kernels, compiled, load
from cosched.core.errors import CoschedError

SOURCES = Path(__file__).parent / "c"
#: The C files that each job needs.
NPB_KERNELS = {"btio-e": "bt", "btio-s": "bt", "btio-f": "bt", "dt": "dt"}


def main() -> int:
    """Runs the job of the command line. The exit status."""
    name, seconds, _, folder = sys.argv[1:]
    try:
        # Before MPI starts: some libraries do not like a process that forks later.
        kernels, node = load_all(name)
        from benchmarks.kernels.nas_jobs import run

        return run(name, float(seconds), Path(folder), kernels, node)
    except CoschedError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1


def load_all(name: str) -> tuple[Kernels, Kernels]:
    """Returns the kernels of a job's benchmark, and the calls of the emulated node. Raises
    CoschedError."""
    return load(NPB_KERNELS[name]), compiled("_kernel_job", SOURCES, ("job",))


if __name__ == "__main__":
    sys.exit(main())
