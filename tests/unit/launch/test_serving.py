"""Decides how the ranks of a job are started in a domain."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cosched.cluster.pmi.pmix_installation import Installation
from cosched.core.config.schema import Limits
from cosched.core.errors import CoschedError
from cosched.jobs import serving
from cosched.jobs.choices import Choices
from cosched.jobs.job import Job
from cosched.jobs.outer import without_outer_job
from cosched.jobs.reporting import Reports
from cosched.jobs.serving import Served, Surroundings, serve
from cosched.launch.command import Layout, Site
from cosched.launch.family import Family, LauncherKind, Mpi
from cosched.launch.program import Program
from cosched.launch.resolved_job import ResolvedJob as Resolved

HYDRA = Mpi(Family.MPICH, LauncherKind.HYDRA, "5.0.2", Path("/m/bin/mpiexec"), None)
INTEL = HYDRA._replace(version="2021.16", intel=True)
ORTE = Mpi(Family.OPENMPI, LauncherKind.ORTE, "4.1.4", Path("/o/bin/mpiexec"), None)
PRRTE = ORTE._replace(engine=LauncherKind.PRRTE, version="5.0.11")
AROUND = Surroundings(
    {"PATH": os.defpath, "COSCHED_RUNS": "off"},
    Path("/run/x"),
    Choices("spin", "auto", Limits()),
    root=True,
)


class Uses:
    """Lets all programs use one MPI, and records warnings."""

    def __init__(self, monkeypatch):
        self.patch = monkeypatch
        self.warnings = []
        self.reports = Reports(self.warnings.append, self.warnings.append)
        self.installed = Installation(Path("/o/lib/libpmix.so.2"), {"OPAL_PREFIX": "/o"})
        monkeypatch.setattr(
            "cosched.jobs.serving.find_installation",
            lambda mpiexec, environ: self.installed,
        )

    def mpi(self, mpi, family=None, library=None):
        """family: the program's library; None: it does not show its MPI."""
        self.patch.setattr(
            serving,
            "inspect",
            lambda argv, _, path: Program(argv, path, "true", family, library),
        )

        def resolve(request, site, places):
            return Resolved(
                argv=request.argv,
                label="true",
                engine=mpi.engine,
                mpi=mpi,
                mpicc=None,
                site=site,
                layout=Layout(request.ranks, None),
                root=request.root,
            )

        self.patch.setattr(serving, "resolve", resolve)

    def serve(self, around=AROUND, **more):
        return serve(Job(["true"], **more), around, self.reports)


@pytest.fixture
def uses(monkeypatch):
    return Uses(monkeypatch)


def test_mpich_is_served_pmi_1_and_open_mpi_pmix(uses):
    uses.mpi(HYDRA, Family.MPICH)
    served = uses.serve(ranks=4, shim=False)
    assert served == Served(("true",), "true", {}, "pmi1")
    uses.mpi(PRRTE, Family.OPENMPI)
    served = uses.serve(ranks=4, shim=False)
    assert served == Served(
        ("true",), "true", {"OPAL_PREFIX": "/o"}, "pmix", "/o/lib/libpmix.so.2"
    )
    assert uses.warnings == []


@pytest.mark.parametrize(
    ("version", "library", "pmi"),
    [
        ("5.0.2", "/m/lib/libmpi.so.12", "pmi1-long"),
        ("10.1", "/m/lib64/libmpi.so.12", "pmi1-long"),
        ("4.3.0", "/m/lib/libmpi.so.12", "pmi1"),
        ("dev", "/m/lib/libmpi.so.12", "pmi1"),
        ("5.0.2", "/usr/lib/libmpich.so.12", "pmi1"),
    ],
)
def test_new_mpich_puts_long_values(uses, version, library, pmi):
    uses.mpi(HYDRA._replace(version=version), Family.MPICH, Path(library))
    assert uses.serve(ranks=4, shim=False).pmi == pmi


def test_ranks_find_their_part_in_coscheduling(uses):
    uses.mpi(HYDRA, Family.MPICH)
    environ = uses.serve(ranks=4, memory_bytes=5, name="a b").environ
    assert environ["COSCHED_JOB"] == "a-b"
    assert environ["COSCHED_RUN_DIR"] == "/run/x"
    assert environ["COSCHED_MEMORY"] == "5"
    assert int(environ["COSCHED_SUBMITTED"]) > 0
    assert environ["COSCHED_EXPECTED"].endswith(":")
    assert "COSCHED_LAUNCHED" not in environ
    assert "no mpicc beside /m/bin/mpiexec" in uses.warnings[0]  # so without a shim


