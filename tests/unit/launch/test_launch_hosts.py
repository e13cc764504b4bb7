"""Hosts of a job: lists, hostfiles, and the nodes of a batch job."""

import pytest

from cosched.cli.entry import run_cli
from cosched.cli.run.command import Run
from cosched.cli.run.hosts import Chosen, choose_hosts
from cosched.core.errors import CoschedError
from cosched.launch.given.batch_job import EngineJob, engine_job
from cosched.launch.given.hosts import (
    Hosts,
    host_of,
    parse_hostfile,
    parse_hosts,
    read_hostfile,
)


def test_lists_of_hosts():
    assert parse_hosts("n[1-3,7], login").names == ("n1", "n2", "n3", "n7", "login")
    with pytest.raises(CoschedError, match="names n2 twice"):
        parse_hosts("n[1-2],n2")


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n1\nn2\n", Hosts(("n1", "n2"))),
        ("# MPICH\nn1:2\n\nn2:4  # fast\n", Hosts(("n1", "n2"), (2, 4))),
        ("n1 slots=2 max_slots=4\nn2\n", Hosts(("n1", "n2"), (2, 1))),
        ("n1:2 binding=user:0\n", Hosts(("n1",), (2,))),
        ("n[1-2] slots=3\n", Hosts(("n1", "n2"), (3, 3))),
        ("me@n1 cpu=2\n", Hosts(("n1",), (2,))),
        ("n1\nn1\nn2\n", Hosts(("n1", "n2"), (2, 1))),
        ("n1 slots = 2 max-slots = 4 sockets=1\n", Hosts(("n1",), (2,))),
        (
            "10.0.0.1:2\n::1\n[fd00::7]:3\n",
            Hosts(("10.0.0.1", "::1", "fd00::7"), (2, 1, 3)),
        ),
    ],
)
def test_hostfiles(text, hosts):
    assert parse_hostfile(text, "f") == hosts


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("n1", "n1"),
        ("n1:2", "n1"),
        ("me@n1:2", "n1"),
        ("10.0.0.1:4", "10.0.0.1"),
        ("::1", "::1"),
        ("[::1]:2", "::1"),
        ("fd00::7", "fd00::7"),
    ],
)
def test_host_of_an_option(text, host):
    assert host_of(text) == host


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "hostfile f: no host in it"),
        ("n1\nn2=3\n", "hostfile f:2: 'n2=3' is not a host, such as n1, n1:2 or n[1-4]:2"),
        ("n1 slot=3\n", "hostfile f:1: 'slot=3' is not known; write slots=N"),
        ("n1:0\n", "hostfile f:1: host 'n1:0' has no slots; leave it out"),
        ("n[1-\n", "hostfile f:1: 'n[1-' is not a list of hosts such as n[1-3,7],n9"),
        (
            "n1:2\nn2\nn1\n",
            "hostfile f:3: host 'n1' stands there twice, with a number of slots; "
            "write one line for it",
        ),
    ],
)
def test_bad_hostfiles_are_one_line(text, problem):
    with pytest.raises(CoschedError) as error:
        parse_hostfile(text, "f")
    assert str(error.value) == problem


def test_hostfile_that_cannot_be_read_is_one_line(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name, reason in (("none", "No such file or directory"), ("binary", "not a text")):
        with pytest.raises(CoschedError) as error:
            read_hostfile(tmp_path / name)
        assert str(error.value) == f"hostfile {tmp_path / name}: cannot be read ({reason})"


@pytest.mark.parametrize(
    ("environ", "job", "label"),
    [
        ({}, None, ""),
        (
            {"SLURM_JOB_ID": "12", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NTASKS": "4"},
            EngineJob("slurm", "12", "n[1-2]", 4),
            "12",
        ),
        (
            {"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0"},
            EngineJob("slurm", "12.0", in_step=True),
            "12.0",
        ),
        ({"FLUX_JOB_ID": "\u0192abC"}, EngineJob("flux", "\u0192abC"), "abC"),
        ({"PBS_JOBID": "7[3].server"}, EngineJob("pbs", "7[3]"), "7-3"),
    ],
)
def test_batch_jobs_are_found_in_the_environment(environ, job, label):
    found = engine_job(environ)
    assert found == job
    if found is not None:
        assert found.label == label


def chosen(environ, named=(), hostfile=None):
    return choose_hosts(named, hostfile, engine_job(environ))


def test_hosts_are_those_of_the_batch_job_unless_the_user_names_some(tmp_path, capsys):
    job = {"SLURM_JOB_ID": "12", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NTASKS": "6"}
    assert chosen(job) == Chosen(Hosts(("n1", "n2")), 6)
    assert chosen(job, ("n9",)) == Chosen(Hosts(("n9",)))
    assert chosen({}) == Chosen(Hosts())
    assert chosen({**job, "SLURM_STEP_ID": "0"}) == Chosen(Hosts())
    interactive = {**job, "SLURM_STEP_ID": "4294967290"}
    assert chosen(interactive) == Chosen(Hosts(("n1", "n2")), 6)
    (tmp_path / "hosts").write_text("n3:2\n")
    assert chosen(job, hostfile=tmp_path / "hosts") == Chosen(Hosts(("n3",), (2,)))
    assert run_cli(Run.click_command, ["--hosts", "n9", "--hostfile", "hosts", "true"]) == 2
    assert "--hosts and --hostfile cannot be combined" in capsys.readouterr().err
    assert capsys.readouterr().err == ""
    assert chosen({**job, "SLURM_JOB_NODELIST": "n["}) == Chosen(Hosts())
    assert "SLURM_JOB_NODELIST: 'n[' is not a list of hosts" in capsys.readouterr().err
