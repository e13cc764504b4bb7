"""Writes the agent: a shell script that starts a command inside a node, as ssh does.

``AGENT [-flags] HOST WORDS...`` drops the flags. HOST is a node's name or address. A shell
inside that node gets the words, joined by blanks. Hydra uses the script with ``-launcher
rsh -launcher-exec AGENT``, PRRTE with ``--prtemca plm_ssh_agent AGENT``. Unlike ssh it
keeps environment and working directory, because every node shares the host's files.

It is a script and not Python, because a launcher runs it once for each node and waits. It
first checks the keeper's start time: after the lab's end, the pid may be another process's.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.core.node.division import format_cpus
from cosched.lab.state import NodeRecord
from cosched.linux.files.whole import write_whole

# Starts the words after directory $1 there, once inside. The shell's errors begin with $0.
# nsenter's own --wd would leave the command in the host's mount tree, and --wdns is missing
# before util-linux 2.38. The first process inside reports to the node's daemon that a
# coscheduled job starts.
_START = (
    'cd -- "$1" 2>/dev/null || cd /; shift; '
    '[ -z "$COSCHED_JOB" ] || [ -n "$COSCHED_LAUNCHED" ] || export COSCHED_LAUNCHER=1; '
    'exec "$@"'
)

_SPLITS = r"[\s:]"

_SCRIPT = """\
#!/bin/sh
# AGENT [-flags] HOST WORDS...: runs WORDS inside a node of the lab, as ssh would.
# Written by cosched lab up; removed by cosched lab down.
say() {{ echo "cosched lab agent: $1" >&2; exit 255; }}
while :; do
    case ${{1-}} in
    --) shift; break ;;
    -[bcDeFIiJLlmOopQRSWw]) shift; [ $# -eq 0 ] || shift ;;
    -*) shift ;;
    *) break ;;
    esac
done
[ $# -ge 2 ] || say 'usage: AGENT [-flags] HOST COMMAND...'
host=${{1#*@}}
shift
case $host in
{cases}
*) say "host '$host' is not in the lab; its nodes are {names}" ;;
esac
stat=
{{ read -r stat < "/proc/$pid/stat"; }} 2>/dev/null
words=$*
set -- ${{stat##*)}}
[ "${{1-Z}}" != Z ] && [ "${{20-}}" = "$start" ] ||
    say "$host has lost its keeper: cosched lab down, then up"
exec {nsenter} --target "$pid" --net --uts --mount -- {taskset} -c "$cpus" \\
    /bin/sh -c '{start}' "$host" "$PWD" /bin/sh -c "$words"
"""


@dataclass(frozen=True, slots=True)
class Tools:
    """The programs of util-linux that enter a node."""

    nsenter: str  #: the path of the program that enters namespaces
    taskset: str  #: the path of the program that sets CPUs

    @classmethod
    def find(cls, which: Callable[[str], str | None]) -> Tools:
        found = {name: which(name) for name in ("nsenter", "taskset")}
        missing = [name for name, path in found.items() if path is None]
        if missing:
            raise CoschedError(f"{', '.join(missing)} not found: apt install util-linux")
        return cls(str(found["nsenter"]), str(found["taskset"]))


def enter_argv(
    tools: Tools, keeper_pid: int, cpus: Sequence[int], directory: str
) -> list[str]:
    """Returns the words in front of a command that make it run inside a node."""
    return [
        *(tools.nsenter, "--target", str(keeper_pid), "--net", "--uts", "--mount"),
        *("--", tools.taskset, "-c", format_cpus(cpus)),
        *("/bin/sh", "-c", _START, "cosched", directory),
    ]


def agent_script(tools: Tools, hosts: Sequence[NodeRecord]) -> str:
    """Returns the script's text."""
    cases = "\n".join(
        f"{host.name} | {host.address}) pid={host.keeper.pid} "
        f"start={host.keeper.start_ticks} cpus={format_cpus(host.cpus)} ;;"
        for host in hosts
    )
    return _SCRIPT.format(
        cases=cases,
        start=_START,
        names=", ".join(host.name for host in hosts),
        nsenter=shlex.quote(tools.nsenter),
        taskset=shlex.quote(tools.taskset),
    )


def agent_places(run_dir: Path, mark_prefix: str) -> tuple[Path, ...]:
    """Returns places for the script, best first; in /run programs often cannot execute."""
    name = f"{mark_prefix}agent"
    return (run_dir / "lab" / "agent", Path("/dev/shm", name), Path("/tmp", name))


def choose_agent_place(places: Sequence[Path], mount_flags: Callable[[Path], int]) -> Path:
    """Returns the first place whose file system lets programs execute.

    The path has no blank or colon, because launchers split it there.
    """
    for place in places:
        splits = re.search(_SPLITS, str(place))
        if not splits and not mount_flags(place.parent) & os.ST_NOEXEC:
            return place
    looked = ", ".join(str(place.parent) for place in places)
    raise CoschedError(f"no program may execute in {looked}: choose another --run-dir")


def write_agent(place: Path, text: str) -> None:
    """Writes the script there, never through a file of another user."""
    write_whole(place, text, 0o755)
