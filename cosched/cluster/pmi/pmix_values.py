"""Reads what libpmix passes to its host: names of tasks, lists of values and programs."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from cosched.cluster.pmi._pmix import ffi
from cosched.cluster.pmi.service import JobLayout
from cosched.core.cluster.startup.questions import Command, Publish, WorldRanks
from cosched.core.decoding import parse_integer, shown_text
from cosched.core.errors import CoschedError
from cosched.core.wire_text import wire_from_bytes, wire_to_bytes

#: Stands for all ranks of a job.
ALL_RANKS = 0xFFFFFFFE
#: PMIx's numbers of types.
FLAG, TEXT, BYTES = 1, 3, 27
#: A value that its first reader removes.
_FIRST_READ = 1
#: Keys that describe a request; all others are names to publish.
_OF_REQUEST = "pmix."


def read_text(pointer: Any) -> str:
    """Returns a string of C; empty for NULL."""
    if pointer == ffi.NULL:
        return ""
    data = ffi.string(pointer)
    assert isinstance(data, bytes)
    return wire_from_bytes(data)


def read_texts(pointers: Any) -> Iterator[str]:
    """Yields the strings of an array that ends with NULL."""
    number = 0
    while pointers != ffi.NULL and pointers[number] != ffi.NULL:
        yield read_text(pointers[number])
        number += 1


def read_infos(infos: Any, count: int) -> dict[str, Any]:
    """Returns the values of a list by key, as pmix_value_t."""
    return {read_text(infos[n].key): infos[n].value for n in range(count)}


def is_set(values: dict[str, Any], key: str) -> bool:
    """Returns whether a flag is there and true."""
    return key in values and (values[key].type != FLAG or bool(values[key].data.flag))


def read_published(values: dict[str, Any]) -> Publish:
    """Returns the only name that a request publishes. Raises CoschedError for several
    names, and for a value that is neither text nor bytes."""
    persistence = values.get("pmix.persist")
    once = persistence is not None and persistence.data.persist == _FIRST_READ
    names = [key for key in values if not key.startswith(_OF_REQUEST)]
    if len(names) != 1:
        raise CoschedError("publishes several names at once, which is not served")
    value = values[names[0]]
    if value.type == TEXT:
        data = wire_to_bytes(read_text(value.data.string))
    elif value.type == BYTES:
        data = ffi.buffer(value.data.bo.bytes, value.data.bo.size)[:]
    else:
        raise CoschedError(f"publishes a value of PMIx's type {value.type}, not served")
    port = f"{value.type}:{shown_text(base64.b64encode(data))}"
    return Publish(names[0], port, once)


def write_published(task: Any, name: str, port: str) -> tuple[Any, Any]:
    """Returns a pmix_pdata_t with a published value, and memory that must live as long.
    task: its publisher."""
    number, _, text = port.partition(":")
    data = base64.b64decode(text)
    kept = ffi.new("char[]", data)
    found: Any = ffi.new("pmix_pdata_t *")
    found.proc = task
    found.key = name.encode()
    found.value.type = parse_integer(number, "a type of PMIx", 0, 0xFFFF)
    if found.value.type == TEXT:
        found.value.data.string = kept
    else:
        found.value.data.bo.bytes = kept
        found.value.data.bo.size = len(data)
    return found, kept


def read_members(layout: JobLayout, tasks: Any, count: int) -> tuple[WorldRanks, ...]:
    """Returns tasks by their worlds. Raises CoschedError for those of another job."""
    ranks: defaultdict[int, set[int]] = defaultdict(set)
    for number in range(count):
        world = layout.world_of(read_text(tasks[number].nspace))
        ranks[world].add(tasks[number].rank)
    return tuple(
        WorldRanks(world, () if ALL_RANKS in each else tuple(sorted(each)))
        for world, each in sorted(ranks.items())
    )


def read_programs(apps: Any, count: int) -> tuple[Command, ...]:
    """Returns the programs of a spawn."""
    return tuple(_read_program(apps[number]) for number in range(count))


def connects(programs: Iterable[Command]) -> bool:
    """Returns whether spawned programs connect to their parents: Open MPI gives them the
    port in a variable, which is empty for programs without MPI."""
    return any(each.environ.get("OMPI_PARENT_PORT") for each in programs)


def _read_program(app: Any) -> Command:
    values = read_infos(app.info, app.ninfo)
    argv = tuple(read_texts(app.argv)) or (read_text(app.cmd),)
    hosts = _text_of(values, "pmix.host").split(",")
    environ = (line.partition("=")[::2] for line in read_texts(app.env))
    return Command(
        argv,
        app.maxprocs,
        _text_of(values, "pmix.wdir") or read_text(app.cwd),
        hosts=tuple(host.strip() for host in hosts if host.strip()),
        environ=dict(environ),
    )


def _text_of(values: dict[str, Any], key: str) -> str:
    value = values.get(key)
    return read_text(value.data.string) if value is not None and value.type == TEXT else ""
