"""Command lines for each engine and layout of hosts, word by word."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosched.core.errors import CoschedError
from cosched.launch.command import (
    Layout,
    Site,
    binding_in,
    job_command,
    launcher_kind_of,
    make_layout,
    own_environment,
    wrapped_command,
)
from cosched.launch.family import Family, LauncherKind, Mpi
from cosched.launch.given.first_word import is_launcher
from cosched.launch.given.line import read_line

TASKS = {"COSCHED_JOB": "a b", "LD_PRELOAD": "/x.so:/y.so"}
HERE = Site()
REAL = Site(names=("n1", "n2"), addresses=("n1", "n2"))
LAB = Site(
    names=("lab1", "lab2"),
    addresses=("10.0.0.1", "10.0.0.2"),
    agent=Path("/run/lab/agent"),
    enter=("enter", "lab1"),
    network="10.0.0.0/24",
)


def mpi(engine):
    family = Family.MPICH if engine is LauncherKind.HYDRA else Family.OPENMPI
    return Mpi(family, engine, "1", Path("/opt/bin/mpiexec"), None)


def line(engine, site, layout, tasks=None, *, root=False):
    found = job_command(
        mpi(engine), site, layout, tasks or {}, ["./app", "-n", "9"], {}, root=root
    )
    assert found.environ == {}
    assert found.argv[-3:] == ("./app", "-n", "9")
    return " ".join(found.argv[:-3])


LAB_HYDRA = (
    "enter lab1 /opt/bin/mpiexec -launcher rsh -launcher-exec /run/lab/agent "
    "-localhost 10.0.0.1 -hosts 10.0.0.1,10.0.0.2 -ppn 2 -n 4"
)
LAB_TRANSPORT = "--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include 10.0.0.0/24"
FREE = "--map-by slot:OVERSUBSCRIBE --bind-to none"


@pytest.mark.parametrize(
    ("engine", "site", "layout", "expected"),
    [
        (LauncherKind.HYDRA, HERE, Layout(4, None), "/opt/bin/mpiexec -n 4"),
        (LauncherKind.HYDRA, HERE, Layout(4, 2), "/opt/bin/mpiexec -ppn 2 -n 4"),
        (
            LauncherKind.HYDRA,
            REAL,
            Layout(4, 2),
            "/opt/bin/mpiexec -hosts n1,n2 -ppn 2 -n 4",
        ),
        (LauncherKind.HYDRA, LAB, Layout(4, 2), LAB_HYDRA),
        (LauncherKind.PRRTE, HERE, Layout(4, None), f"/opt/bin/mpiexec {FREE} -n 4"),
        (
            LauncherKind.PRRTE,
            HERE,
            Layout(4, 2),
            "/opt/bin/mpiexec --map-by ppr:2:node:OVERSUBSCRIBE --bind-to none -n 4",
        ),
        (
            LauncherKind.PRRTE,
            REAL,
            Layout(4, 2),
            f"/opt/bin/mpiexec --host n1:2,n2:2 {FREE} -n 4",
        ),
        (
            LauncherKind.PRRTE,
            LAB,
            Layout(2, 1),
            "enter lab1 /opt/bin/mpiexec --prtemca plm_ssh_agent /run/lab/agent "
            f"--prtemca prte_if_include 10.0.0.0/24 {LAB_TRANSPORT} "
            f"--host 10.0.0.1:1,10.0.0.2:1 {FREE} -n 2",
        ),
        (
            LauncherKind.ORTE,
            REAL,
            Layout(3, 2),
            f"/opt/bin/mpiexec --host n1:2,n2:2 {FREE} -n 3",
        ),
        (
            LauncherKind.ORTE,
            LAB,
            Layout(2, 1),
            "enter lab1 /opt/bin/mpiexec --mca plm_rsh_agent /run/lab/agent "
            f"--mca oob_tcp_if_include 10.0.0.0/24 {LAB_TRANSPORT} "
            f"--host 10.0.0.1:1,10.0.0.2:1 {FREE} -n 2",
        ),
    ],
)
def test_command_lines(engine, site, layout, expected):
    assert line(engine, site, layout) == expected


@pytest.mark.parametrize("engine", [LauncherKind.ORTE, LauncherKind.PRRTE])
def test_open_mpi_gets_option_for_root(engine):
    assert line(engine, HERE, Layout(1, None), root=True) == (
        f"/opt/bin/mpiexec --allow-run-as-root {FREE} -n 1"
    )


POLICIES = {
    LauncherKind.ORTE: "OMPI_MCA_hwloc_base_binding_policy",
    LauncherKind.PRRTE: "PRTE_MCA_hwloc_default_binding_policy",
}


@pytest.mark.parametrize(("engine", "variable"), POLICIES.items())
def test_users_binding_stays(engine, variable):
    environ = {variable: "core:overload-allowed"}
    binding = binding_in(environ, mpi(engine))
    site = HERE._replace(binding=binding)
    assert line(engine, site, Layout(2, None)).endswith(
        "--map-by slot:OVERSUBSCRIBE --bind-to core:overload-allowed -n 2"
    )
    assert binding_in({variable: ""}, mpi(engine)) == ""
    assert binding_in(environ, mpi(LauncherKind.HYDRA)) == ""


def test_users_pinning_of_intel_mpi_stays():
    intel = mpi(LauncherKind.HYDRA)._replace(intel=True)
    binding = binding_in({"I_MPI_PIN_DOMAIN": "numa"}, intel)
    assert own_environment(REAL._replace(binding=binding), intel) == {}


def test_hydra_needs_no_option_for_root():
    assert (
        line(LauncherKind.HYDRA, HERE, Layout(1, None), root=True)
        == "/opt/bin/mpiexec -n 1"
    )


def test_hydra_passes_environment_by_genv():
    found = job_command(
        mpi(LauncherKind.HYDRA), HERE, Layout(2, None), TASKS, ["app"], {}, root=False
    )
    assert found.argv == (
        "/opt/bin/mpiexec",
        *("-genv", "COSCHED_JOB", "a b", "-genv", "LD_PRELOAD", "/x.so:/y.so"),
        *("-n", "2", "app"),
    )
    assert found.environ == {}


@pytest.mark.parametrize("engine", [LauncherKind.ORTE, LauncherKind.PRRTE])
def test_open_mpi_passes_environment_by_its_own_and_by_x(engine):
    """The launcher's own environment reaches spawned ranks, -x ranks of other nodes."""
    found = job_command(mpi(engine), HERE, Layout(2, None), TASKS, ["app"], {}, root=False)
    assert found.argv[:5] == (
        "/opt/bin/mpiexec",
        *("-x", "COSCHED_JOB=a b", "-x", "LD_PRELOAD=/x.so:/y.so"),
    )
    assert found.environ == TASKS


