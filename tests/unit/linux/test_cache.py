"""Where compiled code is kept: each folder above it counts, and noexec mounts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cosched.core.errors import CoschedError
from cosched.launch.compile import build_once
from cosched.linux.files import cache, owners
from cosched.linux.files.cache import choose_cache, problem_with
from tests.places import ROOT

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes files of other users")
OTHER = 54322


@pytest.fixture
def xdg():
    """A folder in which all users can make names, as /tmp."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="cosched-cache-test-"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def environ(xdg, tmp_path):
    return {"XDG_CACHE_HOME": str(xdg), "HOME": str(tmp_path)}


def made(scratch):
    path = scratch / "made"
    path.write_text("ours")
    return path


def test_a_folder_like_tmp_is_safe_by_the_owner_of_the_next_one(xdg, environ):
    place = choose_cache(environ, "shim")
    assert (place.folder, place.remark) == (xdg / "cosched/shim", "")
    assert build_once(place.folder / "x/lib.so", made).read_text() == "ours"


@needs_root
@pytest.mark.parametrize("foreign", ["cosched", "cosched/shim", "cosched/shim/x"])
def test_a_folder_of_another_user_above_the_code_is_not_used(
    xdg, environ, tmp_path, foreign
):
    library = xdg / "cosched/shim/x/lib.so"
    build_once(library, made)
    os.chown(xdg / foreign, OTHER, OTHER)
    with pytest.raises(CoschedError, match="uid 54322 can change it; set XDG_CACHE_HOME"):
        build_once(library, made)
    if foreign != "cosched/shim/x":
        place = choose_cache(environ, "shim")
        assert place.folder == tmp_path / ".cache/cosched/shim"
        assert place.remark == (
            f"{xdg}/cosched/shim: uid 54322 can change it; "
            f"builds are kept in {tmp_path}/.cache/cosched/shim"
        )


def test_a_folder_that_others_can_write_is_not_built_into(xdg):
    (xdg / "cosched/shim").mkdir(parents=True)
    (xdg / "cosched").chmod(0o777)
    built = []
    with pytest.raises(CoschedError, match="cosched: other users can change it"):
        build_once(xdg / "cosched/shim/x/lib.so", built.append)
    assert built == []


@needs_root
def test_a_link_of_another_user_on_the_way_is_not_followed(xdg, tmp_path):
    build_once(tmp_path / "shim/x/lib.so", made)
    (xdg / "cosched").symlink_to(tmp_path)
    os.chown(xdg / "cosched", OTHER, OTHER, follow_symlinks=False)
    assert "uid 54322 can change it" in problem_with(xdg / "cosched/shim/x/lib.so")


def test_places_of_the_user_below_tmp_follow(xdg, environ, tmp_path, monkeypatch):
    (xdg / "shared").mkdir()
    (xdg / "shared").chmod(0o1777)
    monkeypatch.setattr(cache, "SHARED", (xdg / "none", xdg / "shared"))
    (xdg / "cosched").mkdir()
    (xdg / "cosched").chmod(0o777)
    tmp_path.chmod(0o777)
    place = choose_cache(environ, "shim")
    assert place.folder == xdg / f"shared/cosched-cache-{os.geteuid()}/shim"
    (xdg / "shared").chmod(0o777)
    with pytest.raises(CoschedError, match="cosched: other users can change it; set XDG"):
        choose_cache(environ, "shim")


def test_a_place_that_cannot_be_made_is_left_out(xdg, environ, tmp_path, monkeypatch):
    """Homes such as /nonexistent, and homes that are mounted read-only, take no builds."""
    monkeypatch.setattr(cache, "SHARED", (xdg,))
    environ["XDG_CACHE_HOME"] = environ["HOME"] = str(tmp_path / "file")
    (tmp_path / "file").touch()
    place = choose_cache(environ, "shim")
    assert place.folder == xdg / f"cosched-cache-{os.geteuid()}/shim"
    assert place.remark == (
        f"{tmp_path}/file/cosched/shim: cannot be made; builds are kept in {place.folder}"
    )


@pytest.mark.parametrize("name", ["my cache", "a:b"])
def test_a_place_that_a_preload_cannot_name_is_left_out(xdg, environ, tmp_path, name):
    environ["XDG_CACHE_HOME"] = str(xdg / name)
    place = choose_cache(environ, "shim")
    assert place.folder == tmp_path / ".cache/cosched/shim"
    assert "with a blank or a colon cannot be preloaded; builds are kept in" in place.remark


@needs_root
def test_a_home_of_another_user_is_left_out(xdg):
    """``su`` and containers may leave HOME as it was."""
    home = xdg / "home"
    home.mkdir(mode=0o700)
    script = f"""
import os
from pathlib import Path
from cosched.linux.files import cache
cache.SHARED = (Path("{xdg}"),)
os.setgroups(())
os.setresuid({OTHER}, {OTHER}, {OTHER})
print(*cache.choose_cache({{"HOME": "{home}"}}, "shim"), sep="\\n")
"""
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, check=True, capture_output=True, text=True, cwd=ROOT)
    folder = f"{xdg}/cosched-cache-{OTHER}/shim"
    assert done.stdout.splitlines() == [
        folder,
        f"{home}/.cache: Permission denied; builds are kept in {folder}",
    ]


def test_folders_up_to_a_trusted_one_do_not_count(xdg):
    trusted = xdg / "opt"
    (trusted / "lib").mkdir(parents=True)
    trusted.chmod(0o777)
    assert problem_with(trusted / "lib/x.so", trusted) is None
    (trusted / "lib").chmod(0o777)
    assert problem_with(trusted / "lib/x.so", trusted) is not None


def test_a_group_of_the_owner_alone_may_write(xdg, monkeypatch):
    (xdg / "a").mkdir()
    (xdg / "a").chmod(0o775)
    monkeypatch.setattr(owners, "_is_group_of_one", lambda gid, uid: True)
    assert problem_with(xdg / "a/x.so") is None
    monkeypatch.setattr(owners, "_is_group_of_one", lambda gid, uid: False)
    assert "other users can change it" in problem_with(xdg / "a/x.so")


@needs_root
def test_a_mount_without_execution_is_reported(tmp_path):
    script = f"""
mount -t tmpfs -o noexec none {tmp_path}
exec {sys.executable} -c '
from cosched.linux.files.cache import choose_cache
home = {{"XDG_CACHE_HOME": "{tmp_path}", "HOME": "{tmp_path.parent}"}}
place = choose_cache(home, "shim")
print(place.folder, place.remark, sep="\\n")
'"""
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT)
    folder = f"{tmp_path.parent}/.cache/cosched/shim"
    assert done.stdout.splitlines() == [
        folder,
        f"{tmp_path}/cosched/shim: its file system lets no program execute (noexec); "
        f"builds are kept in {folder}",
    ]
