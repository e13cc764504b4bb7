"""Serves PMI-1, which MPICH and its relatives speak over a socket of each task.

A line is ``cmd=NAME key=value ...``. The protocol is described in MPICH's
src/pmi/maint/pmi-1.2.txt. Keys that tasks put travel at the next barrier: the barrier of
all ranks is the exchange of the nodes' tables.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path

import msgspec

from cosched.cluster.pmi.pmi1_spawn import BEGIN, SpawnReader
from cosched.cluster.pmi.service import Events, JobLayout, Service
from cosched.core.cluster.startup.questions import (
    Joined,
    Lookup,
    Publish,
    Question,
    RootAnswer,
    Unpublish,
)
from cosched.core.decoding import Malformed, MessagePackDecoder, parse_integer
from cosched.core.errors import CoschedError
from cosched.core.wire_text import wire_from_bytes, wire_to_bytes

#: The longest value, as that of MPICH's own server. Ranks of old versions, such as MPICH
#: 4.0, have no room for longer lines.
VALUE_BYTES = 1024
#: The longest for newer ones. A rank cuts its address into values, which each rank gets one
#: by one: nearly all of its requests.
LONG_VALUE_BYTES = 1 << 14

_KVS_NAME_MAX = 256
_KEY_MAX = 256
_LINE_MAX = 1 << 16
_READ_BYTES = 1 << 16
_GET, _KEY = b"cmd=get ", b" key="
_GOT = b"cmd=get_result rc=0 msg=success value="
_UNKNOWN = b"cmd=get_result rc=-1 msg=key_not_found value=unknown\n"
#: The key of the file that describes the node's hardware.
_TOPOLOGY = b"PMI_hwloc_xmlfile"
#: Requests whose refusal is explained to the user. Programs may try names.
_EXPLAINED = {"spawn": "MPI_Comm_spawn", "publish": "MPI_Publish_name"}


@dataclass(slots=True)
class _Client:
    rank: int
    ours: socket.socket
    theirs: socket.socket  #: open until the task's process exists
    number: int  #: the task's descriptor
    buffer: bytearray = field(default_factory=bytearray)
    spawn: SpawnReader | None = None  #: inside a request of several lines
    waits: str = ""  #: for the root's answer to this request
    initialised: bool = False
    finalized: bool = False


_table: MessagePackDecoder[dict[str, str]] = MessagePackDecoder(
    dict[str, str], "the table of a node"
)


class Pmi1Service(Service):
    """One job's PMI-1 on one node. topology: a file that may be there. value_bytes: the
    longest value that a rank may put."""

    def __init__(
        self,
        layout: JobLayout,
        events: Events,
        topology: Path,
        value_bytes: int = VALUE_BYTES,
    ) -> None:
        self._layout = layout
        self._topology = topology
        self._value_bytes = value_bytes
        self._events = events
        self._clients: dict[int, _Client] = {}
        for rank in layout.ranks:
            ours, theirs = socket.socketpair()
            self._clients[rank] = _Client(rank, ours, theirs, theirs.fileno())
        self._in_barrier: set[int] = set()
        self._known: dict[bytes, bytes] = {}
        self._joined = False  # a task has read what its parents gave
        self._know({"PMI_process_mapping": process_mapping(layout)})
        self._new: dict[str, str] = {}

    def environment(self, rank: int) -> dict[str, str]:
        spawned = {} if self._layout.given is None else {"PMI_SPAWNED": "1"}
        return {
            "PMI_FD": str(self._clients[rank].number),
            "PMI_RANK": str(rank),
            "PMI_SIZE": str(self._layout.size),
            **spawned,
        }

    def inherited(self, rank: int) -> tuple[int, ...]:
        return (self._clients[rank].number,)

    def started(self, rank: int, pid: int) -> None:
        self._clients[rank].theirs.close()

    def watched(self) -> Mapping[int, Callable[[], object]]:
        return {
            client.ours.fileno(): partial(self._read, client)
            for client in self._clients.values()
            if client.ours.fileno() >= 0
        }

    def deliver(self, tables: Sequence[bytes]) -> None:
        for table in tables:
            self._know(_table.decode(table))
        for client in self._clients.values():
            self._answer(client, "cmd=barrier_out rc=0")

    def answer(self, number: int, answer: RootAnswer) -> None:
        client = self._clients[number]
        request, client.waits = client.waits, ""
        if answer.error:
            if request in _EXPLAINED:
                self._events.refused(number, f"{_EXPLAINED[request]}: {answer.error}")
            self._answer(client, f"cmd={request}_result rc=-1 msg=failed")
        else:
            port = f" port={answer.value}" if request == "lookup" else ""
            self._answer(client, f"cmd={request}_result rc=0 msg=success{port}")

    def ended(self, rank: int) -> None:
        client = self._clients[rank]
        if client.initialised and not client.finalized:
            self._events.aborted(rank, 1, f"rank {rank} ended without MPI_Finalize")
        client.finalized = True

    def close(self) -> None:
        for client in self._clients.values():
            client.ours.close()
            client.theirs.close()

    def _read(self, client: _Client) -> bool:
        """Answers the lines that have come; False at the end of the connection."""
        try:
            data = client.ours.recv(_READ_BYTES)
        except ConnectionError:
            data = b""
        if (
            not client.buffer
            and data.startswith(_GET)
            and data.find(b"\n") == len(data) - 1
        ):
            self._get(client, data[:-1])  # nearly all requests
            return True
        client.buffer += data
        while (end := client.buffer.find(b"\n")) >= 0:
            line = bytes(client.buffer[:end])
            del client.buffer[: end + 1]
            if line.startswith(_GET):
                self._get(client, line)
            else:
                self._handle(client, wire_from_bytes(line))
        if len(client.buffer) > _LINE_MAX:
            self._events.aborted(client.rank, 1, f"rank {client.rank}: a PMI line too long")
            data = b""
        if not data:
            client.ours.close()
        return bool(data)

    def _handle(self, client: _Client, line: str) -> None:
        if client.spawn is not None or line == BEGIN:
            self._spawn(client, line)
            return
        words = dict(word.partition("=")[::2] for word in line.split(" ") if word)
        handler = _HANDLERS.get(words.get("cmd", ""))
        if handler is None:
            self._events.unsupported(client.rank, f"the PMI request {line[:60]}")
            self._answer(client, f"cmd={words.get('cmd', '')}_result rc=-1 msg=unknown")
            return
        handler(self, client, words, line)

    def _init(self, client: _Client, words: Mapping[str, str], _line: str) -> None:
        client.initialised = True
        known = words.get("pmi_version") == "1"
        self._answer(
            client,
            f"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc={0 if known else -1}",
        )

    def _maxes(self, client: _Client, _words: Mapping[str, str], _line: str) -> None:
        self._answer(
            client,
            f"cmd=maxes kvsname_max={_KVS_NAME_MAX} keylen_max={_KEY_MAX} "
            f"vallen_max={self._value_bytes}",
        )

    def _appnum(self, client: _Client, _words: Mapping[str, str], _line: str) -> None:
        program = self._layout.program_of(client.rank)
        self._answer(client, f"cmd=appnum appnum={program}")

    def _universe(self, client: _Client, _words: Mapping[str, str], _line: str) -> None:
        self._answer(client, f"cmd=universe_size size={self._layout.size}")

    def _kvs_name(self, client: _Client, _words: Mapping[str, str], _line: str) -> None:
        self._answer(client, f"cmd=my_kvsname kvsname={self._layout.space}")

    def _put(self, client: _Client, words: Mapping[str, str], line: str) -> None:
        key = words.get("key", "")
        self._new[key] = line.partition(" value=")[2]
        self._answer(client, "cmd=put_result rc=0 msg=success")

    def _get(self, client: _Client, line: bytes) -> None:
        """Answers the most frequent request: each rank reads the keys of all nodes."""
        key = line.rpartition(_KEY)[2].partition(b" ")[0]
        value = self._known.get(key)
        if value is None:
            value = self._local(client, key)
        self._send(client, _UNKNOWN if value is None else _GOT + value + b"\n")

    def _local(self, client: _Client, key: bytes) -> bytes | None:
        """Returns the value of a key that only this node has so far, or that the parents
        gave. An MPI reads those last, to connect to the parents."""
        if key == _TOPOLOGY and self._topology.exists():
            return os.fsencode(self._topology)
        name = wire_from_bytes(key)
        value = self._new.get(name)
        if value is None:
            value = (self._layout.given or {}).get(name)
            if value is not None and not self._joined:
                self._joined = True
                self._events.asked(client.rank, Joined())
        return None if value is None else wire_to_bytes(value)

    def _know(self, table: Mapping[str, str]) -> None:
        self._known.update(
            (wire_to_bytes(key), wire_to_bytes(value)) for key, value in table.items()
        )

    def _barrier(self, client: _Client, _words: Mapping[str, str], _line: str) -> None:
        self._in_barrier.add(client.rank)
        if len(self._in_barrier) == len(self._clients):
            self._in_barrier.clear()
            new, self._new = self._new, {}
            self._events.table_ready(msgspec.msgpack.encode(new))

    def _spawn(self, client: _Client, line: str) -> None:
        client.spawn = client.spawn or SpawnReader()
        try:
            question = client.spawn.take(line)
        except (ValueError, CoschedError) as error:
            reason = f"rank {client.rank}: a PMI request that makes no sense: {error}"
            self._events.aborted(client.rank, 1, reason)
            return
        if question is not None:
            client.spawn = None
            self._ask(client, "spawn", question)

    def _publish(self, client: _Client, words: Mapping[str, str], line: str) -> None:
        port = line.partition(" port=")[2]
        self._ask(client, "publish", Publish(words.get("service", ""), port))

    def _lookup(self, client: _Client, words: Mapping[str, str], _line: str) -> None:
        self._ask(client, "lookup", Lookup(words.get("service", "")))

    def _unpublish(self, client: _Client, words: Mapping[str, str], _line: str) -> None:
        self._ask(client, "unpublish", Unpublish(words.get("service", "")))

    def _ask(self, client: _Client, request: str, question: Question) -> None:
        """Asks the job's root. A task waits for each answer, so its rank is the number."""
        client.waits = request
        self._events.asked(client.rank, question)

    def _finalize(self, client: _Client, _words: Mapping[str, str], _line: str) -> None:
        client.finalized = True
        self._answer(client, "cmd=finalize_ack rc=0")
        self._events.finalized(client.rank)

    def _abort(self, client: _Client, words: Mapping[str, str], _line: str) -> None:
        client.finalized = True
        text = words.get("exitcode", "1")
        status = _status(text)
        self._events.aborted(
            client.rank, status & 0xFF, f"rank {client.rank} called MPI_Abort ({status})"
        )

    def _answer(self, client: _Client, line: str) -> None:
        self._send(client, wire_to_bytes(line) + b"\n")

    def _send(self, client: _Client, data: bytes) -> None:
        if client.ours.fileno() < 0:
            return
        try:
            client.ours.sendall(data)
        except OSError:
            client.ours.close()  # the task has ended, which the steward reports


