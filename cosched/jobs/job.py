"""Defines a job as its user wants it in a domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple
from cosched.linux.system_text import to_wire

#: The fields of a job that are numbers.
_NUMBERS = (
    *("ranks", "nodes", "ppn", "minimum", "ideal", "preferred", "time_s", "cpus"),
    "memory_bytes",
)


class Job(NamedTuple):
    """A job for a domain.

    Either ``ranks``, or ``nodes`` and ``ppn`` are given. A malleable job has ``minimum``
    and ``ideal`` in place of ``ranks`` and ``nodes``, and one rank a node if ``ppn`` is 0.
    """

    argv: Sequence[str]  #: the program and its arguments
    ranks: int = 0  #: tasks in all; 0: not given
    nodes: int = 0  #: the number of nodes; 0: not given
    ppn: int = 0  #: ranks on each node; 0: not given
    minimum: int = 0  #: the least nodes of a malleable job; 0: it is rigid
    #: The most nodes of a malleable job; 0: as many as the domain has.
    ideal: int = 0
    #: The nodes beyond which it grows only while no job waits; 0: its ideal.
    preferred: int = 0
    time_s: float = 0  #: the job's time limit; 0: the domain's usual one, or none
    name: str = ""  #: shown to users; empty: the program's
    #: A file, in ``cwd`` unless it begins with ``/``. In its name ``%j`` is the job's
    #: number and ``%x`` the job's name; ``%A`` is the number of its array, ``%a`` its index
    #: there.
    output: str = "cosched-%j.out"
    error: str = ""  #: a file as for ``output``; empty: both streams go to ``output``
    #: A file, in ``cwd`` unless it begins with ``/``; ``-``: the data that
    #: ``Client.give_input`` sends.
    input: str = "/dev/null"
    label: bool = False  #: begin each line of output with its rank
    bind: bool = False  #: keep each rank on one CPU
    held: bool = False  #: wait until ``unhold``
    requeue: bool = False  #: start the job again if a node is lost
    at_once: bool = False  #: the domain refuses the job unless it can start now
    exclusive: bool = False  #: its nodes take no other job meanwhile
    share: bool = False  #: its CPUs may have other jobs that share, too
    #: CPUs on each of its nodes, where jobs have CPUs; 0: one for each rank.
    cpus: int = 0
    features: Sequence[str] = ()  #: that each of its nodes must have
    #: How many of each count it needs on each node, and of each licence in all.
    needs: Mapping[str, int] | None = None
    #: The resources that limit it most: cpu, memory, io, network; (): not known. With one
    #: of them it may share its nodes.
    limited_by: Sequence[str] = ()
    #: Whether it may share its nodes, half and half; None: if it names ``limited_by``, or
    #: if the domain's operator wants it.
    share_node: bool | None = None
    #: Jobs in other domains that start with this one, each ``GROUP@DOMAIN``; (): none.
    mates: Sequence[str] = ()
    within: str = ""  #: the most time between the starts, such as ``60s``; empty: 0
    #: The domain whose job starts first; empty: all start together.
    mate_first: str = ""
    delay: str = ""  #: how long the first job runs before the others start; empty: 0
    #: A word that all jobs of the group have if they belong to different users; empty:
    #: none.
    mate_token: str = ""
    #: A prefix, an mpiexec, ``mpich``, ``openmpi`` or ``none``; None: the MPI that the
    #: program uses.
    mpi: str | None = None
    shim: bool = True  #: whether the job takes part in coscheduling
    memory_bytes: int = 0  #: its need on each node; 0: unknown
    #: Variables of all tasks; None: those of this process.
    environ: Mapping[str, str] | None = None
    cwd: str = ""  #: the working directory; empty: that of this process
    #: The tasks of an array, such as ``1-100%10``: each is this job once more, with its
    #: index in ``COSCHED_ARRAY_TASK_ID``. At most so many run at a time as the number
    #: behind ``%``. Empty: one job.
    array: str = ""
    #: Whether the tasks of the array also get the variables that Slurm gives them.
    slurm_variables: bool = False
    #: Jobs that must end before this one starts, well or not: ``12``, ``12_3``, ``12_1-5``.
    after: Sequence[int | str] = ()
    after_ok: Sequence[int | str] = ()  #: the same, and each of them must end well

    def check(self) -> None:
        """Raises CoschedError for a job that cannot be sent."""
        if isinstance(self.argv, str) or not self.argv or not self.argv[0]:
            raise CoschedError("a job needs a program: a list of words")
        for name in _NUMBERS:
            if isinstance(value := getattr(self, name), str):
                raise CoschedError(f"{name}: {value!a} is a text, not a number")
        for word in (*self.argv, self.output, self.error, self.input, self.cwd):
            to_wire(word)
        mates = (*self.mates, self.within, self.mate_first, self.delay, self.mate_token)
        batch = (self.array, *map(str, (*self.after, *self.after_ok)))
        for word in (self.name, *mates, *batch):
            if not _is_text(word):
                raise CoschedError(f"{word!a}: is not UTF-8 without NUL")

    @property
    def total(self) -> int:
        """The number of its ranks; of a malleable job, at its ideal."""
        return self.ranks or max(self.nodes, self.ideal, 1) * max(self.ppn, 1)


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
