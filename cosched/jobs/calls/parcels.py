"""Writes and reads what one process of a user gives to another one, in files.

A function, its arguments and its result are pickled. A process that unpickles a file runs
code of the file's writer. So each file has the mode 0600, and a process reads only files of
its own user, in a folder into which only this user can write. No pickle passes a socket.
"""

from __future__ import annotations

import os
import pickle
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import cloudpickle

from cosched.core.errors import CoschedError
from cosched.linux.files.owners import is_open_to_others
from cosched.linux.files.whole import PRIVATE, write_whole, writing_whole
from cosched.linux.homes import cache_home

_BELOW_CACHE = "cosched/calls"
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Failure(NamedTuple):
    """An exception of a call, as it travels."""

    #: The pickled exception: reading it may fail, and ``text`` still tells what happened.
    pickled: bytes
    text: str  #: the traceback, in words


def make_folder(parent: Path | None) -> Path:
    """Makes a folder for parcels that only this user can enter. parent: by default it is in
    the user's cache. Raises CoschedError if that fails."""
    where = parent or cache_home(os.environ) / _BELOW_CACHE
    try:
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="calls-", dir=where)).absolute()
    except OSError as error:
        raise CoschedError(f"{where}: {error.strerror}; name another folder") from None


def write_calls(
    path: Path, function: Callable[..., Any], arguments: Iterable[Sequence[Any]]
) -> list[int]:
    """Writes a function once, and the arguments of each of its calls. Returns where each
    call begins in the file. Raises CoschedError if something cannot be pickled."""
    begins: list[int] = []
    with writing_whole(path, PRIVATE) as file:
        pickle.dump([os.getcwd() if place == "" else place for place in sys.path], file)
        file.write(_pickled(function, f"the function {name_of(function)}"))
        for each in arguments:
            begins.append(file.tell())
            file.write(_pickled(each, f"the arguments of call {len(begins)}"))
    return begins


def read_call(path: Path, begin: int) -> tuple[Callable[..., Any], Sequence[Any]]:
    """Returns a function and the arguments of one call. Modules are found as in the process
    that wrote them."""
    with _open_own(path) as file:
        given = pickle.load(file)
        sys.path[:] = [*given, *(place for place in sys.path if place not in given)]
        function = pickle.load(file)
        file.seek(begin)
        return function, pickle.load(file)


def write_result(path: Path, value: Any) -> None:
    """Writes the result of a call. Raises CoschedError if it cannot be pickled."""
    write_whole(path, _pickled(value, "the result"), PRIVATE)


def write_failure(path: Path, error: BaseException, text: str) -> None:
    """Writes the exception of a call. One that cannot be pickled becomes a RuntimeError."""
    try:
        pickled = _pickled(error, "the exception")
    except CoschedError:
        pickled = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    write_whole(path, pickle.dumps(tuple(Failure(pickled, text))), PRIVATE)


def read_parcel(path: Path) -> Any:
    """Returns a result. Raises FileNotFoundError if there is none, and CoschedError if it
    cannot be read."""
    with _open_own(path) as file:
        return _unpickled(file.read(), path)


def read_failure(path: Path) -> tuple[BaseException, str]:
    """Returns the exception of a call and its traceback in words. Raises FileNotFoundError
    if there is none."""
    failure = Failure(*read_parcel(path))
    try:
        error = _unpickled(failure.pickled, path)
    except CoschedError as why:
        return why, failure.text
    assert isinstance(error, BaseException)
    return error, failure.text


def name_of(function: Callable[..., Any]) -> str:
    """Returns the name of a function for users."""
    inner = getattr(function, "func", function)  # of functools.partial
    name: str = getattr(inner, "__name__", type(inner).__name__)
    return name


def _pickled(value: Any, what: str) -> bytes:
    try:
        data: bytes = cloudpickle.dumps(value)
    except Exception as error:
        raise CoschedError(
            f"{what}: cannot be sent to another process: {_line(error)}"
        ) from error
    return data


def _unpickled(data: bytes, path: Path) -> Any:
    try:
        return pickle.loads(data)
    except Exception as error:
        raise CoschedError(f"{path}: cannot be read: {_line(error)}") from error


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _open_own(path: Path) -> BinaryIO:
    """Opens a file of this user into which no other user can write, in such a folder."""
    folder = path.parent.stat()
    file = open(os.open(path, _OPEN), "rb")  # noqa: SIM115  (the caller closes it)
    problem = _problem_with(folder, os.fstat(file.fileno()))
    if problem:
        file.close()
        raise CoschedError(f"{path}: {problem}, so it is not read")
    return file


def _problem_with(folder: os.stat_result, file: os.stat_result) -> str:
    """Returns why a file is not trusted; empty if it is."""
    for each in (folder, file):
        if each.st_uid != os.geteuid() or is_open_to_others(each):
            return "another user can change it"
    return "" if stat.S_ISREG(file.st_mode) else "is not a regular file"
