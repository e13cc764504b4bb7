"""Sends requests to a domain and reads the answers.

The ``Client`` of cosched.jobs.client is made of this one; it also finds what a job's
program needs.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cosched.cluster.answer_fields import with_fields
from cosched.cluster.job_texts import JobBounds
from cosched.cluster.paths import DomainPaths
from cosched.cluster.user_requests import LONGEST_REQUEST
from cosched.core.decoding import Malformed, decode_line, printable, shown_text
from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple
from cosched.core.names import PRIVATE, member_of
from cosched.linux.system_text import from_wire, words_from_wire

if TYPE_CHECKING:
    from cosched.cluster.answers import (
        DomainInfo,
        EndInfo,
        InputInfo,
        JobInfo,
        LeavingInfo,
        MateInfo,
        NodeInfo,
        PairInfo,
        ReloadInfo,
        TaskInfo,
    )
    from cosched.cluster.submission import Submission
    from cosched.cluster.submission_request import SubmissionRequest
    from cosched.core.arrays import JobRef

#: A request that takes longer has no answer (``wait`` excepted). A controller that starts
#: again within this time answers.
ANSWER_WITHIN_S = 60.0
#: A client that waits longer for an answer reports it.
SLOW_S = 2.0
#: While a caller of ``wait`` has something to do meanwhile, this is how often.
MEANWHILE_S = 0.05

SomeClient = TypeVar("SomeClient", bound="Client")

#: Names the input in errors.
_ANSWER = "an answer of the domain"


class NoDomain(CoschedError):
    """No controller or agent answers here."""


class NoAnswer(NoDomain):
    """The domain is there and does not answer, as while its disk is full."""


class Patience(NamedTuple):
    """How a client waits for the answer to a request."""

    within_s: float = ANSWER_WITHIN_S  #: the request fails then
    #: Called once if the answer takes longer than SLOW_S.
    note_slow: Callable[[], object] = lambda: None


USUAL_PATIENCE = Patience()


class Client:
    """A connection to the domain of a run directory."""

    def __init__(
        self,
        connection: socket.socket,
        run_dir: Path,
        patience: Patience = USUAL_PATIENCE,
        node: str | None = None,
    ) -> None:
        self.run_dir = run_dir
        self.node = node
        self._patience = patience
        self._connection = connection
        self._stream = connection.makefile("rb")

    @classmethod
    def connect(
        cls: type[SomeClient],
        run_dir: Path,
        node: str | None = None,
        patience: Patience = USUAL_PATIENCE,
    ) -> SomeClient:
        """Connects to the agent of this node, or to a controller on this machine.

        Root prefers the controller, which takes root from few agents (``may_vouch``).
        Raises NoDomain if neither answers.
        """
        paths = DomainPaths(run_dir)
        here = node or member_of(os.uname().nodename)
        places = [paths.agent_socket(here), paths.controller_socket]
        if node is None and os.geteuid() == 0:
            places.reverse()
        for place in places:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(str(place))
            except OSError:
                connection.close()
                continue
            return cls(connection, run_dir, patience, node)
        raise NoDomain(f"no domain answers in {run_dir}; {_how_to_start(paths)}")

    def __enter__(self: SomeClient) -> SomeClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        self._stream.close()
        self._connection.close()

    def submit(self, submission: Submission) -> int:
        """Submits a job; returns its number, which is stored. The same submission that is
        sent again is the same job. Raises NoAnswer if the job may be in the queue."""
        return self.submit_request(submission.as_request())

    def submit_request(self, request: SubmissionRequest) -> int:
        """Submits a job that is described by plain values; otherwise as ``submit``."""
        try:
            number: int = self._ask("submit", job=request)["job"]
        except NoAnswer as error:
            raise NoAnswer(f"{error}, if cosched queue --me does not show it") from None
        return number

    def queue(self, ended: int = 0, *, folded: bool = False) -> list[JobInfo]:
        """Returns the jobs that have not ended, and the ``ended`` latest of all. folded:
        the tasks of an array that wait are one entry."""
        more = {"folded": True} if folded else {}
        return [_in_words(job) for job in self._ask("queue", ended=ended, **more)]

    def tasks(self, job: JobRef) -> tuple[list[TaskInfo], str]:
        """Returns the jobs that a name means, and one line about them if they are tasks of
        an array."""
        found = self._ask("tasks", **_as_request(job))
        return found["tasks"], found["why"]

    def job(self, number: int) -> JobInfo:
        """Returns a job; its member ``why`` is one line."""
        return _in_words(self._ask("job", job=number))

    def wait(self, number: int, meanwhile: Callable[[], object] | None = None) -> JobInfo:
        """Returns a job once it has ended. meanwhile: called again and again until then."""
        return _in_words(self._ask_and_wait("wait", meanwhile, job=number))

    def ended(self, numbers: Sequence[int], within_s: float) -> list[EndInfo]:
        """Returns the ends of the ended jobs among these, once there is one. When the time
        is over, the list is empty."""
        found: list[EndInfo]
        found = self._ask_within(
            within_s + self._patience.within_s,
            "ended",
            jobs=list(numbers),
            within=within_s,
        )
        return found

    def until_running(self, number: int) -> JobInfo:
        """Returns a job once it runs or has ended."""
        return _in_words(self._ask_and_wait("wait", job=number, until="running"))

    def give_input(
        self, job: JobInfo, at: int, data: bytes, *, last: bool = False
    ) -> InputInfo:
        """Gives standard input to rank 0 of a job that runs and that has the input ``-``.

        job: as ``until_running`` returned it. at: the number of bytes before these. last:
        nothing follows. Returns once rank 0 has room for more. The same bytes may be given
        again. Once this connection closes, the input ends.
        """
        found: InputInfo = self._ask_and_wait(
            "input",
            job=job["job"],
            start=job["starts"],
            node=job["hosts"][0],
            at=at,
            data=shown_text(base64.b64encode(data)),
            last=last,
        )
        return found

    def cancel(self, job: int | JobRef) -> None:
        """Ends a job, or takes it from the queue; the number of an array is all its
        tasks."""
        self._ask("cancel", **_as_request(job))

    def hold(self, job: int | JobRef) -> None:
        """Keeps a waiting job from starting, or those tasks of an array that wait."""
        self._ask("hold", **_as_request(job))

    def unhold(self, job: int | JobRef) -> None:
        """Returns a held job, or the held tasks of an array, to the queue."""
        self._ask("unhold", **_as_request(job))

    def resize(
        self,
        job: int | JobRef,
        minimum: int | None = None,
        ideal: int | None = None,
        preferred: int | None = None,
    ) -> JobBounds:
        """Gives a malleable job, or each task of an array that has not ended, other sizes,
        in nodes; returns all of them. None: this one stays."""
        sizes = {"minimum": minimum, "ideal": ideal, "preferred": preferred}
        found = self._ask("resize", **_as_request(job), **sizes)
        return JobBounds(found["minimum"], found["ideal"], found["preferred"])

    def nodes(self) -> list[NodeInfo]:
        """Returns the nodes of the domain."""
        found: list[NodeInfo] = self._ask("nodes")
        return found

    def check_fits_a_node(self, ranks: int) -> None:
        """Raises CoschedError if no node takes this number of tasks of a job."""
        most = max((node["tasks_most"] for node in self.nodes()), default=0)
        if ranks > most > 0:
            raise CoschedError(
                f"infeasible: needs {ranks} tasks on a node, a node takes {most}"
            )

    def pairs(self) -> list[PairInfo]:
        """Returns the observed speeds of programs beside each other on halves of nodes."""
        found: list[PairInfo] = self._ask("pairs")
        return found

    def drain(self, names: Sequence[str], reason: str = "", *, wait: bool = False) -> None:
        """Keeps new jobs away from nodes. wait: returns when no job is on them."""
        within_s = None if wait else self._patience.within_s
        names = list(names)
        self._ask_within(within_s, "drain", names=names, reason=reason, wait=wait)

    def undrain(self, names: Sequence[str]) -> None:
        """Returns drained nodes to service."""
        self._ask("undrain", names=list(names))

    def add(self, nodes: Mapping[str, str], *, root: bool = False) -> ReloadInfo:
        """Adds nodes to the domain. nodes: ``HOST:PORT`` of each agent by the name of its
        node. root: their agents may vouch for root."""
        found: ReloadInfo = self._ask("add", nodes=dict(nodes), root=root)
        return found

    def remove(
        self, names: Sequence[str], *, now: bool = False, wait: bool = False
    ) -> list[int]:
        """Removes nodes once no job has them; returns the jobs that they have. now: their
        jobs end. wait: returns when the nodes are removed."""
        within_s = None if wait else self._patience.within_s
        found: LeavingInfo
        found = self._ask_within(within_s, "remove", names=list(names), now=now, wait=wait)
        return found["jobs"]

    def reload(self) -> ReloadInfo:
        """Makes the controller read domain.toml again. Raises CoschedError for a mistake in
        it; nothing has changed then."""
        found: ReloadInfo = self._ask("reload")
        return found

    def mates(self) -> list[MateInfo]:
        """Returns the jobs of a coupled domain that wait for mates."""
        found: list[MateInfo] = self._ask("mates")
        return found

    def domains(self) -> list[DomainInfo]:
        """Returns the other domains of a coupled domain."""
        found: list[DomainInfo] = self._ask("domains")
        return found

    def down(self, *, end_jobs: bool) -> list[int]:
        """Ends the domain; returns the jobs that were ended. Waiting jobs stay stored.
        Raises CoschedError if jobs run, unless they are to be ended."""
        found: dict[str, list[int]] = self._ask_within(None, "down", end_jobs=end_jobs)
        return found["ended_jobs"]

    def _ask(self, what: str, **more: Any) -> Any:
        """Returns the answer to a request, which has to come soon."""
        return self._ask_within(self._patience.within_s, what, **more)

    def _ask_within(self, within_s: float | None, what: str, **more: Any) -> Any:
        """Returns the answer to a request; notes that it is slow. None: it may take any
        time."""
        self._send(what, more, within_s)
        soon_s = SLOW_S if within_s is None else min(SLOW_S, within_s)
        if not self._is_answered(soon_s):
            self._patience.note_slow()
            if within_s is not None and not self._is_answered(within_s - soon_s):
                raise _late(within_s)
        return self._receive(within_s)

    def _ask_and_wait(
        self, what: str, meanwhile: Callable[[], object] | None = None, **more: Any
    ) -> Any:
        """Returns the answer to a request, however long it takes."""
        self._send(what, more, None)
        while meanwhile is not None and not self._is_answered(MEANWHILE_S):
            meanwhile()
        return self._receive(None)

    def _send(self, what: str, more: Mapping[str, Any], within_s: float | None) -> None:
        request = json.dumps({"do": what, **more}).encode() + b"\n"
        if len(request) > LONGEST_REQUEST:
            raise CoschedError(
                f"the arguments and the environment have {len(request)} bytes, more than "
                f"{LONGEST_REQUEST}; pass data in a file"
            )
        self._connection.settimeout(within_s)
        with _reported(within_s):
            self._connection.sendall(request)

    def _is_answered(self, within_s: float) -> bool:
        waiting = select.poll()
        waiting.register(self._connection, select.POLLIN)
        return bool(waiting.poll(within_s * 1000))

    def _receive(self, within_s: float | None) -> Any:
        with _reported(within_s):
            line = self._stream.readline()
        if not line.endswith(b"\n"):
            raise NoDomain("the domain has closed the connection; try again")
        answer = decode_line(line, _ANSWER)
        if not isinstance(answer, dict):
            raise Malformed(f"{_ANSWER}: not an object")
        if "error" in answer:
            raise CoschedError(printable(str(answer["error"])))
        return with_fields(answer.get("ok"))


@contextlib.contextmanager
def _reported(within_s: float | None) -> Iterator[None]:
    """Makes one line of the connection's errors."""
    try:
        yield
    except TimeoutError:
        assert within_s is not None
        raise _late(within_s) from None
    except OSError as error:
        raise NoDomain(f"the domain does not answer: {error.strerror}") from None


