"""The program of a command line and the MPI that it loads."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cosched.core.errors import CoschedError
from cosched.launch.family import Family
from cosched.launch.program import inspect, require, which
from tests.unit.launch import launch_fakes as fakes


def look(argv, environ=None):
    environ = {"PATH": "/usr/bin:/bin"} if environ is None else environ
    return inspect(argv, environ, which(argv[0], environ))


def python_tree(tmp_path, *, libraries=(), extension=None, mpi4py=True):
    """An environment as python -m venv makes it, with a stand-in for Python."""
    interpreter = fakes.executable(tmp_path / "venv/bin/python3.11", b"")
    packages = tmp_path / "venv/lib/python3.11/site-packages"
    packages.mkdir(parents=True)
    if mpi4py:
        (packages / "mpi4py").mkdir()
    if extension is not None:
        name, content = extension
        (packages / "mpi4py" / name).write_bytes(content)
    for name in libraries:
        (tmp_path / "venv/lib" / name).write_bytes(b"")
    return interpreter


@pytest.mark.parametrize(
    ("library", "family"),
    [("libmpi.so.12", Family.MPICH), ("libmpi.so.40", Family.OPENMPI)],
)
def test_elf_program_has_family_and_library(tmp_path, library, family):
    app = fakes.executable(tmp_path / "app", fakes.elf([library], runpath="$ORIGIN"))
    (tmp_path / library).write_bytes(b"")
    program = look([str(app), "-v"])
    assert program.family is family
    assert program.library == tmp_path.resolve() / library
    assert program.label == "app"


def test_program_without_mpi_has_no_family():
    program = look(["/bin/sh", "-c", "true"])
    assert (program.family, program.library) == (None, None)


def test_mpi_behind_another_library_is_found(tmp_path):
    """Only the loader finds it: ldd runs on a real program with a real library."""
    source = tmp_path / "x.c"
    source.write_text("int outer(void) { return 0; } int main(void) { return outer(); }\n")
    library = ("-shared", "-fPIC", "-Wl,--no-as-needed")
    build(tmp_path, "libmpi.so.40", *library, "-Wl,-soname,libmpi.so.40")
    build(tmp_path, "libouter.so", *library, "libmpi.so.40")
    build(tmp_path, "app", "-Wl,--no-as-needed,--allow-shlib-undefined", "libouter.so")
    environ = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(tmp_path)}
    program = look([str(tmp_path / "app")], environ)
    assert program.family is Family.OPENMPI
    assert program.library == tmp_path / "libmpi.so.40"


def build(directory, output, *words):
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    subprocess.run(["cc", "x.c", "-o", output, *words], cwd=directory, check=True)


@pytest.mark.parametrize(
    ("argv", "label"),
    [
        (["python3.11", "app.py", "-m"], "app"),
        (["python3.11", "-u", "-X", "dev", "dir/app.py"], "app"),
        (["python3.11", "-m", "pkg.mod", "x"], "pkg.mod"),
        (["python3.11", "-c", "pass"], "python"),
        (["python3.11"], "python"),
    ],
)
def test_python_programs_are_named_after_the_script(tmp_path, argv, label):
    interpreter = python_tree(tmp_path)
    assert look([str(interpreter), *argv[1:]]).label == label


def test_wheel_of_mpi4py_loads_the_environments_library(tmp_path):
    interpreter = python_tree(tmp_path, libraries=["libmpi.so", "libmpi.so.40"])
    program = look([str(interpreter), "app.py"])
    assert program.family is Family.OPENMPI
    assert program.interpreter == interpreter


def test_built_mpi4py_names_its_mpi(tmp_path):
    extension = ("MPI.cpython-311-x86_64-linux-gnu.so", fakes.elf(["libmpi.so.12"]))
    interpreter = python_tree(tmp_path, libraries=["libmpi.so.40"], extension=extension)
    assert look([str(interpreter), "app.py"]).family is Family.MPICH


def test_environment_overrides_mpi4pys_choice(tmp_path):
    interpreter = python_tree(tmp_path, libraries=["libmpi.so.40"])
    for name, family in (("mpich", Family.MPICH), ("I-MPI", Family.MPICH), ("odd", None)):
        program = look([str(interpreter)], {"MPI4PY_MPIABI": name})
        assert program.family is family
    (tmp_path / "own").mkdir()
    (tmp_path / "own/libmpi.so.12").write_bytes(b"")
    program = look([str(interpreter)], {"MPI4PY_LIBMPI": str(tmp_path / "own")})
    assert program.library == tmp_path / "own/libmpi.so.12"


def test_mpi4py_can_follow_the_standard_abi(tmp_path):
    interpreter = python_tree(tmp_path, libraries=["libmpi.so.12", "libmpi_abi.so.1"])
    library = tmp_path / "venv/lib/libmpi_abi.so.1"
    for wanted in ({"MPI4PY_MPIABI": "mpiabi"}, {"MPI4PY_LIBMPI": str(library)}):
        program = look([str(interpreter)], wanted)
        assert (program.standard_abi, program.family) == (True, None), wanted
        assert program.library == library


def test_python_without_mpi4py_has_no_family(tmp_path):
    interpreter = python_tree(tmp_path, libraries=["libmpi.so.40"], mpi4py=False)
    assert look([str(interpreter), "app.py"]).family is None


def test_script_is_classified_by_its_first_line(tmp_path):
    interpreter = python_tree(tmp_path, libraries=["libmpi.so.12"])
    plain = fakes.executable(tmp_path / "solver", f"#!{interpreter} -u\n")
    found = fakes.executable(tmp_path / "other", "#!/usr/bin/env -S python3.11 -u\n")
    shell = fakes.executable(tmp_path / "wrap.sh", "#!/bin/sh\n")
    environ = {"PATH": str(interpreter.parent)}
    assert look([str(plain)], environ).family is Family.MPICH
    assert look([str(plain)], environ).label == "solver"
    assert look([str(found)], environ).interpreter == interpreter
    assert look([str(shell)], environ).family is None


def test_which_keeps_links_and_skips_other_files(tmp_path):
    real = fakes.executable(tmp_path / "real", b"")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/app").symlink_to(real)
    (tmp_path / "bin/data").write_text("")
    environ = {"PATH": str(tmp_path / "bin")}
    assert which("app", environ) == tmp_path / "bin/app"
    assert which("data", environ) is None
    assert which(str(tmp_path), environ) is None


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("nowhere", "program 'nowhere': not found in PATH"),
        ("here", "program 'here': not found in PATH; did you mean ./here?"),
        ("./nowhere", "program './nowhere': no such file"),
        ("./data", "program './data': not executable; chmod +x makes it so"),
        ("./dir", "program './dir': is a directory"),
        (
            "./a.c",
            "program './a.c': is a source file; compile it first: mpicc -o ./a ./a.c",
        ),
    ],
)
def test_missing_program_is_an_error_with_its_reason(tmp_path, monkeypatch, word, message):
    fakes.executable(tmp_path / "here", b"")
    for name in ("data", "a.c"):
        (tmp_path / name).write_text("")
    Path(tmp_path / "dir").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CoschedError) as caught:
        require(word, {"PATH": "/usr/bin"})
    assert str(caught.value) == message
