"""The variables of the ranks reach all app contexts, beside those that users set."""

from __future__ import annotations

import pytest

from cosched.launch.command import wrapped_command
from cosched.launch.family import LauncherKind
from cosched.launch.given.carried import hides_preload
from cosched.launch.given.line import read_line
from cosched.launch.given.preloads import environment_behind, merge_in_program

HYDRA, ORTE, PRRTE, INHERIT = (
    LauncherKind.HYDRA,
    LauncherKind.ORTE,
    LauncherKind.PRRTE,
    LauncherKind.INHERIT,
)
TASKS = {"COSCHED_JOB": "j", "LD_PRELOAD": "/shim.so"}
BOTH = "LD_PRELOAD=t.so:/shim.so"
ENV_LIST = "OMPI_MCA_mca_base_env_list"


def carried(engine, words, environ=None):
    environ = environ or {}
    tasks = dict(TASKS)
    if "LD_PRELOAD" in environ:
        tasks["LD_PRELOAD"] = f"{environ['LD_PRELOAD']}:/shim.so"
    return wrapped_command(read_line(words.split(), engine, environ), tasks, environ)


@pytest.mark.parametrize(
    ("words", "made"),
    [
        (
            "-genv LD_PRELOAD t.so -n 2 app",
            "-genv COSCHED_JOB j -genv LD_PRELOAD /shim.so"
            " -genv LD_PRELOAD t.so:/shim.so -n 2 app",
        ),
        (
            "-n 1 -env LD_PRELOAD=t.so a : -n 1 -env LD_PRELOAD u.so b",
            "-genv COSCHED_JOB j -genv LD_PRELOAD /shim.so"
            " -n 1 -env LD_PRELOAD=t.so:/shim.so a : -n 1 -env LD_PRELOAD u.so:/shim.so b",
        ),
        (
            "-n 1 env A=b LD_PRELOAD=t.so app LD_PRELOAD=x -env LD_PRELOAD y",
            "-genv COSCHED_JOB j -genv LD_PRELOAD /shim.so -n 1 env A=b"
            " LD_PRELOAD=t.so:/shim.so app LD_PRELOAD=x -env LD_PRELOAD y",
        ),
    ],
)
def test_hydra_gets_both_libraries(words, made):
    command = carried(HYDRA, f"mpiexec {words}")
    assert " ".join(command.argv) == f"mpiexec {made}"
    assert command.environ == {}


@pytest.mark.parametrize(
    ("engine", "words", "environ", "made"),
    [
        (PRRTE, "-x LD_PRELOAD=t.so app", {}, f"-x COSCHED_JOB=j -x {BOTH} app"),
        (ORTE, "-x LD_PRELOAD=t.so app", {}, f"-x COSCHED_JOB=j -x {BOTH} app"),
        (
            PRRTE,
            "-x LD_PRELOAD app",
            {"LD_PRELOAD": "t.so"},
            f"-x COSCHED_JOB=j -x {BOTH} app",
        ),
        # The first context's variables hold for the others, too, in Open MPI 5 alone.
        (
            PRRTE,
            "-x LD_PRELOAD=t.so a : b",
            {},
            f"-x COSCHED_JOB=j -x {BOTH} a : -x COSCHED_JOB=j -x {BOTH} b",
        ),
        (
            ORTE,
            "-x LD_PRELOAD=t.so a : b",
            {},
            f"-x COSCHED_JOB=j -x {BOTH} a : -x COSCHED_JOB=j -x LD_PRELOAD=/shim.so b",
        ),
        # Open MPI 4 refuses -x beside a list.
        (
            PRRTE,
            "--mca mca_base_env_list A;LD_PRELOAD=t.so app",
            {},
            f"-x COSCHED_JOB=j -x {BOTH} --mca mca_base_env_list A;LD_PRELOAD=t.so app",
        ),
        (
            ORTE,
            "--mca mca_base_env_list A;LD_PRELOAD=t.so app",
            {},
            f"--mca mca_base_env_list A;COSCHED_JOB=j;{BOTH} app",
        ),
        (
            PRRTE,
            "app",
            {ENV_LIST: "LD_PRELOAD=t.so"},
            f"-x COSCHED_JOB=j -x {BOTH} app",
        ),
    ],
)
def test_open_mpi_gets_both_libraries(engine, words, environ, made):
    command = carried(engine, f"mpirun {words}", environ)
    assert " ".join(command.argv) == f"mpirun {made}"
    assert command.environ["COSCHED_JOB"] == "j"


