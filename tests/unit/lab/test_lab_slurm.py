"""Slurm on a lab: its configuration, a job's script and command line, and refusals."""

import subprocess
from pathlib import Path

import pytest

from cosched.bench.run import slurm_job, testbed
from cosched.bench.run.arms import Arm
from cosched.bench.run.launcher import SLURM_JOB, Launcher, SlurmJobs
from cosched.bench.run.site import Site
from cosched.bench.workload.file import JobInstance, JobSpec, Workload
from cosched.core.errors import CoschedError
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
    (tmp_path / "sleep").write_text("#!/bin/sh\necho slept $1\n")
    (tmp_path / "sleep").chmod(0o755)
    end = tmp_path / "an end"
    script = slurm_job.batch_script(["sh", "-c", "echo 'a  b'; exit 7"], 2.5, end)
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
        *(*SLURM_JOB, "--run-dir", "/run/x", "--job", "a.1"),
        *("--nodes", "2", "--ranks", "3", "--settle", "2.5", "--"),
        *("srun", f"--mpi={mpi}", "./app", "-x"),
    )
    own = {"COSCHED_RUN_DIR": "/run/x", "COSCHED_RUNS": "off"}
    assert made.env == {"HOME": "/h", **own}
    packed = JobSpec("a", 3, ppn=4)
    made = launcher.submission(JobInstance("a", packed), Arm.SLURM_GANG)
    assert made.argv[made.argv.index("--nodes") + 1] == "1"


def test_slurm_starts_jobs_of_every_arm_behind_cosched_run():
    site = Site(Path("/run/x"), ("lab1", "lab2"), None, lab=True)
    launcher = Launcher(
        site,
        {"a": ("./app", "-x")},
        {},
        command=("cosched-run",),
        by_slurm=SlurmJobs(site, Family.MPICH),
    )
    common = (*SLURM_JOB, "--run-dir", "/run/x", "--job", "a.1", "--nodes", "2")
    for arm, options in ((Arm.KERNEL, ("--no-shim",)), (Arm.COSCHED, ())):
        made = launcher.submission(JobInstance("a.1", JobSpec("a", 2)), arm)
        assert made.argv == (
            *(*common, "--ranks", "2", "--settle", "0", "--"),
            *("cosched-run", *options, "--job", "a.1", "--"),
            *("srun", "--mpi=pmi2", "./app", "-x"),
        )
        assert not launcher.sees_cpu_time(arm)


@pytest.mark.parametrize(
    ("written", "first", "ranks", "line"),
    [
        (None, 1, 1, "no Slurm lets jobs of the lab share CPUs"),
        (slurm_conf.GANG, 1, 1, "no Slurm lets jobs of the lab share CPUs"),
        (slurm_conf.SHARED, 2, 1, "job 'a' has first = 2, and Slurm chooses the nodes"),
        (slurm_conf.SHARED, 1, 2, "job 'a' has 2 ranks, and Slurm counts 1 CPU on"),
    ],
)
def test_slurm_that_cannot_start_the_jobs_is_one_line(
    tmp_path, written, first, ranks, line
):
    folder = slurm.directory(tmp_path)
    folder.mkdir(parents=True)
    if written:
        text = slurm_conf.slurm_conf(folder, [("lab1", 1)], written, 1)
        (folder / "slurm.conf").write_text(text)
    site = Site(tmp_path, ("lab1",), None, lab=True)
    workload = Workload("w", "", (JobSpec("a", ranks, first=first),))
    with pytest.raises(CoschedError, match=f"--by-slurm: {line}"):
        testbed.check_slurm(site, [workload])


def test_jobs_of_a_cpu_are_bounded_by_memory(capsys):
    assert slurm_conf.checked_jobs(4) == 4
    for jobs in ("0", "11"):
        assert slurm.main(["up", "--partition", "shared", "--jobs", jobs]) == 1
        assert capsys.readouterr().err == (
            f"slurm-lab: --jobs {jobs}: a CPU takes 1 to 10\n"
        )


def test_end_of_slurm_is_reported(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(slurm, "down", lambda run_dir, environ: True)
    assert slurm.main(["down", "--run-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "slurm is down\n"


def test_missing_lab_or_slurm_is_one_line(tmp_path, capsys):
    words = ["--run-dir", str(tmp_path), "--job", "a", "--nodes", "2", "--ranks", "2"]
    assert slurm_job.main([*words, "true"]) == 1
    assert capsys.readouterr().err == (
        f"slurm job: no Slurm is up on a lab in {tmp_path}: run 'cosched lab up', then "
        "'scripts/slurm-lab up'\n"
    )
    assert slurm.conf_path(tmp_path) is None
    assert slurm.main(["down", "--run-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "no slurm was up\n"
    assert slurm.main(["status", "--run-dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"slurm-lab: no Slurm is up in {tmp_path}: run 'scripts/slurm-lab up'\n"
    )
