"""Looks at the daemons of this machine and at the domain, for the dashboard.

The nodes must stay visible while the controller does not answer. So another thread sends
the requests to the controller.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosched.cluster.answers import DomainInfo, JobInfo, MateInfo, NodeInfo
from cosched.cluster.client import SLOW_S, NoAnswer, NoDomain, Patience
from cosched.core.errors import CoschedError, NoDaemon
from cosched.core.units import NS_PER_S
from cosched.jobs.client import Client
from cosched.observe.top.model import WINDOW_NS
from cosched.observe.top.sample import Sample
from cosched.observe.top.sampler import Sampler

#: How many of the latest jobs are shown though they have ended.
ENDED_JOBS = 200
#: How far back the first look at a node goes.
FIRST_WINDOW_NS = 600 * NS_PER_S
#: A look goes on without the domain's answer after this time; the next one has it.
DOMAIN_WITHIN_S = 0.5
#: The domain counts as silent then.
PATIENCE = Patience(within_s=20.0)


@dataclass(frozen=True, slots=True)
class DomainLook:
    """The answers of a domain."""

    run_dir: Path  #: where it was asked
    jobs: Sequence[JobInfo]  #: its jobs that have not ended, and the latest others
    nodes: Sequence[NodeInfo]  #: its nodes
    mates: Sequence[MateInfo]  #: its jobs that wait for mates in other domains
    domains: Sequence[DomainInfo]  #: the other domains


@dataclass(frozen=True, slots=True)
class Look:
    """All that is there at one time."""

    wall_ns: int  #: when, by the wall clock in ns since 1970
    sample: Sample | None  #: the status of the nodes here; None: none was taken
    #: The daemons should answer and do not: what was there before may be there still.
    are_silent: bool
    domain: DomainLook | None  #: the domain; None: none answers
    troubles: Sequence[str]  #: one line for each part that should answer and does not


class DomainSource:
    """Asks the domain on a connection that it keeps. run_dir: None: the one that serves
    this user."""

    def __init__(self, run_dir: Path | None) -> None:
        self._run_dir = run_dir
        self._client: Client | None = None
        self._is_coupled = True

    def look(self) -> DomainLook:
        """Returns the domain's answers. Raises NoDomain if none answers."""
        if self._client is None:
            self._client = Client.connect_to_running(self._run_dir, patience=PATIENCE)
            self._is_coupled = True
        client = self._client
        try:
            jobs, nodes = client.queue(ENDED_JOBS), client.nodes()
            return DomainLook(client.run_dir, jobs, nodes, *self._coupling(client))
        except CoschedError:
            self.close()
            raise

    def _coupling(self, client: Client) -> tuple[Sequence[MateInfo], Sequence[DomainInfo]]:
        if not self._is_coupled:
            return (), ()
        try:
            return client.mates(), client.domains()
        except NoDomain:
            raise
        except CoschedError:  # the answer of a domain that is coupled with no other
            self._is_coupled = False
            return (), ()

    def close(self) -> None:
        """Closes the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None


class _Question:
    """A question to the domain, asked in a thread that ends with the process."""

    def __init__(self, ask: Callable[[], DomainLook]) -> None:
        self._ask = ask
        self._asked_s = time.monotonic()
        self._answered = threading.Event()
        self._answer: DomainLook | Exception | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self._answer = self._ask()
        except Exception as error:  # noqa: BLE001  (it is raised where the answer is taken)
            self._answer = error
        self._answered.set()

    @property
    def waited_s(self) -> float:
        """Returns how long ago it was asked."""
        return time.monotonic() - self._asked_s

    def answer(self, within_s: float) -> DomainLook | None:
        """Returns the answer; None if there is none yet. Raises the error with which
        the question failed."""
        if not self._answered.wait(within_s):
            return None
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


class Looker:
    """Looks at the daemons and the domain. daemons_dir: finds the run directory of the
    daemons that serve this user. domain: asks the domain."""

    def __init__(self, daemons_dir: Callable[[], Path], domain: DomainSource) -> None:
        self._daemons_dir = daemons_dir
        self._domain = domain
        self._sampler: Sampler | None = None
        self._sampled_dir = Path()
        self._last_ns = 0
        self._question: _Question | None = None
        self._last_domain: DomainLook | None = None

    def look(self) -> Look:
        """Returns what is there now."""
        if self._question is None:
            self._question = _Question(self._domain.look)
        troubles: list[str] = []
        sample, are_silent = None, False
        try:
            sample = self._sample(self._daemons_dir())
        except NoDaemon:
            pass  # the page shows that none is up
        except CoschedError as error:
            are_silent = True
            troubles.append(str(error))
        domain = self._domain_look(self._question, troubles)
        return Look(time.time_ns(), sample, are_silent, domain, troubles)

    def _sample(self, run_dir: Path) -> Sample:
        if self._sampler is None or run_dir != self._sampled_dir:
            if self._sampler is not None:
                self._sampler.__exit__()
            self._sampler, self._sampled_dir, self._last_ns = Sampler(run_dir), run_dir, 0
        now_ns = time.time_ns()
        since_last_ns = max(WINDOW_NS, now_ns - self._last_ns)
        found = self._sampler.look(min(FIRST_WINDOW_NS, since_last_ns))
        self._last_ns = now_ns
        return found

    def _domain_look(self, question: _Question, troubles: list[str]) -> DomainLook | None:
        try:
            answer = question.answer(DOMAIN_WITHIN_S)
        except CoschedError as error:
            self._question = None
            if isinstance(error, NoDomain) and not isinstance(error, NoAnswer):
                self._last_domain = None
            else:
                troubles.append(f"the domain: {error}")
            return self._last_domain
        if answer is None:
            if question.waited_s > SLOW_S:
                waited = f"{question.waited_s:.0f} s"
                troubles.append(f"the controller has not answered for {waited}")
        else:
            self._question, self._last_domain = None, answer
        return self._last_domain
