"""Defines a job as its user wants it in a domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cosched.core.errors import CoschedError
from cosched.linux.system_text import to_wire


@dataclass(frozen=True, slots=True)
class Job:
    """A job for a domain.

    argv: the program and its arguments. Either ``ranks``, or ``nodes`` and ``ppn`` (ranks
    on each node) are given; 0 means not given. time_s: its time limit; 0: the domain's
    usual one. name: by default the program's. output, error, input: files, in ``cwd``
    unless they begin with ``/``. In the names of outputs ``%j`` is the job's number and
    ``%x`` its name. The input ``-`` is what ``Client.give_input`` gives. Without ``error``
    both streams go to ``output``. label: begin each line with its rank. bind: keep each
    rank on one CPU. held: wait until ``unhold``. requeue: start the job again if a node is
    lost. at_once: the domain refuses the job unless it can start now. exclusive: its nodes
    take no other job meanwhile.

    mates: jobs in other domains that start with this one, each ``GROUP@DOMAIN``. within:
    the starts may be so far apart, such as ``60s``. after: the domain whose job starts
    first; delay: how long it runs before the others start. mate_token: if the jobs
    belong to different users, a word that all of them have.

    mpi: a prefix, an mpiexec, ``mpich``, ``openmpi``, ``none``; by default the one that the
    program uses. shim: whether it takes part in coscheduling. memory_bytes: its need on
    each node. environ, cwd: by default those of this process.
    """

    argv: Sequence[str]
    ranks: int = 0
    nodes: int = 0
    ppn: int = 0
    time_s: float = 0
    name: str = ""
    output: str = "cosched-%j.out"
    error: str = ""
    input: str = "/dev/null"
    label: bool = False
    bind: bool = False
    held: bool = False
    requeue: bool = False
    at_once: bool = False
    exclusive: bool = False
    mates: Sequence[str] = ()
    within: str = ""
    after: str = ""
    delay: str = ""
    mate_token: str = ""
    mpi: str | None = None
    shim: bool = True
    memory_bytes: int = 0
    environ: Mapping[str, str] | None = None
    cwd: str = ""

    def check(self) -> None:
        """Raises CoschedError for a job that cannot be sent."""
        if isinstance(self.argv, str) or not self.argv or not self.argv[0]:
            raise CoschedError("a job needs a program: a list of words")
        for word in (*self.argv, self.output, self.error, self.input, self.cwd):
            to_wire(word)
        mates = (*self.mates, self.within, self.after, self.delay, self.mate_token)
        for word in (self.name, *mates):
            if not _is_text(word):
                raise CoschedError(f"{word!a}: is not UTF-8 without NUL")

    @property
    def total(self) -> int:
        """The number of its ranks."""
        return self.ranks or max(self.nodes, 1) * max(self.ppn, 1)


def sendable(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Returns the variables that a process can have, and the names of the others."""
    kept = {
        name: text for name, text in environ.items() if _is_word(name) and _is_word(text)
    }
    return kept, [name for name in environ if name not in kept]


def _is_word(text: str) -> bool:
    try:
        to_wire(text)
    except CoschedError:
        return False
    return True


def _is_text(word: str) -> bool:
    try:
        return b"\0" not in word.encode()
    except UnicodeEncodeError:
        return False
