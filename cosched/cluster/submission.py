"""Defines what a domain takes as a job, and checks it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cosched.cluster.submission_request import (
    FROM_CLIENT,
    LONGEST_NAME,
    MOST,
    submission_request,
)
from cosched.cluster.user_requests import LONGEST_REQUEST
from cosched.core.arrays import parse_array, parse_jobs
from cosched.core.bounds import NATURAL_MOST, Limit
from cosched.core.decoding import JsonDecoder, convert
from cosched.core.errors import CoschedError
from cosched.core.names import NEED_NAME
from cosched.core.symbiosis.resources import parse_limits
from cosched.core.units import NS_PER_S
from cosched.linux.processes.limits import TRAVELLING

LONGEST_TOKEN = 200
#: The longest time: ten years.
LONGEST_NS = 3650 * 24 * 3600 * NS_PER_S
#: The most features and counts that a job may name.
NEEDS_MOST = 32
#: The most jobs of a user that have not ended, from which on no array is taken.
LIVE_MOST = 50_000
#: ``pmi1-long``: PMI-1 with long values, for MPICH 5 and newer.
PMIS = ("pmi1", "pmi1-long", "pmix", "none")


class Submission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job as its user describes it.

    Either ``nodes`` and ``ppn`` are given, or ``ranks``, which the controller spreads over
    as few nodes as possible. A malleable job has ``minimum`` and ``ideal`` in place of
    ``nodes`` and ``ranks``.
    """

    #: Differs for each submission, so that one that is sent twice counts once.
    token: str
    name: str  #: shown to users
    program: str = ""  #: its program's name, of which speeds are known; empty: its ``name``
    argv: tuple[str, ...]  #: the program and its arguments
    #: The text of its batch script, which runs in place of the file ``argv[0]``; empty: the
    #: file itself runs.
    script: str = ""
    environ: dict[str, str]  #: variables of all tasks
    cwd: str  #: the working directory
    umask: int = 0o022  #: the file mode mask of the tasks
    #: Soft limits of its tasks by name, as ``ulimit`` shows them; others are those of the
    #: agent.
    limits: dict[str, Limit] = {}
    ranks: int = 0  #: tasks in all; 0: not given
    nodes: int = 0  #: how many nodes; 0: not given
    ppn: int = 0  #: tasks on each node; 0: not given
    #: The least nodes on which it runs while its size changes; 0: it is rigid.
    minimum: int = 0
    #: The nodes at which it is fastest; it gets no more. 0: not known, or it is rigid.
    ideal: int = 0
    #: The nodes beyond which it grows only while no job waits; 0: its ideal, or it is
    #: rigid.
    preferred: int = 0
    #: The run time that the user allows; 0: that of the domain, or any.
    time_ns: int = 0
    pmi: str = "none"  #: pmi1, pmi1-long, pmix or none
    pmix_library: str = ""  #: the path of its MPI's libpmix; empty: none
    bind: bool = False  #: whether each task stays on its CPUs
    input: str = "/dev/null"  #: a path, or ``-`` for what its user gives while it runs
    #: A path; ``%j`` stands for the job's number, ``%x`` for its name, ``%A`` for the
    #: number of its array, and ``%a`` for its index there (``output_names``).
    output: str = "cosched-%j.out"
    error: str = ""  #: a path as for output; empty: as output
    label: bool = False  #: whether each line of output begins with its rank
    held: bool = False  #: wait until ``unhold``
    requeue: bool = False  #: start it again if a node is lost
    at_once: bool = False  #: start it now or refuse it
    exclusive: bool = False  #: its nodes take no other job meanwhile
    #: Where jobs have CPUs, those of this one may have other jobs that share, too.
    share: bool = False
    #: CPUs that it has on each node; 0: one for each task. More than a node has: all.
    cpus: int = 0
    memory_bytes: int = 0  #: that it needs on each node; 0: not known
    features: tuple[str, ...] = ()  #: that each of its nodes must have
    #: How many of each count it needs on each node, and of each licence in all.
    needs: dict[str, int] = {}
    #: The resources that limit it, by its user's word: cpu, memory, io, network.
    limited_by: tuple[str, ...] = ()
    #: Whether it may have halves of nodes beside other jobs; None: with a label, or if the
    #: domain lets jobs without one share.
    share_node: bool | None = None
    mates: str = ""  #: its mates in other domains (``coupling.mates``); empty: none
    #: The tasks of an array (``core.arrays``), each a job; empty: one job.
    array: str = ""
    #: Whether tasks of the array also get the variables that Slurm gives them.
    slurm_variables: bool = False
    after: str = (
        ""  #: jobs that must end before it starts, such as ``12,13_4``; empty: none
    )
    after_ok: str = ""  #: the same, and each of them must end well

    def as_request(self) -> dict[str, Any]:
        """Returns it as plain values, from which ``convert_submission`` makes it again."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def check(self) -> None:
        """Raises CoschedError for a submission that makes no sense."""
        if not self.argv or not self.argv[0]:
            raise CoschedError("a job needs a program")
        if not 0 < len(self.name) <= LONGEST_NAME or not self.name.isprintable():
            raise CoschedError(f"a job's name has 1 to {LONGEST_NAME} characters")
        if min(self.ranks, self.nodes, self.ppn, self.cpus, self.time_ns) < 0:
            raise CoschedError("ranks, nodes, tasks per node and time cannot be negative")
        most = max(self.ranks, self.nodes, self.ppn, self.cpus)
        if most > MOST or self.time_ns > LONGEST_NS:
            raise CoschedError(f"a job has at most {MOST} ranks or nodes, and ten years")
        if self.malleable or self.preferred:
            self._check_sizes()
        self._check_sharing()
        self._check_needs()
        if not 0 < len(self.token) <= LONGEST_TOKEN:
            raise CoschedError(f"a job's token has 1 to {LONGEST_TOKEN} characters")
        if self.script and not self.script.startswith("#!"):
            raise CoschedError("a batch script begins with #! and its interpreter")
        if not 0 <= self.umask <= 0o777:
            raise CoschedError("a umask is a number from 0 to 511")
        if unknown := sorted(set(self.limits) - set(TRAVELLING)):
            raise CoschedError(f"limits: {unknown[0]!a} is unknown")
        if self.pmi not in PMIS or (self.pmi == "pmix") != bool(self.pmix_library):
            raise CoschedError(f"pmi '{self.pmi}': must be one of {', '.join(PMIS)}")
        if self.at_once and (self.held or self.requeue):
            raise CoschedError("a job that starts at once cannot be held or requeued")
        if self.exclusive and self.share:
            raise CoschedError("a job that has its nodes alone cannot share CPUs")
        self._check_batch()
        if self.at_once and self.mates:
            raise CoschedError("a job with mates waits for them: it cannot start at once")
        if not self.cwd.startswith("/"):
            raise CoschedError(f"working directory '{self.cwd}': must begin with /")
        files = (self.cwd, self.input, self.output, self.error, self.pmix_library)
        words = (*self.argv, *files, *self.environ, *self.environ.values())
        if any("\0" in word for word in words) or any("=" in key for key in self.environ):
            raise CoschedError("a word or variable of the job has a NUL, or a name has a =")

    def _check_batch(self) -> None:
        """Raises CoschedError for an array, or for jobs to wait for, that cannot be."""
        if self.array:
            parse_array(self.array)
        for what, text in (("--after", self.after), ("--after-ok", self.after_ok)):
            if text:
                parse_jobs(text, what)
        kept_back = self.array or self.after or self.after_ok
        if kept_back and self.mates:
            raise CoschedError(
                "a job with mates starts with them: it can be in no array, and cannot wait "
                "for other jobs"
            )
        if kept_back and self.at_once:
            raise CoschedError(
                "a job that starts at once can be in no array, and cannot wait for others"
            )
        if self.array and self.input == FROM_CLIENT:
            raise CoschedError("the tasks of an array cannot share one standard input")

    def _check_sizes(self) -> None:
        """Raises CoschedError for sizes that no malleable job has."""
        if self.minimum < 1:
            raise CoschedError(f"minimum {self.minimum}: a malleable job has 1 or more")
        if 0 < self.ideal < self.minimum or self.ideal < 0:
            raise CoschedError(
                f"minimum {self.minimum}: is above the ideal of {self.ideal} nodes"
            )
        if max(self.minimum, self.preferred, self.ideal) > MOST:
            raise CoschedError(f"a job has at most {MOST} ranks or nodes, and ten years")
        if self.preferred and not self.minimum <= self.preferred <= (self.ideal or MOST):
            most = f"the ideal of {self.ideal}" if self.ideal else "any ideal"
            raise CoschedError(
                f"preferred {self.preferred}: is not between the minimum of {self.minimum} "
                f"and {most} nodes"
            )
        if self.nodes or self.ranks:
            raise CoschedError(
                "a malleable job has a minimum and an ideal in place of nodes and ranks"
            )
        if self.mates:
            raise CoschedError("a job with mates cannot be malleable")

    def _check_needs(self) -> None:
        """Raises CoschedError for needs that no job has."""
        if not 0 <= self.memory_bytes <= NATURAL_MOST:
            raise CoschedError(f"memory of {self.memory_bytes} bytes: no node has that")
        if len(self.features) + len(self.needs) > NEEDS_MOST:
            raise CoschedError(f"a job needs at most {NEEDS_MOST} features and counts")
        for name in (*self.features, *self.needs):
            if re.fullmatch(NEED_NAME, name) is None:
                raise CoschedError(f"{name!a:.80}: is no name of a feature or count")
        for name, number in self.needs.items():
            if not 1 <= number <= MOST:
                raise CoschedError(f"need {name}:{number}: is not a number from 1 on")

    def _check_sharing(self) -> None:
        """Raises CoschedError for a label that does not fit the job."""
        if not self.limited_by and not self.share_node:
            return
        if self.limited_by:
            parse_limits(list(self.limited_by), "limited by")
        if len(set(self.limited_by)) < len(self.limited_by):
            raise CoschedError("limited by: names a resource twice")
        alone = {
            "exclusive": self.exclusive,
            "not to share its nodes": self.share_node is False,
            "malleable": self.malleable,
            "to start with mates": bool(self.mates),
        }
        for word, given in alone.items():
            if given:
                raise CoschedError(
                    f"limited by: a label is for a job that may share its nodes, but this "
                    f"one is {word}; leave one of them out"
                )

    def shares(self, unlabelled: bool) -> bool:
        """Returns whether the job may have halves of nodes. unlabelled: whether the domain
        lets jobs without a label share."""
        if self.exclusive or self.malleable or self.mates:
            return False
        usual = bool(self.limited_by) or unlabelled
        return usual if self.share_node is None else self.share_node

    @property
    def malleable(self) -> bool:
        """Whether the number of the job's nodes may change while it runs."""
        return self.minimum != 0 or self.ideal != 0

    @property
    def tasks(self) -> int:
        """Returns the number of the job's tasks, on however many nodes. A malleable job has
        them at its ideal, or at its minimum if that is not known."""
        nodes = self.nodes or self.ideal or self.minimum or 1
        return self.ranks or nodes * (self.ppn or 1)

    def counts(self, slots: int, nodes_most: int, unit: str = "a node") -> tuple[int, ...]:
        """Returns the tasks on each node, for a malleable job at its ideal or on all nodes.
        slots: tasks that a node takes. nodes_most: the domain's nodes. unit: what is
        counted as a node, in words. Raises CoschedError if the domain can never run the
        job."""
        if self.malleable:
            return self._counts_at_ideal(slots, nodes_most)
        ranks, ppn, nodes = self.tasks, self.ppn, self.nodes
        if not self.ranks:
            nodes = nodes or 1
        elif not nodes:
            nodes = -(-ranks // (ppn or slots))
        if ranks < nodes:
            raise CoschedError(f"infeasible: {ranks} tasks cannot fill {nodes} nodes")
        each, more = divmod(ranks, nodes)
        most = each + bool(more)
        if ppn and most > ppn:
            raise CoschedError(
                f"infeasible: {ranks} tasks on {nodes} nodes are more than {ppn} on a node"
            )
        if nodes > nodes_most == 1 and not self.nodes and not ppn:
            raise CoschedError(
                f"infeasible: needs {ranks} tasks on one node, and the domain's only node "
                f"takes {slots}"
            )
        if nodes > nodes_most:
            tasks = "" if self.nodes else f": {ranks} tasks, {ppn or slots} on each"
            raise CoschedError(
                f"infeasible: needs {nodes} nodes, the domain has {nodes_most}{tasks}"
            )
        if most > slots:
            raise CoschedError(
                f"infeasible: needs {most} tasks on {unit}, {unit} takes {slots}"
            )
        return (each + 1,) * more + (each,) * (nodes - more)

    def counts_on(self, nodes: int) -> tuple[int, ...]:
        """Returns the tasks of a malleable job on each of its nodes."""
        return (self.ppn or 1,) * nodes

    def _counts_at_ideal(self, slots: int, nodes_most: int) -> tuple[int, ...]:
        (each,) = self.counts_on(1)
        if self.minimum > nodes_most:
            raise CoschedError(
                f"infeasible: needs {self.minimum} nodes, the domain has {nodes_most}"
            )
        if each > slots:
            raise CoschedError(
                f"infeasible: needs {each} tasks on a node, a node takes {slots}"
            )
        return self.counts_on(min(self.ideal or nodes_most, nodes_most))


_decoder: JsonDecoder[Submission] = JsonDecoder(Submission, "a submission", LONGEST_REQUEST)


def decode_submission(data: bytes) -> Submission:
    """Returns the checked submission. Raises CoschedError for bytes that are none."""
    submission = _decoder.decode(data)
    submission.check()
    return submission


def convert_submission(value: object) -> Submission:
    """Returns the checked submission of a request. Raises CoschedError if it is none."""
    submission: Submission = convert(value, Submission, "a submission", keys_are_text=True)
    submission.check()
    return submission


def make_submission(
    argv: Sequence[str], *, environ: Mapping[str, str], **more: Any
) -> Submission:
    """Returns a submission with a new token. Arguments: as of ``submission_request``."""
    return Submission(**submission_request(argv, environ=environ, **more))
