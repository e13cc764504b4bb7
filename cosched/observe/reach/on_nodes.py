"""Runs one command of cosched on all nodes of a job, and takes the answers.

All nodes get the question at once. A node that does not answer is named; the others count.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, TypeVar

from cosched.core.decoding import Malformed, decode_json
from cosched.core.errors import CoschedError
from cosched.linux.processes.tools import run_tool
from cosched.observe.reach.ways import Way
from cosched.start.own_command import COSCHED, own_command

#: How many nodes get the question at a time.
AT_ONCE = 32
WITHIN_S = 30.0
#: Stands for the node on which a command runs, as the value of --node.
THIS_NODE = "."

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """One node's answer."""

    node: str  #: the node's host name
    found: dict[str, Any]  #: the members of its JSON object; empty if there is an error
    error: str | None = None  #: the line of its error; None: it answered


def ask_nodes(
    way: Way,
    words: Sequence[str],
    within_s: float = WITHIN_S,
    progress: Callable[[int, int], object] = lambda done, of: None,
    module: str = COSCHED,
) -> list[NodeAnswer]:
    """Runs ``cosched WORDS --node . --json`` on each node; returns the answers in order.

    progress: as for ``ask_all``. module: another program than ``cosched``. Python and
    cosched are at the same path on all nodes.
    """
    full = [*own_command(module), *words, "--node", THIS_NODE, "--json"]
    return ask_all(way.nodes, lambda node: _ask(way, node, full, within_s), progress)


def ask_all(
    nodes: Sequence[str], ask: Callable[[str], T], progress: Callable[[int, int], object]
) -> list[T]:
    """Calls ``ask`` for each node, for many at a time; returns the results in order.

    progress: called with the number of nodes that are done, and of all.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = [pool.submit(ask, node) for node in nodes]
        try:
            for done, _ in enumerate(as_completed(asked), 1):
                progress(done, len(nodes))
            return [each.result() for each in asked]
        finally:
            for each in asked:
                each.cancel()  # an interrupt leaves nodes that wait


def merged(answers: Sequence[NodeAnswer], member: str) -> list[Any]:
    """Returns the lists of this name in all answers, one after the other."""
    return [one for answer in answers for one in answer.found.get(member, [])]


def complaints(answers: Sequence[NodeAnswer]) -> list[str]:
    """Returns one line for each node without an answer."""
    return [f"node {a.node}: {a.error}" for a in answers if a.error is not None]


def refuse_silence(answers: Sequence[NodeAnswer]) -> None:
    """Raises CoschedError if no node has answered."""
    lines = complaints(answers)
    if len(lines) == len(answers):
        raise CoschedError(lines[0] if lines else "the job has no nodes")


def _ask(way: Way, node: str, words: Sequence[str], within_s: float) -> NodeAnswer:
    command = way.command(node, words)
    try:
        done = run_tool(command, within_s, directory="/")
    except subprocess.TimeoutExpired:
        return NodeAnswer(node, {}, f"no answer within {within_s:g} s")
    except OSError as error:
        return NodeAnswer(node, {}, f"{command[0]}: {error.strerror}")
    try:
        found = decode_json(done.stdout, node)
    except Malformed:
        reason = _last_line(done.stderr, done.returncode)
        return NodeAnswer(node, {}, reason.removeprefix(f"node {node}: "))
    return NodeAnswer(node, found if isinstance(found, dict) else {})


def _last_line(text: str, status: int) -> str:
    """Returns the reason in an error output: cosched's line, otherwise the last one."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("cosched: ")]
    if own:
        return own[-1].removeprefix("cosched: ")
    return lines[-1] if lines else f"no answer (exit status {status})"
