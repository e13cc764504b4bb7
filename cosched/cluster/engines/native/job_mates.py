"""Decides whether a job may have mates in other domains, and what these domains get."""

from __future__ import annotations

from cosched.cluster.coupling.driver import Driver
from cosched.cluster.coupling.mates import first_nodes, parse_mates
from cosched.cluster.coupling.pairs import Pairs
from cosched.cluster.engines.native.basics import Basics
from cosched.cluster.engines.native.starts.start import ActiveStart
from cosched.cluster.record import Record, State
from cosched.core.cluster.coupling.engine_messages import JobAnnounced, JobPrepared
from cosched.core.cluster.coupling.mate_messages import LONGEST_ADDRESS
from cosched.core.decoding import host_of
from cosched.core.errors import CoschedError
from cosched.linux.users import find_user_name

#: The nodes of a job whose addresses its mates get: the first ones.
ADDRESSES_MOST = 256


class JobMates:
    """The jobs with mates. pairs: None if the domain is coupled with no other. driver:
    handles the events about them."""

    def __init__(self, basics: Basics, pairs: Pairs | None, driver: Driver) -> None:
        self._members = basics.members
        self._records = basics.records
        self._clock = basics.clock
        self._pairs = pairs
        self._driver = driver

    def check(self, record: Record, jobs_per_node: int) -> None:
        """Raises CoschedError for a job that cannot have its mates. jobs_per_node: how many
        jobs a node takes at a time."""
        job = record.submission
        if not job.mates:
            return
        if self._pairs is None:
            raise CoschedError(
                "mates: this domain is coupled with no other; see [coupling] in domain.toml"
            )
        if job.exclusive and jobs_per_node > 1:
            raise CoschedError("mates: a job with mates cannot be exclusive here")
        self._announcement(record)

    def announce(self, record: Record) -> None:
        """Announces a job to the domains of its mates. Raises CoschedError for a job that
        cannot be in its group; it has ended then."""
        try:
            event = self._announcement(record)
            if event is not None:
                self._driver.handle(event)
        except CoschedError as error:
            self._records.finish(record, State.CANCELLED, None, str(error))
            raise

    def _announcement(self, record: Record) -> JobAnnounced | None:
        """Returns the event for a job with mates; None for one without, and for one that
        was announced. Raises CoschedError if its mates cannot be."""
        text = record.submission.mates
        if not text or self._pairs is None or self.has(record.number):
            return None
        mates = parse_mates(text, self._pairs.coupled.name, self._pairs.coupled.domains)
        user = find_user_name(record.uid)
        if user is None:
            raise CoschedError(
                f"mates: user {record.uid} has no name here, so no other domain can know it"
            )
        return self._pairs.announced(record.number, user, mates)

    def has(self, number: int) -> bool:
        """Returns whether a job has announced mates."""
        return self._pairs is not None and self._pairs.member(number) is not None

    def prepared(self, start: ActiveStart) -> None:
        """Reports a job that waits for its mates on its nodes."""
        names = start.record.nodes[:ADDRESSES_MOST]
        members = (self._members.by_name[name] for name in names)
        hosts = ",".join(host_of(member.address) for member in members)
        number = start.record.number
        address = first_nodes(f"{number}@{hosts}", LONGEST_ADDRESS)
        self._driver.handle(JobPrepared(self._clock.now_ns(), number, address))