_HANDLERS: Mapping[str, Callable[[Pmi1Service, _Client, Mapping[str, str], str], None]] = {
    "init": Pmi1Service._init,
    "get_maxes": Pmi1Service._maxes,
    "get_appnum": Pmi1Service._appnum,
    "get_universe_size": Pmi1Service._universe,
    "get_my_kvsname": Pmi1Service._kvs_name,
    "put": Pmi1Service._put,
    "barrier_in": Pmi1Service._barrier,
    "publish_name": Pmi1Service._publish,
    "lookup_name": Pmi1Service._lookup,
    "unpublish_name": Pmi1Service._unpublish,
    "finalize": Pmi1Service._finalize,
    "abort": Pmi1Service._abort,
}


def _status(text: str) -> int:
    """Returns the exit status that a task gives; 1 for text that is no number."""
    try:
        return parse_integer(text, "an exit status", -(1 << 31), (1 << 32) - 1)
    except Malformed:
        return 1


def process_mapping(layout: JobLayout) -> str:
    """Returns where the ranks are, as MPICH reads it: blocks of (first node, number of
    nodes, ranks on each)."""
    blocks = []
    first = 0
    for count, equal in groupby(node.count for node in layout.nodes):
        nodes = len(list(equal))
        blocks.append(f"({first},{nodes},{count})")
        first += nodes
    return f"(vector,{','.join(blocks)})"
