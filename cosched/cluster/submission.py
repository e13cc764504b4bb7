"""Defines what a user submits, and checks it."""

from __future__ import annotations

import msgspec

from cosched.core.errors import CoschedError

#: The longest request of a user, in bytes: arguments and environment of a job.
LONGEST_REQUEST = 16 << 20
LONGEST_NAME = 63
PMIS = ("pmi1", "pmix", "none")


class Submission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job as its user describes it.

    token: differs for each submission, so that one that is sent twice counts once. Either
    ``nodes`` and ``ppn`` (tasks on each node) are given, or ``ranks``, which the controller
    spreads over as few nodes as possible; 0 means not given. time_ns: the run time that the
    user requests; 0: the domain's default. output: a path; ``%j`` stands for the job's
    number and ``%x`` for its name. held: wait until ``unhold``. requeue: start it again if
    a node is lost.
    """

    token: str
    name: str
    argv: tuple[str, ...]
    environ: dict[str, str]
    cwd: str
    umask: int = 0o022
    ranks: int = 0
    nodes: int = 0
    ppn: int = 0
    time_ns: int = 0
    pmi: str = "none"
    pmix_library: str = ""
    bind: bool = False
    input: str = "/dev/null"
    output: str = "cosched-%j.out"
    error: str = ""
    label: bool = False
    held: bool = False
    requeue: bool = False

    def check(self) -> None:
        """Raises CoschedError for a submission that makes no sense."""
        if not self.argv or not self.argv[0]:
            raise CoschedError("a job needs a program")
        if not 0 < len(self.name) <= LONGEST_NAME or not self.name.isprintable():
            raise CoschedError(f"a job's name has 1 to {LONGEST_NAME} characters")
        if min(self.ranks, self.nodes, self.ppn, self.time_ns) < 0:
            raise CoschedError("ranks, nodes, tasks per node and time cannot be negative")
        if self.pmi not in PMIS or (self.pmi == "pmix") != bool(self.pmix_library):
            raise CoschedError(f"pmi '{self.pmi}': must be one of {', '.join(PMIS)}")
        if not self.cwd.startswith("/"):
            raise CoschedError(f"working directory '{self.cwd}': must begin with /")

    def counts(self, slots: int, nodes_most: int) -> tuple[int, ...]:
        """Returns the tasks on each node. slots: tasks that a node takes. nodes_most: the
        domain's nodes. Raises CoschedError if the domain can never run the job."""
        ranks, ppn, nodes = self.ranks, self.ppn, self.nodes
        if not ranks:
            nodes = nodes or 1
            ranks = nodes * (ppn or 1)
        elif not nodes:
            nodes = -(-ranks // (ppn or slots))
        if ranks < nodes:
            raise CoschedError(f"infeasible: {ranks} tasks cannot fill {nodes} nodes")
        each, more = divmod(ranks, nodes)
        counts = (each + 1,) * more + (each,) * (nodes - more)
        if ppn and counts[0] > ppn:
            raise CoschedError(
                f"infeasible: {ranks} tasks on {nodes} nodes are more than {ppn} on a node"
            )
        if nodes > nodes_most:
            raise CoschedError(
                f"infeasible: needs {nodes} nodes, the domain has {nodes_most}"
            )
        if counts[0] > slots:
            raise CoschedError(
                f"infeasible: needs {counts[0]} tasks on a node, a node takes {slots}"
            )
        return counts


_decoder = msgspec.json.Decoder(Submission)


def decode_submission(data: bytes) -> Submission:
    """Returns the checked submission. Raises CoschedError for bytes that are none."""
    try:
        submission = _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise CoschedError(f"not a submission: {error}") from None
    submission.check()
    return submission
