"""The interposer is built by a fake wrapper that a test can inspect and change."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import cosched.launch.shim as under_test
from cosched.core.errors import CoschedError
from cosched.launch.compile import LOCK_NAME
from cosched.launch.shim import (
    LIBRARY_NAME,
    for_all_users,
    for_release,
    make_shim,
    plan_build,
)
from tests.unit.launch import launch_fakes as fakes

WRAPPER = """#!/bin/sh
# Makes an object without content of each source, and logs the call.
case "$*" in
*-mpi_abi*-show*) echo cc -L{lib} -lmpi_abi; exit ;;
*-show*) echo cc -L{lib} -l{name}; exit ;;
esac
{extra}
for word; do last=$word; done
echo "$I_MPI_ROOT $*" >> {log}
cp {nothing} "$last"
"""


class Site:
    """A wrapper, its library and a cache, all in one directory."""

    def __init__(self, root: Path, nothing: Path) -> None:
        self.root, self.nothing = root, nothing
        self.log = root / "log"
        self.library = root / "lib/libmpi.so.12"
        self.library.parent.mkdir()
        self.library.write_bytes(b"an MPI library")
        self.cache = root / "cache"
        self.mpicc = self.write()

    def write(self, extra: str = "", name: str = "mpi") -> Path:
        paths = {"lib": self.root / "lib", "log": self.log, "nothing": self.nothing}
        text = WRAPPER.format(**paths, extra=extra, name=name)
        return fakes.executable(self.root / "bin/mpicc", text)

    def build(self, **options) -> Path:
        return make_shim(plan_build(self.mpicc, os.environ, cache=self.cache, **options))

    @property
    def compiled(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture(scope="module")
def nothing(tmp_path_factory):
    """An object without content, which takes no time to compile."""
    path = tmp_path_factory.mktemp("nothing") / "nothing.o"
    words = ["cc", "-x", "c", "-fPIC", "-c", "/dev/null", "-o", path]
    subprocess.run(words, check=True)
    return path


@pytest.fixture
def site(tmp_path, nothing, monkeypatch):
    monkeypatch.delenv("I_MPI_ROOT", raising=False)
    return Site(tmp_path, nothing)


def test_shim_is_built_once(site):
    library = site.build()
    assert library.parent.parent == site.cache
    count = len(site.compiled)
    assert count == len(under_test.sources())
    assert site.build() == library
    assert len(site.compiled) == count
    assert sorted(path.name for path in library.parent.iterdir()) == [
        LIBRARY_NAME,
        LOCK_NAME,
    ]


def test_changed_mpi_library_changes_fingerprint(site):
    plans = {plan_build(site.mpicc, os.environ, cache=site.cache).fingerprint}
    info = site.library.stat()
    os.utime(site.library, ns=(info.st_atime_ns, info.st_mtime_ns + 1))
    plans.add(plan_build(site.mpicc, os.environ, cache=site.cache).fingerprint)
    site.library.write_bytes(b"an MPI library, longer")
    plans.add(plan_build(site.mpicc, os.environ, cache=site.cache).fingerprint)
    assert len(plans) == 3


def test_changed_build_id_changes_fingerprint(site):
    fingerprints = set()
    for identity in ("0x0123", "0x4567"):
        subprocess.run(
            [
                *("cc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", site.library),
                f"-Wl,--build-id={identity}",
            ],
            check=True,
        )
        os.utime(site.library, (1, 1))
        fingerprints.add(
            (plan_build(site.mpicc, os.environ).fingerprint, site.library.stat().st_size)
        )
    assert len(fingerprints) == 2
    assert len({size for _, size in fingerprints}) == 1


def test_changed_source_or_wrapper_changes_fingerprint(site, tmp_path, monkeypatch):
    first = plan_build(site.mpicc, os.environ).fingerprint
    shm, interposer = under_test._source_folders()
    copy = tmp_path / "interposer"
    shutil.copytree(interposer, copy)
    monkeypatch.setattr(under_test, "_source_folders", lambda: (shm, copy))
    assert plan_build(site.mpicc, os.environ).fingerprint == first
    for name in ("wait/library_yields.c", "base/calls.h"):
        with (copy / name).open("a") as file:
            file.write("\n")
        second = plan_build(site.mpicc, os.environ).fingerprint
        assert second != first
        first = second
    site.write(name="mpi_other")
    assert plan_build(site.mpicc, os.environ).fingerprint != first


def test_failed_build_is_one_line_and_leaves_no_library(site):
    site.write(extra='echo "x.c:1: error: no such thing" >&2; exit 1')
    with pytest.raises(CoschedError, match=r"cannot build .*: x.c:1: error: no such thing"):
        site.build()
    assert not list(site.cache.rglob("*.so"))
    site.write()
    assert site.build().is_file()


def test_cache_that_others_can_write_is_refused(site):
    library = site.build()
    library.parent.chmod(0o777)
    with pytest.raises(CoschedError, match="other users can change it"):
        site.build()


def test_installations_build_is_used_unless_others_can_write_it(site, monkeypatch):
    monkeypatch.setattr(under_test.sys, "prefix", str(site.root / "opt"))
    environ = {**os.environ, "XDG_CACHE_HOME": str(site.root / "user")}
    own = plan_build(site.mpicc, environ).library
    assert own.is_relative_to(site.root / "user/cosched/shim")
    shared = make_shim(for_all_users(plan_build(site.mpicc, environ)))
    assert shared.is_relative_to(site.root / "opt")
    assert shared.parent.stat().st_mode & 0o777 == 0o755
    assert make_shim(plan_build(site.mpicc, environ)) == shared
    shared.parent.chmod(0o777)
    assert make_shim(plan_build(site.mpicc, environ)) == own


def test_installations_build_is_not_used_if_a_preload_cannot_name_it(site, monkeypatch):
    monkeypatch.setattr(under_test.sys, "prefix", str(site.root / "my opt"))
    environ = {**os.environ, "XDG_CACHE_HOME": str(site.root / "user")}
    own = make_shim(plan_build(site.mpicc, environ))
    make_shim(for_all_users(plan_build(site.mpicc, environ)))
    assert make_shim(plan_build(site.mpicc, environ)) == own


def test_release_build_serves_each_build_of_the_same_interface(site, monkeypatch):
    monkeypatch.setattr(under_test.sys, "prefix", str(site.root / "opt"))
    environ = {**os.environ, "XDG_CACHE_HOME": str(site.root / "user")}
    built = make_shim(for_release(plan_build(site.mpicc, environ)))
    count = len(site.compiled)
    site.library.write_bytes(b"the same after a security update")
    assert make_shim(plan_build(site.mpicc, environ)) == built
    assert len(site.compiled) == count
    site.library.rename(site.library.with_name("libmpi.so.13"))
    assert plan_build(site.mpicc, environ).library != built


def test_release_build_goes_with_the_mpi_of_its_installation(
    tmp_path, nothing, monkeypatch
):
    places = [tmp_path / "first", tmp_path / "second"]
    for place in places:
        place.mkdir()
    first, second = (Site(place, nothing) for place in places)
    monkeypatch.setattr(under_test.sys, "prefix", str(first.root))
    built = make_shim(for_release(plan_build(first.mpicc, os.environ)))
    inside = built.relative_to(first.root)
    shutil.copytree(first.root / inside.parent, second.root / inside.parent)
    monkeypatch.setattr(under_test.sys, "prefix", str(second.root))
    assert plan_build(second.mpicc, os.environ).library == second.root / inside
    second.library.write_bytes(b"an MPI library of another version")
    assert plan_build(second.mpicc, os.environ).library != second.root / inside


def test_own_build_of_an_mpi_comes_before_that_of_the_release(site, monkeypatch):
    monkeypatch.setattr(under_test.sys, "prefix", str(site.root / "opt"))
    plan = plan_build(site.mpicc, os.environ)
    of_release = make_shim(for_release(plan))
    own = make_shim(for_all_users(plan))
    assert plan_build(site.mpicc, os.environ).library == own != of_release


def test_build_of_another_version_serves_no_release(site, tmp_path, monkeypatch):
    monkeypatch.setattr(under_test.sys, "prefix", str(site.root / "opt"))
    environ = {**os.environ, "XDG_CACHE_HOME": str(site.root / "user")}
    built = make_shim(for_release(plan_build(site.mpicc, environ)))
    shm, interposer = under_test._source_folders()
    copy = tmp_path / "interposer"
    shutil.copytree(interposer, copy)
    monkeypatch.setattr(under_test, "_source_folders", lambda: (shm, copy))
    assert plan_build(site.mpicc, environ).library == built
    (copy / "life.c").write_text("int x;")
    assert plan_build(site.mpicc, environ).library != built


def test_libraries_of_a_node_without_packages_for_compiling(site, tmp_path, monkeypatch):
    with_links = plan_build(site.mpicc, os.environ).libraries
    site.library.rename(tmp_path / "libmpi.so.12")
    monkeypatch.setattr(under_test, "_SYSTEM", tmp_path)
    assert with_links == (site.library,)
    assert plan_build(site.mpicc, os.environ).libraries == (tmp_path / "libmpi.so.12",)


def test_other_cache_than_the_usual_one_is_remarked(site):
    usual = site.root / "user"
    usual.mkdir(mode=0o777)
    usual.chmod(0o777)
    home = site.root / "home"
    environ = {**os.environ, "XDG_CACHE_HOME": str(usual), "HOME": str(home)}
    plan = plan_build(site.mpicc, environ)
    folder = home / ".cache/cosched/shim"
    assert make_shim(plan).is_relative_to(folder)
    assert plan.remark == (
        f"{usual}: other users can change it; builds are kept in {folder}"
    )


def test_standard_abi_adds_option_for_intel_wrapper(site):
    with pytest.raises(CoschedError, match="not for MPI 5's standard ABI"):
        site.build(standard_abi=True)
    fakes.executable(site.mpicc.with_name("mpigcc"), "")
    site.build(standard_abi=True)
    assert all(f"{site.root} -mpi_abi -std" in line for line in site.compiled)


def test_intel_wrapper_gets_its_root(site, tmp_path):
    fakes.executable(site.mpicc.with_name("mpigcc"), "")
    given = {**os.environ, "I_MPI_ROOT": "/elsewhere", "XDG_CACHE_HOME": str(tmp_path)}
    library = make_shim(plan_build(site.mpicc, given))
    assert library.is_relative_to(tmp_path / "cosched/shim")
    assert all(line.startswith("/elsewhere -std") for line in site.compiled)


@pytest.mark.parametrize("printed", ["", "cc -I/home/o'neil/include"])
def test_wrapper_without_a_command_line_is_an_error(site, printed):
    fakes.executable(site.mpicc, f'#!/bin/sh\necho "{printed}"\n')
    with pytest.raises(CoschedError, match="is it an MPI compiler wrapper"):
        site.build()
    with pytest.raises(CoschedError, match="no C compiler for the MPI interposer"):
        make_shim(plan_build(site.root / "none", os.environ, cache=site.cache))
