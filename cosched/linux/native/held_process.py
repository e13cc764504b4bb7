"""Makes processes that are held until they become their programs.

A fork copies the page tables of its maker, and later each page that one of both writes. For
a maker that runs Python this takes 2 ms of CPU time. So a new process shares the memory of
its maker until it becomes the program, as a child of vfork does, while its maker runs on.
It runs only C that makes system calls.

Limits: the kernel's killer for lack of memory ends the maker with a held process, as
they are one memory. Before Linux 5.16 a core dump of one does the same.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cosched.linux.native._held_process import ffi, lib

#: Signals that Python takes otherwise than a program expects.
_DEFAULTS = (
    *(signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ),
    *(signal.SIGINT, signal.SIGTERM),
)
#: The exit status for a program that cannot be executed, as a shell reports it.
CANNOT_EXECUTE = 126
_CPUS_PER_WORD = 64
_ERROR = struct.Struct("=i")
_OPEN = b"o"


@dataclass(frozen=True, slots=True)
class Program:
    """Describes a program that a held process becomes."""

    path: str  #: its file
    argv: Sequence[str]  #: its arguments, its own name first
    standard: tuple[int, int, int]  #: the descriptors that become its descriptors 0 to 2
    inherited: Sequence[int] = ()  #: other descriptors that it keeps
    cpus: Sequence[int] = ()  #: the CPUs that it may use; empty: any


class HeldProcess:
    """A process that is held. It is the leader of its process group, and it ends when the
    thread ends that made it. Raises OSError if it cannot be made, and ValueError for a word
    with a NUL.

    pid: its id. failure: a descriptor of the maker: at the end of the process it has what
    ``read_failure`` returns.
    """

    def __init__(self, program: Program) -> None:
        self._held = ffi.new("struct cosched_held *")
        self._kept: list[Any] = []  # C reads it until the process has ended
        self._describe(program)
        with contextlib.ExitStack() as mine, contextlib.ExitStack() as its:
            self._held.start_pipe, self._start_pipe = os.pipe2(os.O_CLOEXEC)
            its.callback(os.close, self._held.start_pipe)
            mine.callback(os.close, self._start_pipe)
            self.failure, self._held.failure = os.pipe2(os.O_CLOEXEC)
            its.callback(os.close, self._held.failure)
            mine.callback(os.close, self.failure)
            os.set_blocking(self.failure, False)
            self._held.start_pipe_of_maker = self._start_pipe
            error = -lib.cosched_held_start(self._held)
            if error:
                raise OSError(error, os.strerror(error))
            mine.pop_all()
        self.pid: int = self._held.pid

    def _describe(self, program: Program) -> None:
        held = self._held
        held.path = self._keep(ffi.new("char[]", _encode(program.path)))
        held.argv = self._strings(program.argv)
        held.standard = list(program.standard)
        held.status = CANNOT_EXECUTE
        held.inherited = self._keep(ffi.new("int32_t[]", list(program.inherited)))
        held.inherited_count = len(program.inherited)
        held.defaults = self._keep(ffi.new("int32_t[]", list(_DEFAULTS)))
        held.defaults_count = len(_DEFAULTS)
        words = _words_of(program.cpus)
        held.cpus = self._keep(ffi.new("uint64_t[]", words))
        held.cpu_words = len(words)

    def open(self, environ: Mapping[str, str]) -> None:
        """Lets the process become the program, with this environment. Does nothing if the
        start pipe is closed."""
        if self._start_pipe < 0:
            return
        lines = [f"{name}={value}" for name, value in environ.items()]
        self._held.environ = self._strings(lines)
        with contextlib.suppress(BrokenPipeError):  # it was killed
            os.write(self._start_pipe, _OPEN)
        self.discard()

    def discard(self) -> None:
        """Closes the start pipe: a process that is still held ends with status 0."""
        if self._start_pipe >= 0:
            os.close(self._start_pipe)
            self._start_pipe = -1

    def read_failure(self) -> str:
        """Returns why the process did not become the program; empty if it did."""
        data = os.read(self.failure, _ERROR.size)
        return os.strerror(*_ERROR.unpack(data)) if data else ""

    def close(self) -> None:
        """Frees the memory and the descriptors of a process that has ended."""
        self.discard()
        os.close(self.failure)
        lib.cosched_held_free(self._held)
        self._kept.clear()

    def _strings(self, words: Sequence[str]) -> Any:
        """Returns words as C reads them: pointers to strings, and NULL."""
        strings = [self._keep(ffi.new("char[]", _encode(word))) for word in words]
        return self._keep(ffi.new("char *[]", [*strings, ffi.NULL]))

    def _keep(self, pointer: Any) -> Any:
        self._kept.append(pointer)
        return pointer


def _encode(word: str) -> bytes:
    data = os.fsencode(word)
    if b"\0" in data:
        raise ValueError(f"{word!r} has a NUL")
    return data


def _words_of(cpus: Sequence[int]) -> list[int]:
    """Returns a mask of CPUs in words of 64 bits; none for no CPUs."""
    words = [0] * (max(cpus) // _CPUS_PER_WORD + 1 if cpus else 0)
    for cpu in cpus:
        words[cpu // _CPUS_PER_WORD] |= 1 << cpu % _CPUS_PER_WORD
    return words
