"""All input from outside is decoded at one place: read from the sources.

``cosched.core.decoding`` has one decoder a format, ``cosched.documents`` that of TOML,
``cosched.linux.proc`` that of the kernel's numbers, and ``cosched.cluster.database`` has
SQL. A call of another decoder fails here, unless the tables below give the reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.tools.sources import nodes_of, python_files, words_of

#: Where each kind of decoder may stand.
HOMES = {
    "msgspec": ("cosched/core/decoding.py",),
    "json": ("cosched/core/decoding.py",),
    "toml": ("cosched/documents.py",),
    "sqlite": ("cosched/cluster/database.py",),
    "bytes": ("cosched/core/decoding.py",),
    "number": ("cosched/core/decoding.py",),
    "struct": ("cosched/linux/identity.py",),
}
_ALONE = "runs where nothing but Python is installed, and catches all errors itself"
_LOG = "has a million lines, and reports each fault with its line"
_SHIM = "a string of the shim's own C, which shares no code with the daemons"
_ANSWERED = "a number of JSON that is decoded already"
_C = "a number of C: of a structure, of a call or of an enumeration"
_NUMBER = "a number of Python or numpy"
_OWN = "reads what this repository's own programs have written or printed"
_ERRORS = "judges errors and reads no file"
_LENGTH = "bytes whose number is checked before, each of which is good"
#: Decoders elsewhere, by kind and file or folder, with the reason.
ELSEWHERE = {
    ("json", "cosched/cluster/engines/slurm/prolog_gate.py"): _ALONE,
    ("number", "cosched/cluster/engines/slurm/prolog_gate.py"): _ALONE,
    ("struct", "cosched/cluster/engines/slurm/prolog_gate.py"): _ALONE,
    ("bytes", "cosched/sim/logs/swf.py"): _LOG,
    ("number", "cosched/sim/logs/swf.py"): _LOG,
    ("bytes", "mpi_shim/wrapper"): _SHIM,
    ("number", "mpi_shim/wrapper"): _C,
    ("bytes", "cosched/shm"): _SHIM,
    ("number", "cosched/shm"): _C,
    ("struct", "cosched/cluster/agent/frames.py"): _LENGTH,
    ("struct", "cosched/linux/native/held_process.py"): _LENGTH,
    ("struct", "cosched/service/listener.py"): _LENGTH,
    ("number", "cosched/service/listener.py"): _C,
    ("number", "cosched/bench/simulate/models.py"): _NUMBER,
    ("number", "cosched/core/config/kinds.py"): _ANSWERED,
    ("number", "cosched/node/profile.py"): _ANSWERED,
    ("number", "cosched/node/lifetime/stop.py"): _ANSWERED,
    ("number", "cosched/observe"): _ANSWERED,
    ("number", "cosched/sim"): _NUMBER,
    ("number", "cosched/core/cluster/queue/sizes/prediction.py"): _NUMBER,
    (
        "number",
        "cosched/malleable/prediction.py",
    ): "a number of the program in whose process this runs",
    ("number", "cosched/dashboard/picture.py"): _ANSWERED,
    ("number", "cosched/cluster/coupling/mail.py"): _NUMBER,
    ("number", "cosched/cluster/coupling/metrics.py"): _NUMBER,
    ("number", "cosched/launch/process.py"): _NUMBER,
    ("number", "cosched/cluster/pmi/pmix_server.py"): _C,
    ("number", "cosched/lab/fabric.py"): _C,
    ("number", "cosched/linux/cgroups/mounts.py"): "octal digits that a pattern has found",
    ("number", "cosched/node/status.py"): _C,
    ("number", "cosched/node/tasks/left.py"): _C,
    ("number", "cosched/node/timer/timer.py"): _C,
    ("sqlite", "cosched/cluster/database_errors.py"): _ERRORS,
    ("sqlite", "cosched/cluster/full_disk.py"): _ERRORS,
    ("bytes", "cosched/core/wire_text.py"): "keeps all bytes, so that none is malformed",
    (
        "foreign",
        "cosched/jobs/calls/parcels.py",
    ): "pickles of this user's own processes, in private files that are checked first",
    ("json", "benchmarks"): _OWN,
    ("bytes", "benchmarks"): _OWN,
    ("number", "benchmarks"): _OWN,
    ("struct", "benchmarks"): _OWN,
    ("json", "scripts"): _OWN,
    ("bytes", "scripts"): _OWN,
    ("number", "scripts"): _OWN,
}
FOLDERS = ("cosched", "daemons", "mpi_shim", "benchmarks", "scripts")
_MSGSPEC = ("convert", "decode", "Decoder")
_JSON = ("load", "loads", "JSONDecoder")
_UNPACK = ("unpack", "unpack_from", "iter_unpack")
#: Calls of other names are no decoders.
_NAMES = {*_MSGSPEC, *_JSON, *_UNPACK, "connect", "str", "int", "float"}
#: Calls of these return numbers.
_OF_NUMBERS = {"any", "all", "len", "max", "min", "round", "sum", "mean", "time", "number"}


def kind_of(call: ast.Call) -> str | None:
    """Returns which kind of decoder a call is; None if it is none."""
    if getattr(call.func, "attr", getattr(call.func, "id", None)) not in _NAMES:
        return None
    name = words_of(call.func)
    module, _, last = name.rpartition(".")
    if module in ("msgspec", "msgspec.json", "msgspec.msgpack", "msgpack"):
        return "msgspec" if last in _MSGSPEC else None
    if module == "json" and last in _JSON:
        return "json"
    if module in ("tomllib", "tomli") or name == "sqlite3.connect":
        return "toml" if module != "sqlite3" else "sqlite"
    if last in _UNPACK and (module == "struct" or module.isupper()):
        return "struct"
    if last == "decode" and is_of_bytes(call):
        return "bytes"
    if name == "str" and len(call.args) > 1:
        return "bytes"
    if name in ("int", "float") and call.args and not is_number(call.args[0]):
        return "number"
    return None


def is_of_bytes(call: ast.Call) -> bool:
    """Whether this is ``bytes.decode``: a decoder of a format gets one value instead."""
    texts = [each for each in call.args if is_text(each)]
    return not call.args or len(texts) == len(call.args)


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def is_number(node: ast.expr) -> bool:
    """Whether an expression can only be a number."""
    if isinstance(node, ast.Compare):
        return True
    if isinstance(node, ast.BinOp):
        return not is_text(node.left)
    if isinstance(node, ast.Constant):
        return node.value in ("inf", "nan") or not isinstance(node.value, str)
    if isinstance(node, ast.Call):
        return words_of(node.func).rpartition(".")[2] in _OF_NUMBERS
    return isinstance(node, ast.Attribute) and words_of(node).startswith("lib.")


def found_in(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """Yields the kind and the line of each decoder."""
    for node in nodes:
        if isinstance(node, ast.Call) and (kind := kind_of(node)) is not None:
            yield kind, node.lineno
        if (
            isinstance(node, ast.Attribute)
            and node.attr in ("load", "loads")
            and words_of(node.value) == "json"
        ):
            yield "json", node.lineno
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "map":
            first = words_of(node.args[0]) if node.args else ""
            if first in ("int", "float"):
                yield "number", node.lineno
        if isinstance(node, ast.ImportFrom) and node.module == "json":
            yield "json", node.lineno
        modules = (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [str(node.module)]
            if isinstance(node, ast.ImportFrom)
            else []
        )
        for module in modules:
            if module in ("tomllib", "tomli"):
                yield "toml", node.lineno
            if module in ("sqlite3", "pickle", "marshal", "shelve", "yaml"):
                yield "sqlite" if module == "sqlite3" else "foreign", node.lineno


@cache
def all_found() -> list[tuple[str, str, int]]:
    return [
        (str(path.relative_to(ROOT)), kind, line)
        for path in python_files(*FOLDERS)
        for kind, line in found_in(nodes_of(path))
    ]


def excused(path: str, kind: str) -> list[tuple[str, str]]:
    """Returns the entries of the table that allow a decoder."""
    above = [path, *map(str, Path(path).parents)]
    return [(kind, place) for place in above if (kind, place) in ELSEWHERE]


def test_all_input_is_decoded_at_one_place() -> None:
    wrong = [
        f"{path}:{line}: {kind}"
        for path, kind, line in all_found()
        if path not in HOMES.get(kind, ()) and not excused(path, kind)
    ]
    assert wrong == [], "decode by cosched.core.decoding, or give the reason here"


def test_addresses_are_split_at_one_place() -> None:
    places = {
        str(path.relative_to(ROOT))
        for path in python_files("cosched", "daemons", "mpi_shim")
        if re.search(r"""\br(partition|split)\(["']:""", path.read_text())
    }
    assert places == {"cosched/core/decoding.py"}, "use parse_address or host_of"


