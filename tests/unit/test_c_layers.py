"""The C files of the shim depend on each other in one direction: cosched/shm, then the
interposer's base, wait, status, calls, and on top life and launch.

A part is a .c file with its header. It depends on each part whose header it includes,
and on each part whose functions or variables it uses. Some parts replace a function of
the C library. A part that calls such a function depends on them, too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

from tests.places import ROOT

INTERPOSER = ROOT / "mpi_shim" / "interposer"
SHM = ROOT / "cosched" / "shm"
LAYERS = ("cosched", "base", "wait", "status", "calls", "top")
COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
INCLUDE = re.compile(r'^\s*#\s*include "([\w/]+)\.h"', re.MULTILINE)
#: A condition on the MPI library, such as ``#ifdef OPEN_MPI``.
LIBRARY = re.compile(
    r"^\s*#.*\b(?:OPEN_MPI|MPICH_NUMVERSION|I_MPI_VERSION)\b", re.MULTILINE
)
NAME = re.compile(r"\b(?:cosched|COSCHED)_\w+")
#: A function with its body, or a variable without "extern", at the beginning of a line.
DEFINITION = re.compile(
    r"^(?!static|extern|typedef|struct \w+;|#|\s)[\w\s*()]*?\b(cosched_\w+)"
    r"(?:\([^;{}]*\)\s*\{|(?:\[\w*\])?\s*(?:=[^;]*)?;)",
    re.MULTILINE,
)
#: A function of the C library that the shim exports.
REPLACED = re.compile(r'visibility\("default"\)\)\)\s+[\w\s*]*?\b(?!cosched_)(\w+)\(')
#: A call of a function or macro.
CALLED = re.compile(r"\b(\w+)\s*\(")

Parts = dict[str, str]


def read_parts(folder: Path) -> Parts:
    """Returns the text of each part by its name, such as ``base/state``."""
    parts: Parts = {}
    for path in sorted([*folder.rglob("*.h"), *folder.rglob("*.c")]):
        name = str(path.relative_to(folder).with_suffix(""))
        parts[name] = parts.get(name, "") + path.read_text()
    return parts


def read_all() -> Parts:
    """Returns the parts of the interposer and of cosched/shm, as ``cosched/task``."""
    parts = read_parts(INTERPOSER)
    for path in sorted([*SHM.rglob("*.h"), *SHM.glob("[!_]*.c")]):
        name = f"cosched/{path.stem}"
        text = INCLUDE.sub(
            lambda found: f'#include "cosched/{Path(found[1]).name}.h"', path.read_text()
        )
        parts[name] = parts.get(name, "") + text
    return parts


def find_included(parts: Parts, name: str) -> set[str]:
    """Returns the parts whose headers a part includes, directly or through others."""
    found: set[str] = set()
    missing = {name}
    while missing:
        found |= missing
        texts = [parts[part] for part in missing]
        missing = {each for text in texts for each in INCLUDE.findall(text)} & set(parts)
        missing -= found
    return found


def find_blind(parts: Parts) -> list[str]:
    """Returns the parts with a condition on the MPI library that do not include mpi.h:
    there the condition is never true."""
    return [
        name
        for name, text in parts.items()
        if LIBRARY.search(text)
        and not any(
            "#include <mpi.h>" in parts[each] for each in find_included(parts, name)
        )
    ]


def find_definitions(parts: Parts) -> dict[str, str]:
    """Returns the part that defines each function or variable with external linkage."""
    return {
        found: name
        for name, text in parts.items()
        for found in (
            *DEFINITION.findall(COMMENT_OR_STRING.sub("", text)),
            *REPLACED.findall(text),
        )
    }


def find_edges(parts: Parts) -> dict[tuple[str, str], str]:
    """Returns the reason for each dependence of one part on another."""
    owners = find_definitions(parts)
    edges: dict[tuple[str, str], str] = {}
    for name, text in parts.items():
        for included in INCLUDE.findall(text):
            if included in parts and included != name:
                edges.setdefault((name, included), f'#include "{included}.h"')
        code = COMMENT_OR_STRING.sub("", text)
        for used in (*NAME.findall(code), *CALLED.findall(code)):
            owner = owners.get(used, name)
            if owner != name:
                edges.setdefault((name, owner), used)
    return edges


def layer_of(part: str) -> int:
    return LAYERS.index(part.split("/", maxsplit=1)[0]) if "/" in part else len(LAYERS) - 1


def describe(edge: tuple[str, str], reason: str) -> str:
    return f"{edge[0]} -> {edge[1]} ({reason})"


def find_upward(edges: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """Yields each dependence on a higher layer."""
    for (user, used), reason in edges.items():
        if layer_of(used) > layer_of(user):
            yield describe((user, used), reason)


def find_circle(edges: Mapping[tuple[str, str], str]) -> list[str]:
    """Returns the dependences that form a circle; none if there is no circle."""
    graph: dict[str, set[str]] = {}
    for user, used in edges:
        graph.setdefault(user, set()).add(used)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        around = reversed(error.args[1])
        return [describe(step, edges[step]) for step in pairwise(around)]
    return []


def test_files_are_found():
    parts = read_all()
    owners = find_definitions(parts)
    assert {layer_of(part) for part in parts} == set(range(len(LAYERS)))
    assert owners["cosched_comms_find"] == "status/comms"
    assert owners["cosched_state"] == "base/state"
    assert owners["cosched_do_Recv"] == "calls/recv"
    assert owners["cosched_attach"] == "cosched/task"
    assert owners["sched_yield"] == "wait/library_yields"
    assert owners["dladdr"] == "base/library"


def test_layers_depend_downwards():
    assert list(find_upward(find_edges(read_all()))) == []


def test_no_circle():
    assert find_circle(find_edges(read_all())) == []


def test_condition_on_library_includes_mpi_h():
    assert find_blind(read_all()) == []


def test_part_without_mpi_h_is_named():
    low = "#include <mpi.h>\n"
    condition = "#ifdef OPEN_MPI\n#endif\n"
    parts = {
        "base/low": low,
        "wait/left": '#include "base/low.h"\n' + condition,
        "wait/right": condition,
    }
    assert find_blind(parts) == ["wait/right"]


MADE_UP = {
    "base/low": "int cosched_low_add(int a) {\n    return a;\n}\n",
    "wait/left": '#include "base/low.h"\nvoid cosched_left_do(void) { return; }\n',
    "wait/right": "int cosched_right_size;\nextern int cosched_left_size;\n",
    "top": "/* cosched_nobody_calls() */\nstatic int own;\n",
}


def test_layers_of_downward_calls_are_accepted():
    edges = find_edges(MADE_UP)
    assert set(edges) == {("wait/left", "base/low")}
    assert not list(find_upward(edges))
    assert not find_circle(edges)


def test_call_of_higher_layer_is_named():
    low = "int cosched_low_add(int a) {\n    cosched_left_do();\n    return a;\n}\n"
    found = list(find_upward(find_edges(MADE_UP | {"base/low": low})))
    assert found == ["base/low -> wait/left (cosched_left_do)"]


def test_call_of_replaced_function_is_named():
    right = '__attribute__((visibility("default"))) int sched_yield(void) { return 0; }\n'
    low = "static inline int cosched_low_wait(void) { return sched_yield(); }\n"
    system = "static int cosched_low_wait(void) { return syscall(SYS_sched_yield); }\n"
    made_up = MADE_UP | {"wait/right": right}
    found = list(find_upward(find_edges(made_up | {"base/low": low})))
    assert found == ["base/low -> wait/right (sched_yield)"]
    assert not list(find_upward(find_edges(made_up | {"base/low": system})))


def test_include_of_higher_layer_is_named():
    low = '#include "wait/right.h"\n' + MADE_UP["base/low"]
    found = list(find_upward(find_edges(MADE_UP | {"base/low": low})))
    assert found == ['base/low -> wait/right (#include "wait/right.h")']


def test_circle_in_one_layer_is_named():
    left = "void cosched_left_do(void) { cosched_right_size = 1; }\n"
    right = "int cosched_right_size;\nint cosched_right_do(void) { cosched_left_do(); }\n"
    found = find_circle(find_edges(MADE_UP | {"wait/left": left, "wait/right": right}))
    assert sorted(found) == [
        "wait/left -> wait/right (cosched_right_size)",
        "wait/right -> wait/left (cosched_left_do)",
    ]
