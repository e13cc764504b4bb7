"""Records when the starts of jobs reach their steps on a node, for measurements."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from pathlib import Path

import msgspec

from cosched.core.bounds import Name, Natural, Slots
from cosched.core.decoding import JsonDecoder, Malformed
from cosched.core.errors import CoschedError

#: The steps of a start. The number of an exchange follows the last two.
OBJECT, PREPARED, GO, TABLE, TABLES = "object", "prepared", "go", "table", "tables"


class StepNote(msgspec.Struct, frozen=True):
    """A step that a node has done."""

    node: Name  #: the node's name
    job: Natural  #: the job's number
    start: Slots  #: how often the job was started
    #: ``object``: the node has the whole job object. ``prepared``: its tasks wait. ``go``:
    #: they may begin. ``table N``: this node's part of exchange N is ready. ``tables N``:
    #: the parts of all nodes are here.
    step: Name
    at_ns: Natural  #: by the node's wall clock


_decoder: JsonDecoder[StepNote] = JsonDecoder(StepNote, "a step")


class StepNotes(ABC):
    """Receives the steps of one node's starts."""

    @abstractmethod
    def note(self, start: tuple[int, int], step: str) -> None:
        """Records that a start (a job and how often it was started) has reached a step."""


class NoStepNotes(StepNotes):
    """Forgets them."""

    def note(self, start: tuple[int, int], step: str) -> None:
        return


class StepFile(StepNotes):
    """Appends a line of JSON for each step. Several nodes may share the file.

    Raises CoschedError if the file cannot be opened.
    """

    def __init__(self, path: Path, node: str) -> None:
        self._node = node
        self._encoder = msgspec.json.Encoder()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            self._file = os.open(path, flags, 0o600)
        except OSError as error:
            raise CoschedError(f"{path}: {error.strerror}") from None

    def note(self, start: tuple[int, int], step: str) -> None:
        found = StepNote(self._node, *start, step, time.time_ns())
        os.write(self._file, self._encoder.encode(found) + b"\n")


def read_steps(path: Path) -> list[StepNote]:
    """Returns the steps of a file. Raises CoschedError for another file."""
    try:
        return [_decoder.decode(line) for line in path.read_bytes().splitlines()]
    except OSError as error:
        raise CoschedError(f"{path}: {error.strerror}") from None
    except Malformed as error:
        raise CoschedError(f"{path}: {error}") from None
