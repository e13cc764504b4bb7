"""A user's own launcher: its words, the variables of all its ranks, the user's preloads."""

from __future__ import annotations

import re
import subprocess

import pytest

from cosched.launch.family import LauncherKind
from tests.shim.jobs import CROWDED, compile_program

#: Leaves a line with the rank's context, as a tool that measures a rank does.
TOOL = """
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void begin(void) {
    if (getenv("PMI_RANK") != NULL || getenv("PMIX_RANK") != NULL)
        fputs("the tool is there\\n", stderr);
}
"""


@pytest.fixture
def jobs_dir(served):
    return served.run_dir


@pytest.fixture(autouse=True)
def crowded(monkeypatch):
    for name, value in CROWDED.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def tool(tmp_path_factory):
    library = tmp_path_factory.mktemp("tool") / "libtool.so"
    words = ["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-x", "c", "-", "-o", library]
    subprocess.run(words, input=TOOL.encode(), check=True)
    return str(library)


def registered(done):
    assert done.returncode == 0, done.stderr
    return len(re.findall(r"registered as task [0-9]+ of job", done.stderr))


@pytest.mark.parametrize(
    "arguments",
    [
        ("-f", "input.txt"),
        ("-H", "3"),
        ("--host=db1",),
        ("-hostfile", "x", "-machinefile", "x"),
        ("--app", "x", "-configfile", "x", "-x", "LD_PRELOAD=foo"),
    ],
)
def test_arguments_of_the_program_are_no_options(cosched_run, mpi, task, arguments):
    line = mpi.launch("-n", "2", task, "add", *arguments)
    done = cosched_run("-v", "--require-all", "--", *line)
    assert registered(done) == 2
    assert done.stdout == "2 ranks, sum 1\n"
    assert "warning" not in done.stderr


def test_ranks_of_all_app_contexts_are_coscheduled(cosched_run, mpi, task, tmp_path):
    contexts = (("-n", "1", task), ("-n", "1", task, "add"))
    done = cosched_run("-v", "--", *mpi.launch(*contexts[0], ":", *contexts[1]))
    assert registered(done) == 2
    file = tmp_path / "contexts"
    file.write_text("".join(" ".join(words) + "\n" for words in contexts))
    option = "-configfile" if mpi.engine is LauncherKind.HYDRA else "--app"
    assert registered(cosched_run("-v", "--", *mpi.launch(option, str(file)))) == 2


def options(mpi, tool):
    """Yields the ways in which a user may preload a tool into a launcher's ranks."""
    if mpi.engine is LauncherKind.HYDRA:
        yield ("-genv", "LD_PRELOAD", tool)
        yield ("-env", f"LD_PRELOAD={tool}")
        return
    yield ("-x", f"LD_PRELOAD={tool}")
    yield ("--mca", "mca_base_env_list", f"LD_PRELOAD={tool}")


def test_library_of_a_tool_and_the_shim_are_both_loaded(cosched_run, mpi, task, tool):
    lines = [mpi.launch(*words, "-n", "2", task) for words in options(mpi, tool)]
    lines.append(mpi.launch("-n", "2", "env", f"LD_PRELOAD={tool}", task))
    lines.append(["env", f"LD_PRELOAD={tool}", *mpi.launch("-n", "2", task)])
    for line in lines:
        done = cosched_run("-v", "--", *line)
        assert registered(done) == 2, line
        assert done.stderr.count("the tool is there") >= 2, line
        assert "warning" not in done.stderr, line


def test_variables_beside_a_list_of_open_mpi_stop_no_job(
    cosched_run, mpi, task, tool, monkeypatch
):
    """Open MPI 4 ends a job that has both the list and -x."""
    if mpi.engine is LauncherKind.HYDRA:
        pytest.skip("it is a setting of Open MPI")
    monkeypatch.setenv("OMPI_MCA_mca_base_env_list", f"LD_PRELOAD={tool};A=1")
    done = cosched_run("-v", "--mpi", str(mpi.mpiexec), "-n", "2", task)
    assert registered(done) == 2
    assert done.stderr.count("the tool is there") == 2


def test_spawned_ranks_are_coscheduled(cosched_run, mpi, tmp_path):
    program = compile_program(mpi, "spawn", tmp_path)
    words = ("--mpi", str(mpi.mpiexec), "-n", "2", program)
    plain = cosched_run("--no-shim", *words)
    if plain.returncode != 0:
        pytest.skip(f"this MPI cannot spawn here: {plain.stderr.strip()[:100]}")
    assert registered(cosched_run("-v", *words)) == 4
