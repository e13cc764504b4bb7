"""Runs jobs on a lab of two nodes, for the pictures of the docs. Needs root, two CPUs, an
MPI beside this Python, and that no other lab uses them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.commands import output_of

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "docs/figures"
BIN = Path(sys.executable).parent


def lab_commands(folder: Path) -> tuple[Path, Mapping[str, str], Callable[..., None]]:
    """Builds the wavefront in a folder. Returns the program, the environment of a lab in
    ``folder/run``, and a function that runs a command of cosched with it."""
    program, run_dir = folder / "wavefront", folder / "run"
    source = ROOT / "benchmarks/programs/wavefront.c"
    output_of([str(BIN / "mpicc"), "-O2", "-o", str(program), str(source), "-lm"], "mpicc")
    environ = {**os.environ, "COSCHED_RUN_DIR": str(run_dir)}

    def cosched(*words: str) -> None:
        output_of([str(BIN / "cosched"), *words], f"cosched {words[0]}", environ)

    return program, environ, cosched


@contextmanager
def busy_lab(
    folder: Path, settings: Sequence[str], jobs: Sequence[str], preset: str
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Starts a lab in ``folder/run``, and wavefronts with these names on both nodes; ends
    all at the end of the block. settings: for ``cosched config set``."""
    program, environ, cosched = lab_commands(folder)
    cosched("lab", "up", "--nodes", "2")
    running: list[subprocess.Popen[bytes]] = []
    try:
        cosched("config", "set", *settings)
        start: list[str | Path] = [BIN / "cosched-run", "--hosts", "lab1,lab2", "-n", "2"]
        for job in jobs:
            words = [*start, "--job", job, program, "--preset", preset]
            # Launchers complain at length when their jobs are ended below.
            silent = subprocess.DEVNULL
            process = subprocess.Popen(words, env=environ, stdout=silent, stderr=silent)
            running.append(process)
        yield running
    finally:
        for process in running:
            process.terminate()
            process.wait()
        cosched("lab", "down")