def test_unknown_engine_is_an_error():
    with pytest.raises(CoschedError, match="cosched-run -- /opt/bin/mpiexec"):
        job_command(
            mpi(LauncherKind.INHERIT), HERE, Layout(1, None), {}, ["app"], {}, root=False
        )


USERS = ("mpiexec", "-n", "4", "./app", ":", "-n", "1", "./other")
GENV = ("-genv", "COSCHED_JOB", "a b", "-genv", "LD_PRELOAD", "/x.so:/y.so")
EXPORTS = ("-x", "COSCHED_JOB=a b", "-x", "LD_PRELOAD=/x.so:/y.so")


@pytest.mark.parametrize(
    ("engine", "first", "second", "inherited"),
    [
        (LauncherKind.HYDRA, GENV, (), {}),
        (LauncherKind.PRRTE, EXPORTS, EXPORTS, TASKS),
        (LauncherKind.ORTE, EXPORTS, EXPORTS, TASKS),
        (LauncherKind.INHERIT, (), (), TASKS),
    ],
)
def test_each_app_context_of_a_users_launcher_gets_the_environment(
    engine, first, second, inherited
):
    command = wrapped_command(read_line(USERS, engine, {}), TASKS, {})
    assert command.argv == (USERS[0], *first, *USERS[1:5], *second, *USERS[5:])
    assert command.environ == inherited


@pytest.mark.parametrize("engine", list(LauncherKind))
def test_users_launcher_without_cosched_is_unchanged(engine):
    command = wrapped_command(read_line(USERS, engine, {}), {}, {})
    assert (command.argv, command.environ) == (USERS, {})


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("mpiexec", True),
        ("/opt/mpi/bin/mpirun", True),
        ("mpiexec.hydra", True),
        ("srun", True),
        ("prterun", True),
        ("./mpiexec-of-mine", False),
        ("app", False),
        ("python", False),
    ],
)
def test_launchers_are_known_by_name(word, known):
    assert is_launcher(word) is known


def test_some_names_determine_the_engine():
    assert launcher_kind_of("/usr/bin/srun") is LauncherKind.INHERIT
    assert launcher_kind_of("prterun") is LauncherKind.PRRTE
    assert launcher_kind_of("mpiexec") is None


@pytest.mark.parametrize(
    ("asked", "layout"),
    [
        ((None, None, 0), Layout(1, None)),
        ((4, None, 0), Layout(4, None)),
        ((None, 3, 0), Layout(3, 3)),
        ((4, 2, 0), Layout(4, 2)),
        ((None, None, 2), Layout(2, 1)),
        ((None, 4, 2), Layout(8, 4)),
        ((5, None, 2), Layout(5, 3)),
        ((1, None, 2), Layout(1, 1)),
    ],
)
def test_layout_gets_missing_numbers(asked, layout):
    assert make_layout(*asked) == layout


def test_ranks_that_do_not_fit_are_an_error():
    with pytest.raises(CoschedError, match="5 ranks do not fit on 2 hosts with 2 each"):
        make_layout(5, 2, 2)


def test_lab_tasks_stay_on_the_lab_network():
    assert own_environment(LAB, mpi(LauncherKind.HYDRA)) == {"UCX_TLS": "tcp,self"}
    assert own_environment(LAB, mpi(LauncherKind.PRRTE)) == {}
    assert own_environment(REAL, mpi(LauncherKind.HYDRA)) == {}


def test_intel_tasks_are_unbound_and_use_tcp_in_the_lab():
    intel = mpi(LauncherKind.HYDRA)._replace(intel=True)
    assert own_environment(REAL, intel) == {"I_MPI_PIN": "off"}
    assert own_environment(LAB, intel) == {
        "I_MPI_PIN": "off",
        "I_MPI_FABRICS": "ofi",
        "FI_PROVIDER": "tcp",
    }


def test_users_transport_is_kept_on_virtual_nodes():
    chosen = LAB._replace(transport_chosen=True)
    assert "--mca pml" not in line(LauncherKind.PRRTE, chosen, Layout(2, 1))
    assert "--mca btl_tcp_if_include" in line(LauncherKind.PRRTE, chosen, Layout(2, 1))
    assert own_environment(LAB, mpi(LauncherKind.HYDRA)) == {"UCX_TLS": "tcp,self"}
    assert own_environment(chosen, mpi(LauncherKind.HYDRA)) == {}