def _in_words(job: JobInfo) -> JobInfo:
    """Makes words of this process of a job's program and files; returns the job."""
    job["command"] = list(words_from_wire(job["command"]))
    job["cwd"] = from_wire(job["cwd"])
    job["output"] = from_wire(job["output"])
    job["error"] = from_wire(job["error"])
    return job


def _as_request(job: int | JobRef) -> dict[str, Any]:
    """Returns the fields of a request about a job or some tasks of an array."""
    if isinstance(job, int):
        return {"job": job}
    return {"job": job.number, **({"tasks": job.tasks_text} if job.tasks else {})}


def _late(within_s: float) -> NoAnswer:
    return NoAnswer(f"the controller has not answered within {within_s:g} s; try again")


def _how_to_start(paths: DomainPaths) -> str:
    """Returns how users start the domain of a run directory. A file that cannot be read
    stands for no domain: its start names the mistake."""
    from cosched.documents import read_toml  # most commands find a domain that answers

    found: Mapping[str, Any] = {}
    with contextlib.suppress(CoschedError):
        found = read_toml(paths.config)
    if "engine" in found:
        return f"start it with: cosched cluster couple --config {paths.config}"
    if found.get("name", PRIVATE) != PRIVATE:
        return "start it with: cosched cluster up"
    return "start one with: cosched submit PROGRAM, or cosched cluster up"
