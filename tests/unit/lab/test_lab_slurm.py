"""Slurm on a lab: its configuration, a job's script and command line, and refusals."""

import subprocess
from pathlib import Path

import pytest

from cosched.bench.run import slurm_job
from cosched.bench.run.arms import Arm
from cosched.bench.run.launcher import SLURM_JOB, Launcher
from cosched.bench.run.site import Site
from cosched.bench.workload.file import JobInstance, JobSpec
from cosched.lab import slurm, slurm_conf
from cosched.launch.family import Family


def test_configuration_uses_gang_scheduling():
    text = slurm_conf.slurm_conf(
        Path("/r/lab/slurm"), [("lab1", 1), ("lab2", 2)], slurm_conf.GANG, 7
    )
    keys = dict(line.split("=", 1) for line in text.splitlines() if " " not in line)
    assert keys["SlurmctldHost"] == "lab1"
    assert keys["FirstJobId"] == "7"
    assert (keys["PreemptMode"], keys["SchedulerTimeSlice"]) == ("GANG", "5")
    assert "NodeName=lab2 CPUs=2 RealMemory=1000" in text.splitlines()
    assert "OverSubscribe=FORCE:" in text
    private = [line for line in text.splitlines() if "%n" in line]
    assert {line.partition("=")[0] for line in private} == {
        *("SlurmdSpoolDir", "TmpFS", "SlurmdPidFile", "SlurmdLogFile"),
    }


def test_configuration_for_sites_lets_jobs_run_at_once():
    text = slurm_conf.slurm_conf(
        Path("/r/lab/slurm"), [("lab1", 4)], slurm_conf.SHARINGS["shared"], 7
    )
    lines = text.splitlines()
    assert "SelectTypeParameters=CR_Core_Memory" in lines
    assert "PreemptMode=OFF" in lines
    assert any("OverSubscribe=FORCE:3" in line for line in lines)
    assert "SchedulerTimeSlice" not in text


def test_script_reports_the_steps_status(tmp_path):
    """Run by a shell in which srun is what it starts."""
    (tmp_path / "srun").write_text('#!/bin/sh\nshift\nexec "$@"\n')
    (tmp_path / "srun").chmod(0o755)
    (tmp_path / "sleep").write_text("#!/bin/sh\necho slept $1\n")
    (tmp_path / "sleep").chmod(0o755)
    end = tmp_path / "an end"
    script = slurm_job.batch_script(["sh", "-c", "echo 'a  b'; exit 7"], "pmi2", end)
    done = subprocess.run(
        ["/bin/sh", "-c", script],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "slept 2.5\na  b\n"
    assert end.read_text() == "7\n"


@pytest.mark.parametrize(
    ("family", "mpi"), [(Family.OPENMPI, "pmix"), (Family.MPICH, "pmi2"), (None, "pmi2")]
)
def test_slurm_arm_submits_to_slurm(family, mpi):
    site = Site(Path("/run/x"), ("lab1", "lab2"), None, lab=True)
    launcher = Launcher(site, {"a": ("./app", "-x")}, {"HOME": "/h"}, family=family)
    made = launcher.submission(JobInstance("a.1", JobSpec("a", 3)), Arm.SLURM_GANG)
    assert made.argv == (
        *(*SLURM_JOB, "--run-dir", "/run/x", "--job", "a.1", "--mpi", mpi),
        *("--nodes", "2", "--ranks", "3", "--", "./app", "-x"),
    )
    own = {"COSCHED_RUN_DIR": "/run/x", "COSCHED_RUNS": "off"}
    assert made.env == {"HOME": "/h", **own}
    packed = JobSpec("a", 3, ppn=4)
    made = launcher.submission(JobInstance("a", packed), Arm.SLURM_GANG)
    assert made.argv[made.argv.index("--nodes") + 1] == "1"


def test_missing_lab_or_slurm_is_one_line(tmp_path, capsys):
    words = ["--run-dir", str(tmp_path), "--job", "a", "--nodes", "2", "--ranks", "2"]
    assert slurm_job.main([*words, "--mpi", "pmi2", "true"]) == 1
    assert capsys.readouterr().err == (
        f"slurm-gang: no Slurm is up on a lab in {tmp_path}: run 'cosched lab up', then "
        "'scripts/slurm-lab up'\n"
    )
    assert slurm.conf_path(tmp_path) is None
    assert slurm.main(["down", "--run-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "no slurm was up\n"
    assert slurm.main(["status", "--run-dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"slurm-lab: no Slurm is up in {tmp_path}: run 'scripts/slurm-lab up'\n"
    )
