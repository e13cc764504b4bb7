"""Copies a domain's stores, settings and keys into a folder, and back.

A folder of a backup has the job store, the store of a coupling, ``domain.toml`` and the
keys. SQLite copies the stores, each in one state, while a controller may change them. Jobs
that run are no part of it. After a restore, as after any restart, the controller compares
its store with the reports of the agents.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from cosched.cluster.database import copy_database
from cosched.cluster.paths import DomainPaths
from cosched.core.errors import CoschedError
from cosched.documents import is_there
from cosched.linux.files.owners import refuse_foreign
from cosched.linux.files.whole import write_whole
from cosched.rundir.lock import locked

#: Put behind the name of a store that a backup has replaced.
BEFORE = ".before"
#: Put behind the name of a part of a backup until all of it is there.
_NEW = ".new"
#: SQLite's own files beside a store, by what is behind its name.
_PARTS = ("", "-wal", "-shm")


def back_up(paths: DomainPaths, folder: Path) -> list[str]:
    """Writes a backup of a domain into a new folder of mode 0700; returns the names in it.

    Raises CoschedError if the folder exists or a part cannot be copied; then nothing is
    left of the folder."""
    if not is_there(paths.config):
        raise CoschedError(f"{paths.config}: is missing; no domain was written there")
    refuse_foreign(paths.run_dir)
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise CoschedError(f"{folder}: exists already; name a new folder") from None
    except OSError as error:
        raise CoschedError(f"{folder}: {error.strerror}") from None
    try:
        for store in _stores(paths):
            if store.exists():
                copy_database(store, folder / store.name)
        _copy_missing(paths.directory, folder, paths)
    except BaseException:
        shutil.rmtree(folder)
        raise
    return _names(folder)


def restore(paths: DomainPaths, folder: Path) -> list[str]:
    """Brings the stores of a backup back, and the settings and keys that are missing now;
    returns the names of all that was restored.

    A store that is there keeps its content under its name and BEFORE. Raises CoschedError
    if such a file is there already, if a controller is up, or if the folder is no backup.
    If a store cannot be copied, the present ones stay.
    """
    if not (folder / paths.config.name).is_file():
        raise CoschedError(
            f"{folder}: is no backup: it has no {paths.config.name}; name a folder that "
            "cosched cluster backup has written"
        )
    refuse_foreign(paths.run_dir)
    try:
        paths.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise CoschedError(f"{paths.directory}: {error.strerror}") from None
    with locked(paths.controller_lock) as mine:
        if not mine:
            raise CoschedError(
                f"{paths.run_dir}: its controller is up; end it first: systemctl stop "
                "cosched-controller, or cosched cluster down"
            )
        stores = [store for store in _stores(paths) if (folder / store.name).exists()]
        for store in stores:
            _check_aside(store)
        try:
            for store in stores:
                _remove_new(store)  # a killed restore left it
                copy_database(folder / store.name, _new(store))
            for store in stores:
                _put_aside(store)
                _new(store).rename(store)
        finally:
            for store in stores:
                _remove_new(store)
        restored = [store.name for store in stores]
        return restored + _copy_missing(folder, paths.directory, paths)


def _stores(paths: DomainPaths) -> tuple[Path, Path]:
    return paths.store, paths.mates


def _check_aside(store: Path) -> None:
    """Raises CoschedError if a store that was put aside would be lost."""
    aside = store.with_name(f"{store.name}{BEFORE}")
    if store.exists() and aside.exists():
        raise CoschedError(
            f"{aside}: is the store before an earlier restore; move or remove it first"
        )


def _new(part: Path) -> Path:
    return part.with_name(f"{part.name}{_NEW}")


def _remove_new(store: Path) -> None:
    for part in _PARTS:
        store.with_name(f"{store.name}{_NEW}{part}").unlink(missing_ok=True)


def _put_aside(store: Path) -> None:
    """Renames a store, with changes that a killed controller has not moved into it."""
    for part in _PARTS:
        old = store.with_name(f"{store.name}{part}")
        if old.exists():
            old.rename(store.with_name(f"{store.name}{BEFORE}{part}"))


def _copy_missing(source: Path, target: Path, paths: DomainPaths) -> list[str]:
    """Copies settings and keys that ``target`` lacks; returns their names."""
    copied = []
    try:
        for part in (paths.config, paths.numbering, paths.keys, paths.peers):
            name = part.name
            old, new = source / name, target / name
            if not old.exists() or new.exists():
                continue
            if old.is_dir():
                shutil.rmtree(_new(new), ignore_errors=True)  # a killed restore left it
                shutil.copytree(old, _new(new))
                _new(new).rename(new)
            else:
                write_whole(new, old.read_bytes())
            copied.append(name)
    except (OSError, shutil.Error) as error:
        raise CoschedError(f"{target}: cannot be written: {error}") from None
    return copied


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
