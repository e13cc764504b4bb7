"""From a request to a job: whose launcher, which MPI, what does not fit."""

from __future__ import annotations

import signal

import pytest

from cosched.core.errors import CoschedError
from cosched.launch.command import Layout, Site
from cosched.launch.family import Family, LauncherKind
from cosched.launch.given.carried import drops_environment
from cosched.launch.given.line import read_line
from cosched.launch.mpi import SearchPath
from cosched.launch.resolved_job import Request, resolve
from tests.unit.launch import launch_fakes as fakes


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Hydra beside Python, Open MPI in PATH, a program of each."""
    fakes.launcher(tmp_path / "python/bin/mpiexec", fakes.HYDRA)
    fakes.executable(tmp_path / "python/bin/mpicc", "")
    fakes.launcher(tmp_path / "path/mpiexec.openmpi", fakes.OPEN_MPI_4)
    fakes.launcher(tmp_path / "path/mpiexec", fakes.OPEN_MPI_5)
    fakes.executable(tmp_path / "path/mpicc", "")
    fakes.executable(tmp_path / "path/srun", "#!/bin/sh\n")
    (tmp_path / "path/cat").symlink_to("/bin/cat")
    fakes.executable(tmp_path / "mpich-app", fakes.elf(["libmpi.so.12"]))
    fakes.executable(tmp_path / "open-app", fakes.elf(["libmpi.so.40"]))
    monkeypatch.chdir(tmp_path)
    return SearchPath(tmp_path / "python/bin", {"PATH": str(tmp_path / "path")})


def test_program_gets_a_launcher_of_its_family(machine):
    job = resolve(Request(("./open-app", "x"), ranks=2), Site(), machine)
    assert job.mpi.family is Family.OPENMPI
    assert job.mpi.mpiexec.name == "mpiexec"
    assert job.layout == Layout(2, None)
    assert not job.wrapped
    assert job.label == "open-app"
    assert job.death_signal is signal.SIGTERM


def test_job_without_cosched_starts_the_same_way(machine):
    job = resolve(Request(("./mpich-app",), ranks=2), Site(), machine)
    plain = list(job.command({}).argv)
    coscheduled = list(job.command({"COSCHED_JOB": "j"}).argv)
    where = coscheduled.index("-genv")
    assert coscheduled[where : where + 3] == ["-genv", "COSCHED_JOB", "j"]
    del coscheduled[where : where + 3]
    assert coscheduled == plain
    assert job.death_signal is signal.SIGKILL


def test_launcher_in_front_is_kept(machine, tmp_path):
    argv = ("mpiexec.openmpi", "-n", "2", "./open-app", "x")
    job = resolve(Request(argv), Site(), machine)
    assert job.wrapped
    assert job.engine is LauncherKind.ORTE
    assert job.label == "open-app"
    assert job.command({}).argv == argv
    assert job.mpicc == tmp_path / "path/mpicc"
    assert job.warnings == ()


def test_srun_needs_no_version_and_gets_the_programs_compiler(machine, tmp_path):
    job = resolve(Request(("srun", "-N", "2", "./mpich-app")), Site(), machine)
    assert job.engine is LauncherKind.INHERIT
    assert job.mpicc == tmp_path / "python/bin/mpicc"
    assert job.command({"A": "b"}).environ == {"A": "b"}


def test_users_launcher_of_another_family_is_only_a_warning(machine):
    job = resolve(Request(("mpiexec.openmpi", "./mpich-app")), Site(), machine)
    assert job.warnings == ("./mpich-app uses MPICH, but mpiexec.openmpi is Open MPI's",)


def test_users_launcher_with_its_own_preload_gets_both_libraries(machine):
    argv = ("mpiexec", "-x", "LD_PRELOAD=/a.so", "./open-app")
    job = resolve(Request(argv), Site(), machine)
    assert job.warnings == ()
    assert job.surely_shimmed
    command = job.command({"LD_PRELOAD": "/shim.so"})
    assert command.argv == ("mpiexec", "-x", "LD_PRELOAD=/a.so:/shim.so", "./open-app")


@pytest.mark.parametrize(
    ("changed", "option"),
    [
        ({"ranks": 2}, "--ranks"),
        ({"per_host": 2}, "--ppn"),
        ({"mpi": "mpich"}, "--mpi"),
    ],
)
def test_options_that_a_users_launcher_decides_are_refused(machine, changed, option):
    with pytest.raises(CoschedError, match=option):
        resolve(Request(("mpiexec", "./open-app"), **changed), Site(), machine)


def test_hosts_are_refused_with_a_users_launcher(machine):
    site = Site(names=("a",), addresses=("a",))
    with pytest.raises(CoschedError, match="--hosts"):
        resolve(Request(("mpiexec", "./open-app")), site, machine)


def test_missing_program_is_an_error_only_on_this_host(machine):
    with pytest.raises(CoschedError, match=r"program './none': no such file"):
        resolve(Request(("./none",)), Site(), machine)
    site = Site(names=("a", "b"), addresses=("a", "b"))
    assert resolve(Request(("./none",)), site, machine).layout == Layout(2, 1)


def test_missing_launcher_is_an_error(machine):
    with pytest.raises(CoschedError, match="launcher 'mpirun': not found"):
        resolve(Request(("mpirun", "./open-app")), Site(), machine)


def test_missing_compiler_is_an_error_only_when_it_is_needed(machine, tmp_path):
    (tmp_path / "python/bin/mpicc").unlink()
    (tmp_path / "path/mpicc").unlink()
    job = resolve(Request(("./mpich-app",)), Site(), machine)
    with pytest.raises(CoschedError, match="no mpicc beside"):
        job.require_mpicc()


def test_words_in_front_of_a_launcher_stay_there(machine, tmp_path):
    fakes.executable(tmp_path / "path/taskset", "#!/bin/sh\n")
    argv = ("taskset", "-c", "0", "mpiexec.openmpi", "-n", "2", "./open-app")
    job = resolve(Request(argv), Site(), machine)
    assert job.wrapped
    assert job.label == "open-app"
    assert job.command({"A": "b"}).argv == (
        *argv[:4],
        *("-x", "A=b", "-n", "2", "./open-app"),
    )


def test_words_in_front_of_a_program_run_once_a_rank(machine, tmp_path):
    fakes.executable(tmp_path / "path/nice", "#!/bin/sh\n")
    job = resolve(Request(("nice", "./open-app"), ranks=2), Site(), machine)
    assert job.mpi.family is Family.OPENMPI
    assert job.label == "open-app"
    assert job.command({}).argv[-4:] == ("-n", "2", "nice", "./open-app")


def test_slots_of_a_hostfile_limit_the_ranks(machine):
    site = Site(("a", "b"), ("a", "b"), slots=(2, 1))
    job = resolve(Request(("./mpich-app",)), site, machine)
    assert job.layout == Layout(3, None)
    command = " ".join(job.command({}).argv)
    assert "-hosts a:2,b:1 -n 3 ./mpich-app" in command
    job = resolve(Request(("./open-app",), ranks=2), site, machine)
    assert "--host a:2,b:1 --map-by slot" in " ".join(job.command({}).argv)
    with pytest.raises(CoschedError, match="4 ranks do not fit into the 3 slots"):
        resolve(Request(("./open-app",), ranks=4), site, machine)
    job = resolve(Request(("./mpich-app",), per_host=2), site, machine)
    assert "-hosts a,b -ppn 2 -n 4" in " ".join(job.command({}).argv)


@pytest.mark.parametrize(
    ("words", "sure"),
    [
        ("srun ./run.sh", True),
        ("srun sh -c ./mpich-app", True),
        ("srun ./tool.sh", False),
        ("srun -n 1 sh -c LD_PRELOAD=x", False),
        ("srun --multi-prog f", False),
        ("srun ./mpich-app LD_PRELOAD", True),
        ("srun ./tool.sh ./mpich-app", False),
        ("mpiexec -n 1 ./open-app : -n 1 ./open-app", False),
        ("srun --export=NONE ./mpich-app", True),
        ("srun --export=NIL ./mpich-app", False),
        ("srun ./run.sh LD_PRELOAD --multi-prog --app f", True),
        ("srun env LD_PRELOAD=t.so ./mpich-app", True),
        ("srun env -u LD_PRELOAD ./mpich-app", False),
    ],
)
def test_ranks_of_a_script_are_alike_unless_it_changes_the_preload(
    machine, tmp_path, words, sure
):
    fakes.executable(tmp_path / "run.sh", "#!/bin/sh\nexec ./mpich-app\n")
    fakes.executable(
        tmp_path / "tool.sh", "#!/bin/sh\n[ $R = 0 ] && export LD_PRELOAD=t.so\n./app\n"
    )
    assert resolve(Request(tuple(words.split())), Site(), machine).surely_shimmed is sure


@pytest.mark.parametrize(
    ("words", "environ", "drops"),
    [
        ("srun app", {}, False),
        ("srun --export=ALL,A=b app", {}, False),
        ("srun --export=NIL app", {}, True),
        ("srun --export A,B app", {}, False),
        ("srun app --export=NIL", {}, False),
        ("srun app", {"SLURM_EXPORT_ENV": "NIL"}, True),
        ("mpiexec app", {"SLURM_EXPORT_ENV": "NIL"}, False),
    ],
)
def test_srun_that_drops_variables_is_seen(words, environ, drops):
    line = read_line(words.split(), LauncherKind.INHERIT, environ)
    assert drops_environment(line) is drops


@pytest.mark.parametrize(
    ("words", "environ", "default", "given"),
    [
        ("srun -n 2 ./open-app", {}, "pmi2", "MpiDefault=pmi2"),
        ("srun -n 2 ./open-app", {}, "pmix", ""),
        ("srun -n 2 ./open-app", {}, "none", "MpiDefault=none"),
        ("srun -n 2 ./open-app", {}, "", ""),
        ("srun --mpi=pmix ./open-app", {}, "pmi2", ""),
        ("srun --mpi pmi2 ./open-app", {}, "pmix", "--mpi=pmi2"),
        ("srun ./open-app --mpi=pmi2", {}, "pmix", ""),
        ("srun ./open-app", {"SLURM_MPI_TYPE": "pmi2"}, "pmix", "SLURM_MPI_TYPE=pmi2"),
        ("srun ./mpich-app", {}, "pmi2", ""),
        ("srun ./mpich-app", {}, "pmix", "MpiDefault=pmix"),
        ("srun ./cat", {}, "none", ""),
    ],
)
def test_srun_that_does_not_serve_the_mpi_is_warned_about(
    machine, tmp_path, words, environ, default, given
):
    """The libraries speak PMI2 alone (MPICH) and PMIx alone (Open MPI 5)."""
    libraries = tmp_path / "lib"
    for name in ("libmpi.so.12", "libmpi.so.40"):
        fakes.executable(libraries / name, fakes.elf(["libc.so.6"]))
    fakes.executable(
        tmp_path / "path/scontrol",
        f"#!/bin/sh\necho 'MpiDefault              = {default}'\n",
    )
    places = machine._replace(
        environ={**machine.environ, **environ, "LD_LIBRARY_PATH": str(libraries)},
    )
    job = resolve(Request(tuple(words.split())), Site(), places)
    if not given:
        assert job.warnings == ()
        return
    (line,) = job.warnings
    assert line.startswith(f"{given} does not serve ")
    assert ": each rank runs alone as rank 0 of 1, or MPI_Init fails; use --mpi=" in line
    assert line.endswith("=pmix" if "open" in words else "=pmi2")


def test_slurm_that_does_not_answer_stops_no_job(machine, tmp_path):
    fakes.executable(tmp_path / "path/scontrol", "#!/bin/sh\nexit 1\n")
    assert resolve(Request(("srun", "./open-app")), Site(), machine).warnings == ()
