"""The words of a launcher are split from those of its programs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.cli.run.placement import place_of, ranks_stay_here
from cosched.launch.command import Site
from cosched.launch.family import LauncherKind
from cosched.launch.given.line import read_line, with_files_inside
from cosched.launch.mpi import SearchPath
from cosched.launch.resolved_job import Request, resolve
from cosched.linux.here import Here
from tests.unit.launch import launch_fakes as fakes

HYDRA, ORTE, PRRTE, INHERIT = (
    LauncherKind.HYDRA,
    LauncherKind.ORTE,
    LauncherKind.PRRTE,
    LauncherKind.INHERIT,
)
HERE = Here("n1", list, lambda name: ())


@pytest.mark.parametrize(
    ("engine", "words", "program"),
    [
        (HYDRA, "mpiexec -n 2 app -f x", "app -f x"),
        (HYDRA, "mpiexec -genv A b -env C=d --n 2 app", "app"),
        (HYDRA, "mpiexec -l -f hosts -envnone app", "app"),
        (HYDRA, "mpiexec -bind-to core:1 -verbose app", "app"),
        (HYDRA, "mpiexec app", "app"),
        (ORTE, "mpirun --mca btl self -x A -np 2 -host n1:2 app -x A=b", "app -x A=b"),
        (ORTE, "mpirun -v -display-map app", "app"),
        (PRRTE, "mpirun --prtemca a b --host=n1 --map-by :OVERSUBSCRIBE app", "app"),
        (PRRTE, "mpirun -n 2 -- app --host x", "app --host x"),
        (INHERIT, "srun -N2 -n 4 -ul --mpi=pmi2 app -w n7", "app -w n7"),
        (INHERIT, "srun --nodeli n1 --label --cpus-per-task 2 app", "app"),
        (INHERIT, "srun -n2 --multi-prog conf", "conf"),
        (INHERIT, "flux run -n 2 --env=A=b -o cpu-affinity=off app run", "app run"),
        (INHERIT, "jsrun -n 2 -E A=b -a1 app", "app"),
        (INHERIT, "aprun -n 4 -cc cpu -e A=b app", "app"),
        (INHERIT, "ibrun -n 4 -o 0 app -n", "app -n"),
    ],
)
def test_program_begins_behind_the_launchers_options(engine, words, program):
    (context,) = read_line(words.split(), engine, {}).contexts
    assert " ".join(context.program) == program


def test_unknown_option_takes_a_word_that_starts_no_program(tmp_path):
    fakes.executable(tmp_path / "app", "")
    environ = {"PATH": str(tmp_path)}
    for words in (
        "mpiexec --new-flag app x",
        "mpiexec --new 7 app x",
        "mpiexec --new=7 app x",
    ):
        (context,) = read_line(words.split(), HYDRA, environ).contexts
        assert context.program == ("app", "x")


def test_app_contexts_have_options_of_their_own():
    words = "mpirun -n 1 -H a x : -H b y -H c"
    line = read_line(words.split(), PRRTE, {})
    hosts = [[o.values for o in c.named(line.grammar.hosts)] for c in line.contexts]
    assert hosts == [[("a",)], [("b",)]]
    assert [context.program for context in line.contexts] == [("x",), ("y", "-H", "c")]


@pytest.mark.parametrize(
    ("engine", "words", "inside"),
    [
        (HYDRA, "mpiexec -l -configfile", "mpiexec -l -n 1 a : -n 2 -env B c d"),
        (PRRTE, "mpirun -x A --app", "mpirun -x A -n 1 a : -n 2 -env B c d"),
        (ORTE, "mpirun --mca a b -x A --app", "mpirun --mca a b -n 1 a : -n 2 -env B c d"),
    ],
)
def test_contexts_of_a_file_are_read_and_can_be_words(tmp_path, engine, words, inside):
    file = tmp_path / "file"
    file.write_text("# two\n-n 1 a\n\n-n 2 -env B c d\n")
    line = read_line([*words.split(), str(file)], engine, {})
    assert line.is_complete
    assert [context.words[:2] for context in line.all_contexts] == [
        ("-n", "1"),
        ("-n", "2"),
    ]
    assert " ".join(with_files_inside(line).argv) == inside
    assert not read_line([*words.split(), str(file) + "x"], engine, {}).is_complete


def test_file_that_needs_quotes_stays_a_file(tmp_path):
    file = tmp_path / "file"
    file.write_text("-n 1 a 'b c'\n")
    line = read_line(["mpiexec", "-configfile", str(file)], HYDRA, {})
    assert with_files_inside(line) == line


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("machine")
    fakes.launcher(folder / "mpiexec.hydra", fakes.HYDRA)
    fakes.launcher(folder / "mpirun.openmpi", fakes.OPEN_MPI_4)
    fakes.launcher(folder / "mpirun", fakes.OPEN_MPI_5)
    fakes.executable(folder / "srun", "#!/bin/sh\n")
    fakes.executable(folder / "mpich-app", fakes.elf(["libmpi.so.12"]))
    fakes.executable(folder / "open-app", fakes.elf(["libmpi.so.40"]))
    return SearchPath(folder, {"PATH": str(folder)})


#: Words that a launcher would take for options, and values of them.
OPTIONS = (
    "-f", "-H", "-host", "--host", "--host=db1", "-hosts", "-hostfile", "--hostfile=x",
    "-machinefile", "-x", "-genv", "-env", "--mca", "-n", "--app", "-configfile",
    "--nolocal", "--multi-prog", "--export=NONE", "--tune", "-w", "--", "-v",
    "--account", "--no-shim",
)  # fmt: skip
VALUES = (
    "x",
    "n7",
    "0.0.0.3",
    "LD_PRELOAD=t.so",
    "LD_PRELOAD",
    "mca_base_env_list",
    "env -u",
)
LAUNCHERS = {
    "mpiexec.hydra -n 2": "mpich-app",
    "mpirun.openmpi -np 2": "open-app",
    "mpirun -n 2 --bind-to none": "open-app",
    "srun -n 2": "mpich-app",
}


@given(
    launcher=st.sampled_from(sorted(LAUNCHERS)),
    arguments=st.lists(
        st.sampled_from(OPTIONS + VALUES) | st.text("-a/=,;x", min_size=1), max_size=8
    ),
)
def test_arguments_of_a_program_never_change_the_plan(machine, launcher, arguments):
    words = (*launcher.split(), LAUNCHERS[launcher])
    plans = []
    for argv in (words, (*words, *arguments)):
        job = resolve(Request(argv), Site(), machine)
        command = job.command({"COSCHED_JOB": "j", "LD_PRELOAD": "/shim.so"})
        assert (
            command.argv[len(command.argv) - len(argv) + len(words) :] == argv[len(words) :]
        )
        plans.append(
            (
                command.argv[: len(command.argv) - len(argv) + len(words)],
                command.environ,
                ranks_stay_here(job, None, HERE, machine.environ),
                place_of(job, None, machine.environ),
                (job.label, job.mpicc, job.surely_shimmed, job.warnings),
            )
        )
    assert plans[0] == plans[1]
