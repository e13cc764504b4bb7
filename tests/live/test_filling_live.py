"""The waits of a real job, which another one fills: in why, status, top and history."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess

import pytest

from cosched.lab import life
from tests.live.conftest import eventually
from tests.live.test_docs_live import BIN
from tests.live.test_observe_live import cosched
from tests.places import ROOT

pytestmark = [
    pytest.mark.live,
    pytest.mark.mpi_job,
    pytest.mark.skipif(not shutil.which("nsenter"), reason="a lab needs util-linux"),
    pytest.mark.skipif(
        not (BIN / "mpicc").exists(), reason=f"no mpicc: {BIN / 'mpicc'} is missing"
    ),
]
#: The waiting job keeps its CPUs for this time.
SLICE = "1000s"
#: One message in 3 ms, for half a minute: longer than the looks at the job take. The job
#: ends by itself, because a killed one leaves files of MPICH in /dev/shm.
GAP_US, COUNT = "3000", "10000"


@pytest.fixture
def start(tmp_path, run_dir, lab_size):
    """Starts a job of the program waits on nodes of a lab."""
    program, run = tmp_path / "waits", run_dir / "r"
    source = ROOT / "benchmarks/programs/waits.c"
    subprocess.run([BIN / "mpicc", "-O2", "-o", program, source], check=True)
    lab_size.up(run)
    begun = []

    def start(name, hosts, *words):
        spread = ("--hosts", ",".join(hosts), "-n", str(len(hosts)), "--job", name)
        process = subprocess.Popen(
            [BIN / "cosched-run", "--run-dir", run, *spread, program, *words],
            env={**os.environ, "COSCHED_RUNS": str(tmp_path / "runs.jsonl")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        begun.append(process)
        return process

    yield start
    for process in begun:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    life.down(run)


def filling_of(run, name, words=("status", "--node", "lab1", "--json")):
    """Returns the figures of a job in a JSON document of these words."""
    found = json.loads(cosched(run, *words).stdout)
    jobs = [job for node in found.get("nodes", [found]) for job in node["jobs"]]
    return next((job["filling"] for job in jobs if job["name"] == name), None)


def test_filled_waits_name_both_jobs(start, run_dir):
    run = run_dir / "r"
    assert cosched(run, "config", "set", f"slice={SLICE}").returncode == 0
    waiting = start("patient", ["lab1", "lab2"], "wait", GAP_US, COUNT)
    eventually(lambda: (filling_of(run, "patient") or {}).get("waits_s"), "a wait")
    filler = start("busy", ["lab1"], "fill")
    assert filler.stdout.readline() == "begins\n"

    def is_filled():
        return filling_of(run, "patient")["filled_s"] > 1

    eventually(is_filled, "a second of filled waits")
    told = cosched(run, "why", "patient", "--node", "lab1").stdout
    assert "% filled by busy\n" in told
    assert "s after its command\n" in told
    assert "% of patient's waits\n" in cosched(run, "why", "busy", "--node", "lab1").stdout
    found = filling_of(run, "patient")
    assert [part["job"] for part in found["filled_by"]] == ["0.busy"]
    assert found["waits_s"] / 20 < found["filled_s"] <= found["waits_s"]
    (part,) = filling_of(run, "busy")["fills"]
    assert part["job"] == "0.patient"
    assert filling_of(run, "busy")["filled_s"] == 0
    rows = json.loads(cosched(run, "top", "--once", "--json", "--interval", "1").stdout)
    shown = {row["name"]: row for row in rows["jobs"]}
    assert shown["patient"]["filled"] > 0.05
    assert 0 < shown["patient"]["began_after_s"] < 60
    filler.send_signal(signal.SIGTERM)
    for process in (filler, waiting):
        process.communicate(timeout=120)

    def ended():
        words = ("history", "--json", "--since", "1h")
        done = cosched(run, *words)
        jobs = json.loads(done.stdout)["jobs"] if done.returncode == 0 else []
        return {job["name"]: job for job in jobs} if len(jobs) == 2 else None

    jobs = eventually(ended, "both records")
    assert jobs["patient"]["filling"]["filled_by"][0]["job"] == "0.busy"
    assert jobs["busy"]["filling"]["fills"][0]["job"] == "0.patient"
    assert all(0 < job["began_after_s"] < 60 for job in jobs.values())
    table = cosched(run, "history", "--format", "job,startup,waits,filled,filledby,fills")
    assert "busy" in next(line for line in table.stdout.splitlines() if "patient" in line)
