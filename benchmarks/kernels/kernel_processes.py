"""Runs kernels on some CPUs of a node: starts, releases, measures and stops them.

A process of a kernel runs on each CPU. The network kernel and each NAS job are one MPI job
on all of them together, of as many ranks (network: an even number). ``c/kernel.h``
describes their protocol.
"""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchmarks.kernels.build import JOBS, NETWORK, Built
from cosched.core.errors import CoschedError
from cosched.launch.family import Family

#: The variable with the path of an emulated node.
NODE = "KERNEL_NODE"
#: A kernel that prints nothing for this much longer than asked is stuck.
PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class KernelSetup:
    """Describes the place and the data of a kernel."""

    cpus: tuple[int, ...]  #: CPUs of the node, one for each process
    size: int  #: bytes for each process
    folder: Path  #: for the files of the kernels
    #: The memory of the emulated node that they share (``emulated``); None: they have the
    #: machine's own, and each process has a CPU. The CPUs of an emulated node are numbers.
    node: Path | None = None


class Process:
    """A kernel's process, or the launcher of its ranks."""

    def __init__(
        self, name: str, argv: Sequence[str], node: Path | None, stack: ExitStack
    ) -> None:
        self._name = name
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        stack.callback(self._errors.close)
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
            env={**os.environ, **({} if node is None else {NODE: str(node)})},
        )
        stack.callback(self._end)
        self._unread = b""

    def _end(self) -> None:
        """Ends all processes."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def line(self, within_s: float) -> str:
        """Reads the next line; CoschedError if there is none."""
        stream = self._process.stdout
        assert stream is not None
        deadline_s = time.monotonic() + within_s
        while b"\n" not in self._unread:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not select.select([stream], [], [], left_s)[0]:
                raise CoschedError(f"kernel {self._name} said nothing for {within_s:.0f} s")
            data = os.read(stream.fileno(), 4096)
            if not data:
                raise self.failure()
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode("utf-8", "replace")

    def expect(self, word: str) -> None:
        """Checks that the next line is this."""
        line = self.line(PATIENCE_S)
        if line != word:
            raise CoschedError(f"kernel {self._name} said '{line}' instead of '{word}'")

    def go(self) -> None:
        """Starts its work."""
        stream = self._process.stdin
        assert stream is not None
        try:
            stream.write(b"go\n")
        except BrokenPipeError:
            raise self.failure() from None

    def stop(self) -> None:
        """Ends its work."""
        stream = self._process.stdin
        assert stream is not None
        stream.close()

    def rate(self, within_s: float) -> float:
        """Returns the work a second, after its end and if its result is right."""
        words = self.line(within_s).split()
        if len(words) != 4 or words[0] != "work" or words[2] != "seconds":
            raise CoschedError(f"kernel {self._name} said '{' '.join(words)}'")
        if self._process.wait(PATIENCE_S) != 0:
            raise self.failure()
        return float(words[1]) / float(words[3])

    def failure(self) -> CoschedError:
        """Returns the reason of its end."""
        status = self._process.wait(PATIENCE_S)
        self._errors.seek(0)
        said = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        telling = [line for line in said if line.startswith(self._name)] or said
        why = telling[-1] if telling else f"exit status {status}"
        return CoschedError(why if why.startswith(self._name) else f"{self._name}: {why}")


class Occupant:
    """A kernel on a place. seconds: how long it runs; 0: until it is stopped."""

    def __init__(
        self,
        kernel: str,
        built: Built,
        place: KernelSetup,
        seconds: float,
        stack: ExitStack,
    ) -> None:
        self._seconds = seconds
        folder = str(place.folder)
        if kernel in JOBS:
            folder = _own_folder(place.folder, stack)
        tail = [*built.commands[kernel], f"{seconds:g}", str(place.size), folder]
        ranks = len(place.cpus)
        if kernel == NETWORK:
            ranks = max(2, ranks - ranks % 2)
        if kernel == NETWORK or kernel in JOBS:
            starts = [(place.cpus, [*_launcher(built, ranks), *tail])]
        else:
            starts = [((cpu,), tail) for cpu in place.cpus]
        self._processes = [
            Process(kernel, [*_bound(cpus, place), *argv], place.node, stack)
            for cpus, argv in starts
        ]
        for process in self._processes:
            process.expect("ready")

    def go(self) -> None:
        """Starts all processes; returns when each has worked a round."""
        for process in self._processes:
            process.go()
        for process in self._processes:
            process.expect("running")

    def stop(self) -> None:
        """Ends the work of all processes."""
        for process in self._processes:
            process.stop()

    def rate(self) -> float:
        """Work a second, of all processes together."""
        return sum(process.rate(self._seconds + PATIENCE_S) for process in self._processes)


def _own_folder(folder: Path, stack: ExitStack) -> str:
    """Makes a folder for the files of a job. They go with it, also after a kill."""
    try:
        made = tempfile.TemporaryDirectory(prefix="kernel-", dir=folder)
    except OSError as error:
        raise CoschedError(f"{folder}: {error.strerror}") from None
    return stack.enter_context(made)


def _bound(cpus: Sequence[int], place: KernelSetup) -> list[str]:
    """Returns the words that bind a command to CPUs; none on an emulated node."""
    if place.node is not None:
        return []
    return ["taskset", "-c", ",".join(map(str, cpus))]


def _launcher(built: Built, ranks: int) -> list[str]:
    mpi = built.mpi
    if mpi is None:
        raise CoschedError("the network kernel and jobs need an MPI; none was looked for")
    argv = [str(mpi.mpiexec)]
    if mpi.family is Family.OPENMPI:
        argv += ["--bind-to", "none", "--oversubscribe"]
        if os.geteuid() == 0:
            argv.append("--allow-run-as-root")
    return [*argv, "-n", str(ranks)]


@contextmanager
def occupied(
    kernel: str | None, built: Built, place: KernelSetup
) -> Iterator[Occupant | None]:
    """A kernel that runs in the background until the end of the block, and was right."""
    with ExitStack() as stack:
        if kernel is None:
            yield None
            return
        occupant = Occupant(kernel, built, place, 0.0, stack)
        occupant.go()
        yield occupant
        occupant.stop()
        occupant.rate()
