"""A domain of our own coupled with a Slurm: pairs start together in both."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest

from benchmarks.coupled_demo import PROGRAMS
from benchmarks.coupled_domains import SYSTEM_PYTHON, Wanted, coupled_domains
from cosched.linux.ports import free_ports

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
    words = ("/bin/sh", "-c", 'date +%s.%N; echo "$COSCHED_MATES"')
    numbers, texts = _run(folder, schemes, dict.fromkeys(ENGINES, words), (2, 2))
    begins = [float(lines[0]) for lines in texts]
    assert abs(begins[0] - begins[1]) < APART_S
    assert texts[0][1] == f"eureka={numbers[1]}@eureka1"
    assert texts[1][1] == f"intrepid={numbers[0]}@127.0.0.1"


@pytest.mark.long
def test_a_simulation_in_slurm_connects_to_its_analysis_in_a_domain(folder):
    port = str(free_ports(1))
    commands = {
        "intrepid": (SYSTEM_PYTHON, f"{PROGRAMS}/analysis.py", "127.0.0.1", port),
        "eureka": (sys.executable, f"{PROGRAMS}/simulation.py", port, "100"),
    }
    _, (analysis, _) = _run(folder, SCHEMES[2], commands, (3, 1))
    assert re.fullmatch(r"analysis began at \d+\.\d+", analysis[0])
    assert [line.split(":")[0] for line in analysis[1:]] == ["step 50", "step 100"]


def _run(folder, schemes, commands, counts):
    """Runs a pair; returns the jobs' numbers and the lines that they print. counts: how
    many lines the job of each domain prints."""
    with coupled_domains(folder, ENGINES, 1, schemes, SETTINGS) as domains:
        outputs = [folder / f"out.{domain.name}" for domain in domains]
        numbers = [
            domain.submit(Wanted(commands[domain.name], 1, 60, output, "g"))
            for domain, output in zip(domains, outputs, strict=True)
        ]
        return numbers, [
            _lines(output, count) for output, count in zip(outputs, counts, strict=True)
        ]


def _lines(path, count):
    end = time.monotonic() + WITHIN_S
    while True:
        lines = path.read_text().splitlines() if path.exists() else []
        if len(lines) == count:
            return lines
        assert time.monotonic() < end, f"{path} has {lines}"
        time.sleep(0.1)
