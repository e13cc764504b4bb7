"""Connects commands to the domain; reports that they wait for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cosched.cluster.client import Client, NoAnswer, NoDomain, Patience
from cosched.cluster.paths import DomainPaths
from cosched.cluster.up.missing_member import lacks_a_member
from cosched.cluster.user_requests import JOB_VARIABLE
from cosched.core.errors import CoschedError
from cosched.rundir.directories import domain_dir_to_ask, is_listening
from cosched.rundir.lock import was_killed

#: For a shell that completes a word: the user waits at the prompt.
AT_THE_PROMPT = Patience(within_s=1.0)
#: The line about an answer that takes long.
NO_ANSWER_YET = "the domain has not answered yet; waiting for its controller"
#: The same if the controller was killed. An init system may start it again meanwhile.
CONTROLLER_GONE = (
    "the controller in {} was killed; waiting for it. 'cosched cluster up' starts it again"
)
#: The same if the answer comes when nodes are free.
UNTIL_NODES_ARE_FREE = "waiting until no job is on the nodes"


def connect(
    run_dir: Path | None,
    node: str | None = None,
    command: str = "cosched",
    slow: str = NO_ANSWER_YET,
) -> Client:
    """Connects once, as ``Connector``."""
    return Connector(run_dir, node, command, slow)()


def connect_to_read(run_dir: Path | None) -> Client:
    """Connects as ``connect``, to read about jobs. Starts the user's private domain again
    if it rests. Raises NoDomain if no domain answers then."""
    try:
        return connect(run_dir)
    except NoDomain:
        # A member that a command of a job started would end with the job.
        if JOB_VARIABLE in os.environ or not rests(run_dir):
            raise
    from cosched.cluster.up.private import start_private

    _print("cosched", "the private domain has ended; starting it again to read its jobs")
    start_private(_place(run_dir))
    return connect(run_dir)


def connect_to_running(
    run_dir: Path | None, patience: Patience, node: str | None = None
) -> Client:
    """Connects to a domain that is up, by default to the one that serves this user, and
    starts nothing. Raises NoDomain if none answers."""
    here = node or os.environ.get("COSCHED_NODE")
    return Client.connect(_place(run_dir).absolute(), here, patience)


def rests(run_dir: Path | None) -> bool:
    """Returns whether a private domain of this user is down, and no job waits in it."""
    # Most commands find a domain that answers.
    from cosched.cluster.up.resting import is_at_rest

    return is_at_rest(_place(run_dir))


def _place(run_dir: Path | None) -> Path:
    return run_dir or domain_dir_to_ask(os.environ, os.geteuid())


class Connector:
    """Connects to the domain of a run directory, by default to the one that serves this
    user, each time that it is called.

    Starts a missing member of the user's private domain again. command: the first word of
    the lines on stderr that report this, or that an answer takes long. slow: the line then.
    A line that was just printed is not printed again.
    """

    def __init__(
        self,
        run_dir: Path | None,
        node: str | None = None,
        command: str = "cosched",
        slow: str = NO_ANSWER_YET,
    ) -> None:
        self._run_dir = run_dir
        self._node = node
        self._command = command
        self._slow = slow
        self._last = ""

    def __call__(self) -> Client:
        """Returns a connection. Raises NoDomain if no member answers, and NoAnswer if a
        missing controller cannot be started."""
        client = self._connect()
        # A member that a command of a job started would end with the job.
        if JOB_VARIABLE in os.environ or not lacks_a_member(DomainPaths(client.run_dir)):
            return client
        from cosched.cluster.up.private import restore_private

        client.close()
        try:
            restore_private(client.run_dir, self._note)
        except (CoschedError, OSError) as error:
            if not is_listening(DomainPaths(client.run_dir).controller_socket):
                raise NoAnswer(f"the private domain cannot go on: {error}") from None
            self._note(f"it cannot be started: {error}")
        return self._connect()

    def _connect(self) -> Client:
        slow = Patience(note_slow=lambda: self._note(self._why_slow()))
        return connect_to_running(self._run_dir, slow, self._node)

    def _why_slow(self) -> str:
        """Returns the line about a late answer, which names a controller that has gone."""
        place = _place(self._run_dir)
        return CONTROLLER_GONE.format(place) if _is_killed(place) else self._slow

    def _note(self, line: str) -> None:
        if line != self._last:
            _print(self._command, line)
        self._last = line


def _is_killed(run_dir: Path) -> bool:
    """Returns whether the controller in this directory was killed."""
    try:
        return was_killed(DomainPaths(run_dir).controller_lock)
    except CoschedError:  # the lock of another user cannot be read
        return False


def patient() -> Patience:
    """Returns how a command waits."""
    return Patience(note_slow=lambda: _print("cosched", NO_ANSWER_YET))


def _print(command: str, line: str) -> None:
    print(f"{command}: {line}", file=sys.stderr)
