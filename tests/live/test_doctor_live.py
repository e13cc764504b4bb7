"""``cosched doctor`` on a lab: clocks, daemons that differ or are dead, and real Slurm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cosched.lab import life, slurm
from cosched.lab.slurm_conf import SHARED
from cosched.node.lifetime.stop import stop_node
from cosched.node.sockets.client import request
from cosched.rundir.paths import NodePaths
from tests.places import ROOT

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not shutil.which("nsenter"), reason="a lab needs util-linux"),
]

MISSING = [name for name in slurm.DAEMONS if shutil.which(name) is None]


@pytest.fixture
def lab(run_dir, need_root, lab_size):
    lab = lab_size.up(run_dir / "r")
    yield lab
    life.down(lab.run_dir)


def doctor(lab, *words, within=()):
    done = subprocess.run(
        [
            *within,
            *(sys.executable, "-m", "cosched.cli.main", "doctor", *words),
            *("--run-dir", str(lab.run_dir), "--json"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def of(document, about, level=None):
    return {
        one["subject"]: one["text"]
        for one in document["findings"]
        if one["about"] == about and level in (None, one["level"])
    }


def test_nodes_are_examined_together(lab, lab_size):
    hosts = ("--hosts", lab_size.hosts)
    status, found = doctor(lab, "--hosts", f"lab[1-{lab_size.nodes}]")
    assert status == 0
    assert [node["facts"]["node"] for node in found["nodes"]] == list(lab_size.names)
    between = of(found, "between nodes", "good")
    assert {"clocks", "version", "abi", "settings", "classes"} <= set(between)
    # The nodes of a lab have one clock.
    assert all(abs(one["offset_s"]) <= one["within_s"] for one in found["nodes"])
    first, last = (NodePaths(lab.run_dir, name) for name in ("lab1", lab_size.last))
    request(last, "set", settings={"slice": "7s"})
    status, found = doctor(lab, *hosts)
    assert status == 0
    assert "slice=7s" in of(found, "between nodes", "warning")["settings"]
    assert doctor(lab, *hosts, "--strict")[0] == 1
    stop_node(first)
    status, found = doctor(lab, *hosts, "--shell", "false")
    assert status == 1
    others = ", ".join(lab_size.names[1:])
    expected = f"none of lab1 is up in {lab.run_dir}, but of {others}"
    assert of(found, "lab1", "problem") == {"daemons": expected}
    assert all("daemons" in of(found, name, "good") for name in lab_size.names[1:])
    inside = lab.enter_argv("lab1", "/")
    status, found = doctor(lab, "--health", within=inside)
    assert (status, set(of(found, "lab1", "problem"))) == (1, {"daemons"})
    within = lab.enter_argv(lab_size.last, "/")
    assert doctor(lab, "--health", within=within)[0] == 0


def test_node_that_cannot_be_reached_is_named(lab):
    status, found = doctor(lab, "--hosts", "lab1,nosuch", "--shell", "sh -c 'exit 9'")
    assert status == 1
    assert found["nodes"][1]["silent"] == "ended with status 9"
    assert "nosuch did not answer" in of(found, "between nodes", "problem")["nodes"]


@pytest.mark.mpi_job
def test_shim_of_each_mpi_is_tried(run_dir):
    if not (Path(sys.executable).parent / "mpicc").exists():
        pytest.skip("no MPI beside python")
    status, found = doctor(SimpleNamespace(run_dir=run_dir / "r"), "--shim")
    mpis = found["nodes"][0]["facts"]["mpis"]
    tried = [one for one in found["findings"] if one["about"] == "shim"]
    assert [one["level"] for one in tried] == ["good"] * len(mpis)
    assert tried
    assert status == 1  # no daemons


@pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not found")
def test_slurm_is_asked_for_its_settings(lab):
    for sharing, problems in ((slurm.GANG, {"gang"}), (SHARED, set())):
        conf = slurm.up(lab.run_dir, os.environ, sharing)
        inside = [*lab.enter_argv("lab1", "/"), "env", f"SLURM_CONF={conf}"]
        status, found = doctor(lab, within=inside)
        slurm.down(lab.run_dir, os.environ)
        assert set(of(found, "slurm", "problem")) == problems
        assert status == len(problems)
        assert "limits" in of(found, "slurm", "good")
