"""Reads the request of several lines by which PMI-1 asks for new tasks.

Each program has its own part, from ``mcmd=spawn`` to ``endcmd``, with a line ``KEY=VALUE``
for each word. The first part also has the values that the new tasks can read.
"""

from __future__ import annotations

from cosched.core.cluster.startup.questions import Command, Spawn
from cosched.core.decoding import Malformed, parse_integer

BEGIN = "mcmd=spawn"
_END = "endcmd"
#: Lines of one program, so that a request without end cannot fill the memory.
LINES_MOST = 100_000
#: Messages carry no larger number.
_NUMBER_MOST = (1 << 63) - 1


class SpawnReader:
    """Collects the lines of one request."""

    def __init__(self) -> None:
        self._commands: list[Command] = []
        self._given: dict[str, str] = {}
        self._words: dict[str, str] = {}
        self._left = 1  # programs that are still to come

    def take(self, line: str) -> Spawn | None:
        """Reads the next line; returns the request after its last line. Raises Malformed
        for a request that makes no sense."""
        if line == BEGIN:
            self._words = {}
        elif line != _END:
            key, _, value = line.partition("=")
            self._words[key] = value
            if len(self._words) > LINES_MOST:
                raise Malformed(f"a program of more than {LINES_MOST} lines")
        else:
            self._end_program()
            if self._left == 0:
                # Parents with MPI give the new tasks a port of theirs.
                return Spawn(tuple(self._commands), self._given, bool(self._given))
        return None

    def _end_program(self) -> None:
        if "spawnssofar" in self._words:
            self._left = self._number("totspawns") - self._number("spawnssofar")
        self._given.update(self._pairs("preput_num", "preput_key_{}", "preput_val_{}"))
        info = self._pairs("info_num", "info_key_{}", "info_val_{}")
        count = self._count("argcnt")
        arguments = (self._words.get(f"arg{n}", "") for n in range(1, count + 1))
        hosts = info.get("host", info.get("hosts", ""))
        self._commands.append(
            Command(
                (self._words.get("execname", ""), *arguments),
                self._number("nprocs"),
                info.get("wdir", ""),
                info.get("path", ""),
                tuple(host.strip() for host in hosts.split(",") if host.strip()),
            )
        )

    def _number(self, key: str) -> int:
        text = self._words.get(key, "0")
        return parse_integer(text, key, -_NUMBER_MOST, _NUMBER_MOST)

    def _count(self, key: str) -> int:
        """Returns a number of lines that the program has."""
        number = self._number(key)
        if number > LINES_MOST:
            raise Malformed(f"{key} is more than {LINES_MOST}")
        return number

    def _pairs(self, count: str, key: str, value: str) -> dict[str, str]:
        words = self._words
        return {
            words.get(key.format(n), ""): words.get(value.format(n), "")
            for n in range(self._count(count))
        }