def test_list_in_the_environment_of_open_mpi_4_gets_the_variables():
    command = carried(ORTE, "mpirun app", {ENV_LIST: "A=1;LD_PRELOAD=t.so"})
    assert command.argv == ("mpirun", "app")
    assert command.environ[ENV_LIST] == f"A=1;COSCHED_JOB=j;{BOTH}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".openmpi/mca-params.conf", "# mine\n mca_base_env_list = A=1;LD_PRELOAD=t.so \n"),
        ("tune", '-mca mca_base_env_list "A=1;LD_PRELOAD=t.so" -mca btl self\n'),
    ],
)
def test_list_in_a_file_of_open_mpi_4_gets_the_variables(tmp_path, name, text):
    """Open MPI 4 refuses ``-x`` beside such a list."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    words = f" --tune {tmp_path}/tune" if name == "tune" else ""
    command = carried(ORTE, f"mpirun{words} app", {"HOME": str(tmp_path)})
    assert " ".join(command.argv) == f"mpirun{words} app"
    assert command.environ[ENV_LIST] == f"A=1;COSCHED_JOB=j;{BOTH}"


def test_named_files_of_parameters_replace_the_usual_ones(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).write_text(f"mca_base_env_list = FROM={name}\n")
    files = f"{tmp_path}/first:{tmp_path}/second"
    command = carried(ORTE, "mpirun app", {"OMPI_MCA_mca_base_param_files": files})
    assert command.environ[ENV_LIST].startswith("FROM=first;")


@pytest.mark.parametrize("engine", [ORTE, PRRTE])
def test_library_of_a_tuning_file_stays(tmp_path, engine):
    file = tmp_path / "tune"
    file.write_text('-x A=1\n-x LD_PRELOAD="t.so"\n')
    command = carried(engine, f"mpirun --tune {file} app")
    assert command.argv[1:5] == ("-x", "COSCHED_JOB=j", "-x", BOTH)


@pytest.mark.parametrize(
    ("words", "environ", "made", "exported"),
    [
        ("srun app", {}, "srun app", None),
        ("srun --export=ALL app", {}, "srun --export=ALL app", None),
        ("srun --export NONE app", {}, "srun --export COSCHED_JOB,LD_PRELOAD app", None),
        ("srun --export=A=1 app", {}, "srun --export=A=1,COSCHED_JOB,LD_PRELOAD app", None),
        ("srun app", {"SLURM_EXPORT_ENV": "NONE"}, "srun app", "COSCHED_JOB,LD_PRELOAD"),
        (
            "flux run --env=LD_PRELOAD=t.so app",
            {},
            f"flux run --env={BOTH} app",
            None,
        ),
        ("jsrun -E LD_PRELOAD=t.so app", {}, f"jsrun -E {BOTH} app", None),
        ("aprun -e LD_PRELOAD=t.so app", {}, f"aprun -e {BOTH} app", None),
    ],
)
def test_other_launchers_pass_both_libraries_on(words, environ, made, exported):
    command = carried(INHERIT, words, environ)
    assert " ".join(command.argv) == made
    assert command.environ == {
        **TASKS,
        **({} if exported is None else {"SLURM_EXPORT_ENV": exported}),
    }


@pytest.mark.parametrize(
    ("engine", "option"), [(HYDRA, "-configfile"), (ORTE, "--app"), (PRRTE, "--app")]
)
def test_library_of_a_file_with_contexts_stays(tmp_path, engine, option):
    sets = "-env LD_PRELOAD t.so" if engine is HYDRA else "-x LD_PRELOAD=t.so"
    file = tmp_path / "file"
    for text, hidden in ((f"-n 1 {sets} a\n", False), (f"-n 1 {sets} a 'b'\n", True)):
        file.write_text(text)
        line = read_line(["mpirun", option, str(file)], engine, {})
        assert hides_preload(line) is hidden
        made = wrapped_command(line, TASKS, {}).argv
        assert any("t.so:/shim.so" in word for word in made) is not hidden


@pytest.mark.parametrize(
    ("environ", "preload"), [({}, None), ({"LD_PRELOAD": "u.so"}, "u.so:/shim.so")]
)
def test_environment_of_srun_does_not_replace_the_library_of_its_list(environ, preload):
    """Beside ALL, Slurm takes a variable's value from its environment if it is there."""
    command = carried(INHERIT, "srun --export=ALL,LD_PRELOAD=t.so app", environ)
    assert command.argv[1] == f"--export=ALL,{BOTH}"
    assert command.environ.get("LD_PRELOAD") == preload


def test_assignments_in_front_of_a_program_are_merged():
    words = ["nice", "env", "LD_PRELOAD=t.so", "B=c", "./app", "LD_PRELOAD=u.so"]
    merged = merge_in_program(words, ["/shim.so"])
    assert " ".join(merged) == f"nice env {BOTH} B=c ./app LD_PRELOAD=u.so"
    assert merge_in_program(words, []) == tuple(words)


@pytest.mark.parametrize(
    ("front", "behind"),
    [
        ("", {"A": "1", "B": "2"}),
        ("time", {"A": "1", "B": "2"}),
        ("env A=3", {"A": "3", "B": "2"}),
        ("nice -n 5 env -u A C=4", {"B": "2", "C": "4"}),
        ("env --unset=B", {"A": "1"}),
        ("env -i A=5", {"A": "5"}),
    ],
)
def test_front_changes_the_environment_of_the_launcher(front, behind):
    assert environment_behind(front.split(), {"A": "1", "B": "2"}) == behind