@pytest.mark.parametrize(("mpi", "title"), [(INTEL, "Intel MPI"), (ORTE, "Open MPI")])
def test_other_mpi_is_started_by_its_mpiexec_on_one_node(uses, mpi, title):
    uses.installed = None
    uses.mpi(mpi, mpi.family)
    served = uses.serve(ranks=3, shim=False)
    assert served.alone
    assert served.pmi == "none"
    assert served.argv[0] == str(mpi.mpiexec)
    assert served.argv[-3:] == ("-n", "3", "true")
    assert uses.warnings == [
        f"the domain cannot serve {title} {mpi.version}: {mpi.mpiexec} starts its ranks"
        " on one node"
    ]
    with pytest.raises(CoschedError, match=f"the ranks of {title} .* on several nodes"):
        uses.serve(nodes=2)


def test_script_alone_gets_no_environment_of_a_rank(uses):
    uses.mpi(HYDRA)
    assert uses.serve() == Served(("true",), "true")
    assert uses.serve(ranks=2, mpi="none") == Served(("true",), "true")
    assert uses.serve(ranks=2, shim=False).pmi == "pmi1"
    assert uses.serve(mpi="mpich", shim=False).pmi == "pmi1"


def test_ranks_without_any_mpi_are_started_as_they_are(uses):
    def resolve(*_):
        raise CoschedError("no MPI found")

    uses.mpi(HYDRA)
    uses.patch.setattr(serving, "resolve", resolve)
    assert uses.serve(ranks=2) == Served(("true",), "true")
    with pytest.raises(CoschedError, match="no MPI found"):
        uses.serve(ranks=2, mpi="mpich")


def test_messages_of_a_lab_stay_on_its_network(uses):
    around = AROUND._replace(lab=Site(network="10.0.0.0/24"))
    uses.mpi(HYDRA, Family.MPICH)
    assert uses.serve(around, shim=False).environ == {"UCX_TLS": "tcp,self"}
    own = around._replace(environ={**AROUND.environ, "UCX_TLS": "all"})
    assert uses.serve(own, shim=False).environ == {}
    uses.mpi(PRRTE, Family.OPENMPI)
    environ = uses.serve(around, shim=False).environ
    assert environ["OMPI_MCA_btl_tcp_if_include"] == "10.0.0.0/24"
    assert environ["OMPI_MCA_btl"] == "tcp,self"


def test_own_launcher_is_one_task(uses, tmp_path):
    launcher = tmp_path / "mpiexec"
    launcher.write_text("#!/bin/sh\necho HYDRA build details:\necho Version: 4.0\n")
    launcher.chmod(0o755)
    job = Job([str(launcher), "-n", "2", "true"], shim=False)
    served = serve(job, AROUND, uses.reports)
    assert (served.alone, served.pmi) == (True, "none")
    assert list(served.argv) == list(job.argv)
    for more in ({"ranks": 2}, {"nodes": 2}, {"mpi": "mpich"}):
        with pytest.raises(CoschedError, match="starts ranks itself"):
            serve(job._replace(**more), AROUND, uses.reports)


def test_user_settings_are_no_outer_job():
    own = {"PMIX_MCA_gds": "hash", "HYDRA_LAUNCHER": "ssh", "SLURM_JOB_ID": "1"}
    outer = {"PMI_FD": "3", "PMIX_NAMESPACE": "x", "COSCHED_DOMAIN_JOB": "4"}
    assert without_outer_job({**own, **outer}) == own


def test_mates_of_an_outer_job_are_left_out_but_those_of_a_slurm_job_stay():
    mates = {"COSCHED_MATES": "eureka=1@10.0.0.7", "COSCHED_MATES_FILE": "mates.json"}
    assert without_outer_job(mates) == {}
    of_slurm = {"COSCHED_MATES": "eureka=1@e1", "COSCHED_MATES_OF": "7"}
    assert without_outer_job(of_slurm) == of_slurm


def test_python_of_this_test_is_no_launcher(uses):
    served = serve(Job([sys.executable], mpi="none"), AROUND, uses.reports)
    assert served.label == "python"
