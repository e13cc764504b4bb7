"""The interposer in processes that are not ranks of its MPI changes nothing for them."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.run.conftest import INSTALLED
from tests.shim.jobs import PROGRAMS, compile_library, compile_program, run_job

pytestmark = [pytest.mark.mpi_job, pytest.mark.newest_mpi]

HELPER = 'int printf(const char *, ...); int main(void) { printf("here\\n"); return 0; }'


@pytest.fixture
def preloaded(mpi, shim_for, job_environ):
    """The environment of a process below a rank."""
    return {**job_environ, "LD_PRELOAD": str(shim_for(mpi.mpicc)), "PMI_RANK": "0"}


def compile_plain(source, target, *flags):
    words = ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", *flags, source, "-o", target]
    subprocess.run(words, check=True)
    return target


@pytest.mark.parametrize("flags", [(), ("-DWIDE",)], ids=["int", "pointer"])
@pytest.mark.parametrize("carrier", ["shadow", "prefix"])
def test_serial_stand_in_gets_its_calls(preloaded, tmp_path, flags, carrier):
    source, library = PROGRAMS / "serial.c", tmp_path / "libserial.so"
    # An address does not fit into the handle of 32 bits; only its lower half counts.
    narrow = (*flags, *(() if flags else ("-Wno-overflow",)))
    compile_plain(source, library, "-shared", "-fPIC", *narrow)
    linked = (f"-L{tmp_path}", "-lserial", f"-Wl,-rpath,{tmp_path}")
    program = tmp_path / "serial"
    words = ["gcc", "-O1", *narrow, "-DPROGRAM", source, "-o", program, *linked]
    subprocess.run(words, check=True)
    run = run_job([program], {**preloaded, "COSCHED_STATUS": carrier})
    assert run.stdout == "reduced 5, received 5, failures 0\n"
    assert (run.returncode, run.stderr) == (0, "")


def test_weak_call_without_mpi_succeeds_with_a_line(preloaded, tmp_path):
    program = compile_plain(PROGRAMS / "optional.c", tmp_path / "optional")
    run = run_job([program], preloaded)
    assert (run.stdout, run.returncode) == ("0\n", 0)
    assert run.stderr.count("this process has no MPI library") == 1


def test_program_of_another_family_runs(mpi, preloaded, tmp_path):
    others = [each for each in INSTALLED.values() if each.family is not mpi.family]
    if not others:
        pytest.skip("there is one family of MPI")
    for other in others:
        program = compile_program(other, "life", tmp_path)
        alone = {name: text for name, text in preloaded.items() if name != "PMI_RANK"}
        run = run_job([program, "plain"], alone)
        assert (run.stdout, run.returncode) == ("0: all around\n", 0), run.stderr
        assert run.stderr.count("the program runs on without it") == 1


def test_library_of_mpi_init_is_the_real_one(mpi, preloaded, tmp_path):
    program = compile_program(mpi, "promoted", tmp_path, "-ldl")
    module, late = tmp_path / "module.so", tmp_path / "late.so"
    compile_library(mpi, "promoted", module, "-DMODULE")
    # Without the libraries that the wrapper links.
    subprocess.run(
        ["gcc", "-shared", "-o", late, compile_object(mpi, tmp_path)], check=True
    )
    alone = {name: text for name, text in preloaded.items() if name != "PMI_RANK"}
    run = run_job([program, str(module), str(late)], alone)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "found\n"


def compile_object(mpi, folder):
    made = folder / "late.o"
    words = [mpi.mpicc, "-c", "-fPIC", "-DLATE", PROGRAMS / "promoted.c", "-o", made]
    subprocess.run(words, check=True)
    return made


def test_helper_of_another_c_library_starts(preloaded, tmp_path):
    if shutil.which("musl-gcc") is None:
        pytest.skip("there is no musl-gcc")
    program = tmp_path / "helper"
    words = ["musl-gcc", "-x", "c", "-", "-o", program]
    subprocess.run(words, input=HELPER.encode(), check=True)
    run = run_job([program], preloaded)
    assert (run.stdout, run.stderr, run.returncode) == ("here\n", "", 0)


def test_program_with_the_address_sanitizer_starts(preloaded, tmp_path):
    """The sanitizer does not start behind another library without an option."""
    program = tmp_path / "checked"
    words = ["gcc", "-x", "c", "-", "-fsanitize=address", "-o", program]
    subprocess.run(words, input=HELPER.encode(), check=True)
    run = run_job([program], {**preloaded, "ASAN_OPTIONS": "detect_leaks=0"})
    assert (run.stdout, run.stderr, run.returncode) == ("here\n", "", 0)


def test_shim_needs_no_symbol_of_one_c_library_alone(mpi, shim_for):
    """A program of musl refuses a preload with a symbol that musl lacks. It has ``own``."""
    words = ["nm", "-D", "--undefined-only", shim_for(mpi.mpicc)]
    listed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    needed = re.findall(r" U (\w+)", listed)
    assert needed
    own = {"__errno_location", "__tls_get_addr", "__stack_chk_fail", "__isoc99_sscanf"}
    assert not [name for name in needed if name.startswith("__") and name not in own]
