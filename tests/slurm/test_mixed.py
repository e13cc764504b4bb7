"""A domain of our own coupled with a Slurm: pairs start together in both."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from benchmarks.coupling_domains import Wanted, coupled_domains
from benchmarks.experiment import INTERRUPTED

pytestmark = pytest.mark.live

ENGINES = {"intrepid": "native", "eureka": "slurm"}
SETTINGS = {
    "release": "10s",
    "release_wait": "2s",
    "again": "1s",
    "unknown": "1h",
    "when_down": "yield",
}
WITHIN_S = 60.0
ROOT = Path(__file__).parents[2]
BENCH = ("benchmarks.experiments.pairs", "--engines=native,slurm", "--schemes=HH")
#: How far apart the first words of two shells may be, on a busy machine.
APART_S = 2.0
SCHEMES = [("hold", "yield"), ("yield", "hold"), ("hold", "hold"), ("yield", "yield")]
LONG = [pytest.param(each, marks=pytest.mark.long) for each in SCHEMES[1:]]


@pytest.fixture
def folder():
    path = Path(tempfile.mkdtemp(prefix="cosched-slurms-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize("schemes", [SCHEMES[0], *LONG], ids="-".join)
def test_a_pair_starts_together_and_its_jobs_know_each_other(folder, schemes):
    with coupled_domains(folder, ENGINES, 1, schemes, SETTINGS) as domains:
        outputs = [folder / f"out.{domain.name}" for domain in domains]
        words = ("/bin/sh", "-c", 'date +%s.%N; echo "$COSCHED_MATES"')
        numbers = [
            domain.submit(Wanted(words, 1, 60, output, "g"))
            for domain, output in zip(domains, outputs, strict=True)
        ]
        texts = [_lines(output) for output in outputs]
    begins = [float(lines[0]) for lines in texts]
    assert abs(begins[0] - begins[1]) < APART_S
    assert texts[0][1] == f"eureka={numbers[1]}@eureka1"
    assert texts[1][1] == f"intrepid={numbers[0]}@127.0.0.1"


def _lines(path):
    end = time.monotonic() + WITHIN_S
    while True:
        lines = path.read_text().splitlines() if path.exists() else []
        if len(lines) == 2:
            return lines
        assert time.monotonic() < end, f"{path} has {lines}"
        time.sleep(0.1)


def test_a_bench_that_gets_sigterm_ends_both_clusters(folder):
    bench = subprocess.Popen(
        [sys.executable, "-m", *BENCH],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder)},
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + WITHIN_S
    try:
        while not list(folder.rglob("eureka.single.0")):  # a job of Slurm: both are up
            assert time.monotonic() < end
            time.sleep(0.1)
        assert {"slurmctld", "slurmd", "munged"} < _names_below(folder)
    finally:
        bench.send_signal(signal.SIGTERM)
        _, error = bench.communicate(timeout=WITHIN_S)
    assert bench.returncode == INTERRUPTED, error
    assert error == "pairs: interrupted\n"
    end = time.monotonic() + WITHIN_S
    while left := _names_below(folder):  # a process ends a moment after its lock is free
        assert time.monotonic() < end, left
        time.sleep(0.1)
    assert list(folder.iterdir()) == []


def _names_below(folder):
    """Returns the names of the processes that have this folder for temporary files."""
    names = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.environ().get("TMPDIR") == str(folder):
                names.add(process.name())
    return names