def test_each_reason_is_needed() -> None:
    used = {entry for path, kind, _ in all_found() for entry in excused(path, kind)}
    assert set(ELSEWHERE) == used


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("msgspec.json.decode(line)", "msgspec"),
        ("msgspec.json.Decoder(Hello)", "msgspec"),
        ("msgspec.convert(value, Hello)", "msgspec"),
        ("json.loads(line)", "json"),
        ("json.load(stream)", "json"),
        ("list(map(json.loads, lines))", "json"),
        ("import sqlite3", "sqlite"),
        ("import tomllib", "toml"),
        ("from tomllib import loads", "toml"),
        ("import pickle", "foreign"),
        ("data.decode()", "bytes"),
        ("data.decode('utf-8')", "bytes"),
        ("data.decode(errors='replace')", "bytes"),
        ("str(data, 'ascii')", "bytes"),
        ("int(text)", "number"),
        ("int(words[0])", "number"),
        ("float(text)", "number"),
        ("list(map(int, words))", "number"),
        ("struct.unpack('3i', raw)", "struct"),
        ("_HEAD.unpack_from(data)", "struct"),
    ],
)
def test_decoder_is_found(text: str, kind: str) -> None:
    assert kind in {found for found, _ in found_in(ast.walk(ast.parse(text)))}


@pytest.mark.parametrize("text", ["a", "a.b.c", "a().b", "a[0].b.c", "'a'.join", "-a"])
def test_words_of_an_expression_are_those_of_python(text: str) -> None:
    assert words_of(ast.parse(text, mode="eval").body) == text


@pytest.mark.parametrize(
    "text",
    [
        "_decoder.decode(line)",
        "msgspec.json.encode(value)",
        "int(3.5 * x)",
        "int(any(found))",
        "float('inf')",
        "json.dumps(value)",
        "str(number)",
    ],
)
def test_other_calls_are_none(text: str) -> None:
    assert list(found_in(ast.walk(ast.parse(text)))) == []
