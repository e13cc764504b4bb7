"""Asks other nodes for their facts, and measures how far their clocks are from this one.

A node runs ``cosched doctor --facts``. It prints its facts as one line of JSON. Then it
answers each line that it reads with its wall clock.
"""

from __future__ import annotations

import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import IO

import msgspec

from cosched.core.decoding import JsonDecoder, Malformed, parse_integer, shown_text
from cosched.core.units import NS_PER_S
from cosched.linux.processes.signals import send_to_child
from cosched.observe.doctor.facts import NodeFacts, Seen
from cosched.observe.reach.on_nodes import ask_all
from cosched.observe.reach.ways import Way

WITHIN_S = 60.0
#: Questions for the clock; the quickest answer counts.
ROUNDS = 8


def ask_facts(
    way: Way,
    words: Sequence[str],
    progress: Callable[[int, int], object],
    within_s: float = WITHIN_S,
) -> tuple[Seen, ...]:
    """Runs ``words`` on each node; returns the nodes in the same order.

    progress: as for ``ask_all``. A node that does not answer within the time has a reason
    instead of facts.
    """

    def ask(node: str) -> Seen:
        return _ask(node, way.command(node, words), within_s)

    return tuple(ask_all(way.nodes, ask, progress))


_facts: JsonDecoder[NodeFacts] = JsonDecoder(NodeFacts, "the facts of a node")


def answer(facts: NodeFacts, questions: IO[str], answers: IO[str]) -> None:
    """Prints this node's facts, then its clock for each line until ``questions`` end."""
    print(shown_text(msgspec.json.encode(facts)), file=answers, flush=True)
    for _ in questions:
        print(time.time_ns(), file=answers, flush=True)


def _ask(node: str, command: Sequence[str], within_s: float) -> Seen:
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
    except OSError as error:
        return Seen(node, silent=f"cannot run '{command[0]}': {error.strerror}")
    talk = _Talk(process, time.monotonic() + within_s)
    try:
        line = talk.read_line()
        if not line:
            return Seen(node, silent=talk.failure())
        facts = _facts.decode(line)
        offset_s, error_s = talk.compare_clocks()
        return Seen(node, facts, offset_s=offset_s, within_s=error_s)
    except Malformed:
        return Seen(node, silent="its cosched prints other facts; compare versions")
    except BrokenPipeError:
        return Seen(node, silent=talk.failure())
    finally:
        send_to_child(process, signal.SIGKILL)
        process.communicate()


class _Talk:
    """A conversation with one node, which ends at ``deadline_s`` (monotonic)."""

    def __init__(self, process: subprocess.Popen[bytes], deadline_s: float) -> None:
        self._process = process
        self._deadline_s = deadline_s
        self._pending = b""

    def read_line(self) -> bytes:
        """Returns the next line; nothing if it does not come whole before the deadline."""
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                left_s = self._deadline_s - time.monotonic()
                if left_s <= 0 or not waiting.select(left_s):
                    return b""
                found = self._process.stdout.read(65536)
                if not found:
                    return b""
                self._pending += found
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def compare_clocks(self) -> tuple[float, float]:
        """Returns how far the node's clock is ahead, and the error of that, in seconds.

        Raises BrokenPipeError if the node stops answering, Malformed for other answers."""
        assert self._process.stdin is not None
        best = (0, 1 << 62)
        for _ in range(ROUNDS):
            asked_ns = time.time_ns()
            self._process.stdin.write(b"?\n")
            line = self.read_line()
            if not line:
                raise BrokenPipeError
            there_ns = parse_integer(line, "the clock of a node", 0, (1 << 63) - 1)
            error_ns = (time.time_ns() - asked_ns) // 2
            best = min(best, (there_ns - asked_ns - error_ns, error_ns), key=lambda b: b[1])
        return best[0] / NS_PER_S, best[1] / NS_PER_S

    def failure(self) -> str:
        """Returns why there is no answer: the last line on stderr, or the time."""
        if time.monotonic() >= self._deadline_s:
            return "no answer in time"
        send_to_child(self._process, signal.SIGKILL)
        _, errors = self._process.communicate()
        lines = shown_text(errors).strip().splitlines()
        return lines[-1] if lines else f"ended with status {self._process.returncode}"
