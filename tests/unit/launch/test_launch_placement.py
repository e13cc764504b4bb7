"""Whether the ranks of a job run on this node alone."""

from pathlib import Path

import pytest

from cosched.cli.run.placement import local_names, ranks_stay_here
from cosched.launch.command import Layout, Site
from cosched.launch.family import Engine
from cosched.launch.given.engine_job import EngineJob
from cosched.launch.job import Job

HERE = Site()
LOCAL = local_names("n1.site")
NODES = EngineJob("slurm", "5", "n[1-2]")
NODE = EngineJob("slurm", "5", "n1")


def job(words, site=HERE, *, wrapped=True):
    layout = None if wrapped else Layout(1, None)
    return Job(tuple(words.split()), "app", Engine.HYDRA, None, None, site, layout, False)


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
        ("srun app", None, False),
        ("srun app", NODES, False),
        ("srun app", NODE, True),
        ("srun app", EngineJob("slurm", "5", "n["), False),
        ("flux run app", None, False),
    ],
)
def test_place_of_a_users_launcher(words, engine, stays):
    assert ranks_stay_here(job(words), engine, LOCAL) is stays


@pytest.mark.parametrize(
    ("site", "stays"),
    [
        (HERE, True),
        (Site(("n1",), ("n1",)), True),
        (Site(("n1", "n2"), ("n1", "n2")), False),
        (Site(("lab1",), ("10.0.0.1",), agent=Path("/a")), False),
    ],
)
def test_place_of_ranks_that_are_started_for_the_user(site, stays):
    assert ranks_stay_here(job("app", site, wrapped=False), None, LOCAL) is stays
