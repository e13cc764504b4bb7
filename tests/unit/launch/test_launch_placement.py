"""Whether the ranks of a job run on this node alone."""

from pathlib import Path

import pytest

from cosched.cli.run.placement import place_of, ranks_stay_here
from cosched.jobs.job_nodes import JobNodes
from cosched.launch.command import Layout, Site
from cosched.launch.family import LauncherKind
from cosched.launch.given.batch_job import EngineJob
from cosched.launch.given.line import read_line
from cosched.launch.resolved_job import ResolvedJob
from cosched.linux.here import Here, parse_address

SITE = Site()
HERE = Here("n1.site", lambda: [parse_address("10.0.0.1")], lambda name: ())
NODES = EngineJob("slurm", "5", "n[1-2]")
NODE = EngineJob("slurm", "5", "n1")


def job(words, site=SITE, engine=LauncherKind.HYDRA, *, wrapped=True):
    argv = tuple(words.split())
    layout = None if wrapped else Layout(1, None)
    line = read_line(argv, engine, {}) if wrapped else None
    return ResolvedJob(argv, "app", engine, None, None, site, layout, False, line=line)


@pytest.mark.parametrize(
    ("words", "engine", "stays"),
    [
        ("mpiexec -n 2 app", None, True),
        ("mpiexec -n 2 app", NODES, False),
        ("mpiexec -n 2 app", NODE, True),
        ("mpiexec -hosts n1,localhost app", None, True),
        ("mpiexec -host n2 app", None, False),
        ("mpirun -H n1:2,n2:2 app", None, False),
        ("mpirun --hostfile=f app", None, False),
        ("mpirun -H n1 app : -H n2 app", None, False),
        ("mpirun -H n1 app : app", NODES, False),
        ("mpirun -H n1 app : app", None, True),
        ("mpirun --nolocal app", None, False),
        ("mpiexec -n 1 app : -host n2 app", None, False),
        ("mpiexec -n 2 app -host n2 : -n 1 app -f x", None, True),
        ("mpiexec -configfile missing", None, False),
        ("srun app", None, False),
        ("srun app", NODES, False),
        ("srun app", NODE, True),
        ("srun app", EngineJob("slurm", "5", "n["), False),
        ("flux run app", None, False),
    ],
)
def test_place_of_a_users_launcher(words, engine, stays):
    prrte = words.startswith("mpirun")
    given = job(words, engine=LauncherKind.PRRTE if prrte else LauncherKind.HYDRA)
    assert ranks_stay_here(given, engine, HERE, {}) is stays


@pytest.mark.parametrize(
    ("site", "stays"),
    [
        (SITE, True),
        (Site(("n1",), ("n1",)), True),
        (Site(("n1", "n2"), ("n1", "n2")), False),
        (Site(("lab1",), ("10.0.0.1",), agent=Path("/a")), False),
    ],
)
def test_place_of_ranks_that_are_started_for_the_user(site, stays):
    assert ranks_stay_here(job("app", site, wrapped=False), None, HERE, {}) is stays


@pytest.mark.parametrize(
    ("hosts", "stays"),
    [
        ("n1\nN1.Site\n", True),
        ("N1.SITE slots=2\n", True),
        ("10.0.0.1:2\n127.0.1.1\n", True),
        ("n1\nn2\n", False),
        ("n1 = what\n", False),
    ],
)
def test_place_of_ranks_whose_hosts_are_in_a_file(tmp_path, hosts, stays):
    file = tmp_path / "hosts"
    file.write_text(hosts)
    for engine, words, variable in (
        (LauncherKind.HYDRA, "mpiexec -f {}", "HYDRA_HOST_FILE"),
        (LauncherKind.ORTE, "mpirun -machinefile {}", "OMPI_MCA_orte_default_hostfile"),
        (LauncherKind.PRRTE, "mpirun --hostfile {}", "PRTE_MCA_prte_default_hostfile"),
        (LauncherKind.PRRTE, "mpirun --prtemca a b --default-hostfile {}", ""),
        (LauncherKind.ORTE, "mpirun --mca orte_default_hostfile {}", ""),
    ):
        given = job(f"{words.format(file)} app", engine=engine)
        assert ranks_stay_here(given, None, HERE, {}) is stays
        if variable:
            given = job("mpiexec app", engine=engine)
            assert ranks_stay_here(given, None, HERE, {variable: str(file)}) is stays
            given = job("app", wrapped=False)._replace(engine=engine)
            assert ranks_stay_here(given, None, HERE, {variable: str(file)}) is stays


def test_place_of_ranks_of_a_rankfile(tmp_path):
    file = tmp_path / "ranks"
    for text, stays in (("rank 0=n1 slot=1\n", True), ("rank 0 = n2 slots=0\n", False)):
        file.write_text(text)
        given = job(f"mpirun -rf {file} app", engine=LauncherKind.ORTE)
        assert ranks_stay_here(given, None, HERE, {}) is stays
    assert place_of(given, None, {}) == JobNodes("", ("n2",))
