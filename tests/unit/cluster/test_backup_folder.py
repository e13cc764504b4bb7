"""A backup of a domain: its content, its refusals, and that these leave nothing."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from cosched.cluster.backup import BEFORE, back_up, restore
from cosched.cluster.paths import DomainPaths
from cosched.cluster.store import JobStore
from cosched.core.errors import CoschedError
from cosched.rundir.lock import DaemonLock
from tests.places import ROOT


@pytest.fixture
def paths(tmp_path):
    paths = DomainPaths(tmp_path / "run")
    paths.keys.mkdir(parents=True)
    (paths.keys / "n1.secret").write_text("secret")
    (paths.keys / "n1.secret").chmod(0o600)
    paths.config.write_text('name = "here"\n')
    store = JobStore(paths.store, ["n1"])
    store.save_drain("n1", "a new disk")
    yield paths
    store.close()


def drains(path):
    store = JobStore(path, ["n1"])
    try:
        return store.drains()
    finally:
        store.close()


def test_backup_has_what_an_open_store_has_not_merged(paths, tmp_path):
    assert paths.store.with_name("jobs.sqlite-wal").stat().st_size > 0
    kept = tmp_path / "a" / "kept"
    assert back_up(paths, kept) == ["domain.toml", "jobs.sqlite", "keys"]
    assert (kept / "keys/n1.secret").stat().st_mode & 0o777 == 0o600
    assert (kept / "jobs.sqlite").stat().st_mode & 0o777 == 0o600
    assert drains(kept / "jobs.sqlite") == {"n1": "a new disk"}


def test_existing_folder_is_refused(paths, tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    with pytest.raises(CoschedError, match=f"{kept}: exists already; name a new folder"):
        back_up(paths, kept)
    assert list(kept.iterdir()) == []


def test_directory_without_a_domain_is_refused(tmp_path):
    with pytest.raises(CoschedError, match=r"domain\.toml: is missing"):
        back_up(DomainPaths(tmp_path), tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_damaged_store_leaves_no_backup(paths, tmp_path):
    paths.mates.write_bytes(b"no database at all, but long enough to be one" * 99)
    with pytest.raises(CoschedError, match=r"mates\.sqlite: .*it cannot be copied"):
        back_up(paths, tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_full_disk_of_the_backup_is_named_and_leaves_no_backup(paths, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    script = f"""
mount -t tmpfs -o size=8k none {small}
exec {sys.executable} -c '
from pathlib import Path
from cosched.cluster.backup import back_up
from cosched.cluster.paths import DomainPaths
from cosched.core.errors import CoschedError
try:
    back_up(DomainPaths(Path("{paths.run_dir}")), Path("{small}/kept"))
except CoschedError as error:
    print(error, list(Path("{small}").iterdir()))
'"""
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.startswith(f"{small}/kept/jobs.sqlite: ")
    assert done.stdout.endswith("; free space on its disk, then try again []\n")
    assert drains(paths.store) == {"n1": "a new disk"}


def test_restored_store_takes_the_place_of_the_present_one(paths, tmp_path):
    kept = tmp_path / "kept"
    back_up(paths, kept)
    (kept / "keys/n2.public").write_text("not taken: the domain has keys")
    aside = paths.store.with_name(f"jobs.sqlite{BEFORE}")
    with closing(sqlite3.connect(paths.store, isolation_level=None)) as present:
        present.execute("UPDATE drains SET reason = 'first'")
    assert restore(paths, kept) == ["jobs.sqlite"]
    assert drains(paths.store) == {"n1": "a new disk"}
    assert drains(aside) == {"n1": "first"}
    with pytest.raises(CoschedError, match="is the store before an earlier restore"):
        restore(paths, kept)
    assert drains(aside) == {"n1": "first"}
    assert not (paths.keys / "n2.public").exists()
    assert not paths.controller_lock.exists()


def test_present_stores_stay_if_one_cannot_be_copied(paths, tmp_path):
    kept = tmp_path / "kept"
    back_up(paths, kept)
    (kept / "mates.sqlite").write_bytes(
        b"no database at all, but long enough to be one" * 99
    )
    with closing(sqlite3.connect(paths.store, isolation_level=None)) as present:
        present.execute("UPDATE drains SET reason = 'present'")
    before = sorted(path.name for path in paths.directory.iterdir())
    with pytest.raises(CoschedError, match=r"mates\.sqlite: .*it cannot be copied"):
        restore(paths, kept)
    assert drains(paths.store) == {"n1": "present"}
    assert sorted(path.name for path in paths.directory.iterdir()) == before


def test_missing_parts_are_restored(paths, tmp_path):
    kept = tmp_path / "kept"
    back_up(paths, kept)
    new = DomainPaths(tmp_path / "new" / "run")
    assert restore(new, kept) == ["jobs.sqlite", "domain.toml", "keys"]
    assert new.config.read_text() == paths.config.read_text()
    assert (new.keys / "n1.secret").stat().st_mode & 0o777 == 0o600


def test_folder_without_a_backup_is_refused(paths, tmp_path):
    with pytest.raises(CoschedError, match=r"is no backup: it has no domain\.toml"):
        restore(paths, tmp_path)


def test_controller_that_is_up_keeps_its_store(paths, tmp_path):
    kept = tmp_path / "kept"
    back_up(paths, kept)
    lock = DaemonLock(paths.controller_lock)
    assert lock.acquire()
    with pytest.raises(CoschedError, match="its controller is up; end it first"):
        restore(paths, kept)
    lock.release()
    assert not paths.store.with_name(f"jobs.sqlite{BEFORE}").exists()
