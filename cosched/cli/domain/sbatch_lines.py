"""Translates the ``#SBATCH`` lines of a script into options of ``cosched submit``.

A line is translated where both mean the same. One that only changes when or where the job
runs, or who pays, is left out with a note. One without which the program would do something
else, such as a request for GPUs, refuses the job.

Slurm starts a script once, on the first node of the job, and the script starts the tasks.
So ``--ntasks`` is the room of the script: it runs once, on one node with so many slots.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from cosched.cli.domain.script_lines import ScriptLine
from cosched.core.decoding import is_whole, parse_integer
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S, format_duration

_LARGEST = 1 << 20


@dataclass
class Translated:
    """The meaning of all ``#SBATCH`` lines of a script."""

    options: list[str] = field(default_factory=list)  #: of ``cosched submit``
    notes: list[str] = field(default_factory=list)  #: a line for each option left out
    environ: dict[str, str] = field(default_factory=dict)  #: variables of the job
    ntasks: int = 0  #: tasks that the script starts; 0: not given
    per_node: int = 0  #: the same on each node; 0: not given
    cpus_per_task: int = 1  #: CPUs of each of them

    @property
    def slots(self) -> int:
        """Returns the slots that its node must have."""
        return max(self.ntasks, self.per_node, 1) * self.cpus_per_task


class _Refused(Exception):
    """The option cannot be served; the text is the reason."""


class _Ignored(Exception):
    """The option is left out; the text is the reason."""


_Translate = Callable[[Translated, str], None]


def translate(found: Translated, line: ScriptLine) -> list[str]:
    """Adds what a line means; returns its options of ``cosched submit``. Raises
    CoschedError if it refuses the job."""
    before = len(found.options)
    for name, value in _split(line):
        shown = f"--{name}" if value is None else f"--{name}={value}"
        what = f"{line.place}: #SBATCH {shown:.80}"
        try:
            _one(found, name, value)
        except _Ignored as why:
            found.notes.append(f"{what}: is ignored: {why}")
        except _Refused as why:
            raise CoschedError(
                f"{what}: {why}; to submit the script without it, remove the line"
            ) from None
    return found.options[before:]


def _one(found: Translated, name: str, value: str | None) -> None:
    if name in _REFUSED:
        raise _Refused(_REFUSED[name])
    if name in _IGNORED:
        raise _Ignored(_IGNORED[name])
    if name not in _SAME:
        raise _Ignored("it is not known here")
    _SAME[name](found, value or "")


def _split(line: ScriptLine) -> Iterator[tuple[str, str | None]]:
    """Yields the options of a line with their long names, as getopt_long reads them."""
    words = iter(line.words)
    for word in words:
        if word.startswith("--"):
            given, equals, value = word[2:].partition("=")
            name = _full_name(given)
            if equals:
                yield name, value
            else:
                yield name, next(words, None) if name in _TAKES_VALUE else None
        elif word.startswith("-") and len(word) > 1:
            letters = word[1:]
            while letters:
                name = _SHORT.get(letters[0], letters[0])
                if name in _TAKES_VALUE:
                    rest = letters[1:]
                    yield name, rest or next(words, None)
                    break
                yield name, None
                letters = letters[1:]
        else:
            raise CoschedError(f"{line.place}: '{word:.60}': is no option of sbatch")


def _full_name(given: str) -> str:
    """Returns the option of which this is the name, or the begin of the name."""
    if given in _KNOWN:
        return _ALIASES.get(given, given)
    found = {_ALIASES.get(name, name) for name in _KNOWN if name.startswith(given)}
    return found.pop() if given and len(found) == 1 else given


# --- options that mean the same -----------------------------------------------------------


def _as(option: str) -> _Translate:
    def translated(found: Translated, value: str) -> None:
        found.options += [option, value]

    return translated


def _flag(option: str) -> _Translate:
    def translated(found: Translated, _value: str) -> None:
        found.options.append(option)

    return translated


def _file(option: str) -> _Translate:
    def translated(found: Translated, value: str) -> None:
        found.options += [option, value]
        other = re.search(r"(?<!%)(?:%%)*(%\d*[bJNnst])", value, re.ASCII)
        if other is not None:
            raise _Ignored(f"{other[1]} in it is not known here and stays as it is")

    return translated


_TIME = r"(?a)(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?"


def _time(found: Translated, value: str) -> None:
    """Reads MINUTES, M:S, H:M:S, D-H, D-H:M or D-H:M:S."""
    if value.upper() in ("0", "UNLIMITED", "INFINITE", "-1"):
        raise _Ignored("the domain's usual limit holds")
    match = re.fullmatch(_TIME, value)
    if match is None:
        raise _Refused("is no time of Slurm")
    days, *numbers = (
        parse_integer(group or "0", "--time", 0, 10**9)
        for place, group in enumerate(match.groups())
        if group is not None or not place
    )
    if match[1] is not None:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
    elif len(numbers) == 3:
        hours, minutes, seconds = numbers
    else:
        hours, minutes, seconds = 0, *(*numbers, 0)[:2]
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    found.options += ["--time", format_duration(total * NS_PER_S)]


def _memory(found: Translated, value: str) -> None:
    match = re.fullmatch(r"(\d{1,15})([KMGTkmgt]?)[Bb]?", value, re.ASCII)
    if match is None:
        raise _Refused("is no size of Slurm")
    if not match[1].strip("0"):
        raise _Ignored("a job may use all memory of its node")
    found.options += ["--memory", f"{match[1]}{match[2].upper() or 'M'}"]


def _constraint(found: Translated, value: str) -> None:
    """Reads ``bigmem&fast``: all of these features."""
    if re.search(r"[|*\[\]()]", value):
        raise _Refused("only names with & between them have the same meaning")
    found.options += ["--constraint", re.sub("[&,]", ",", value)]


def _licences(found: Translated, value: str) -> None:
    """Reads ``matlab:2,other``."""
    if re.search(r"[|@=]", value):
        raise _Refused("only names and numbers such as matlab:2 have the same meaning")
    found.options += ["--need", value]


def _nodes(_found: Translated, value: str) -> None:
    if value not in ("1", "1-1"):
        raise _Refused(
            "a script runs on one node here; start its program on several by "
            "cosched submit --nodes"
        )


def _tasks(found: Translated, value: str) -> None:
    found.ntasks = _count(value)
    found.environ["SLURM_NTASKS"] = str(found.ntasks)


def _tasks_per_node(found: Translated, value: str) -> None:
    found.per_node = _count(value)
    found.environ["SLURM_NTASKS_PER_NODE"] = str(found.per_node)


def _cpus_per_task(found: Translated, value: str) -> None:
    found.cpus_per_task = _count(value)
    found.environ["SLURM_CPUS_PER_TASK"] = str(found.cpus_per_task)


def _count(value: str) -> int:
    if not is_whole(value, 1, _LARGEST):
        raise _Refused("is no number of tasks or CPUs")
    return parse_integer(value, "#SBATCH", 1, _LARGEST)


def _dependency(found: Translated, value: str) -> None:
    """Reads ``afterok:1:2,afterany:3``."""
    jobs: dict[str, list[str]] = {"--after": [], "--after-ok": []}
    kinds = {"afterany": "--after", "afterok": "--after-ok"}
    for part in value.split(","):
        kind, *numbers = part.split(":")
        if kind not in kinds or not numbers or "?" in part or "+" in part:
            raise _Refused("only afterok and afterany, all of them, have the same meaning")
        jobs[kinds[kind]] += [number.removesuffix("_*") for number in numbers]
    for option, numbers in jobs.items():
        if numbers:
            found.options += [option, ",".join(numbers)]


def _export(found: Translated, value: str) -> None:
    """Reads ``ALL``, also with further variables."""
    words = value.split(",")
    if "ALL" not in words:
        raise _Refused("a job has all variables of the command that submits it")
    found.environ |= dict(word.split("=", 1) for word in words if "=" in word)


def _exclusive(found: Translated, value: str) -> None:
    if value:
        raise _Ignored("only --exclusive without a value is known here")
    found.options.append("--exclusive")


def _open_mode(_found: Translated, value: str) -> None:
    if value != "append":
        raise _Ignored("a job appends to the files of its output")


def _nothing(_found: Translated, _value: str) -> None:
    """Takes an option that cosched follows anyway."""


_SAME: Mapping[str, _Translate] = MappingProxyType(
    {
        "array": _as("--array"),
        "chdir": _as("--cwd"),
        "constraint": _constraint,
        "cpus-per-task": _cpus_per_task,
        "dependency": _dependency,
        "error": _file("--error"),
        "exclusive": _exclusive,
        "export": _export,
        "hold": _flag("--hold"),
        "input": _as("--input"),
        "job-name": _as("--name"),
        "kill-on-invalid-dep": _nothing,
        "licenses": _licences,
        "mem": _memory,
        "no-requeue": _nothing,
        "nodes": _nodes,
        "ntasks": _tasks,
        "ntasks-per-node": _tasks_per_node,
        "open-mode": _open_mode,
        "output": _file("--output"),
        "requeue": _flag("--requeue"),
        "time": _time,
    }
)
_GPU = "a domain gives no GPUs to jobs"
_PLACE = "a domain chooses the nodes itself"
_REFUSED = MappingProxyType(
    {
        **dict.fromkeys(("gres", "gpus", "gpus-per-node", "gpus-per-socket"), _GPU),
        **dict.fromkeys(("gpus-per-task", "cpus-per-gpu", "mem-per-gpu", "tres"), _GPU),
        **dict.fromkeys(("tres-per-task", "gpu-bind", "gpu-freq"), _GPU),
        **dict.fromkeys(("nodelist", "nodefile", "exclude"), _PLACE),
        **dict.fromkeys(("cluster-constraint", "clusters"), "a domain is one cluster"),
        "begin": "a domain starts no job at a given time",
        "deadline": "a domain knows no deadlines",
        "bb": "a domain has no burst buffers",
        "bbf": "a domain has no burst buffers",
        "container": "a domain starts no containers",
        "wrap": "has no meaning in a script",
        "test-only": "would submit no job",
        "export-file": "a job has the variables of the command that submits it",
        "uid": "a job runs as the user who submits it",
        "gid": "a job runs with the group of the user who submits it",
        "hetjob": "a domain has no heterogeneous jobs",
    }
)
_ONE_QUEUE = "a domain has one queue"
_ACCOUNT = "a domain keeps no accounts"
_LAYOUT = "a domain places tasks by its own rules"
_NOTHING = "it has no meaning here"
_NO_MAIL = "a domain sends no mail; use submit --wait"
_IGNORED = MappingProxyType(
    {
        **dict.fromkeys(
            ("partition", "qos", "reservation", "priority", "nice"), _ONE_QUEUE
        ),
        **dict.fromkeys(("account", "wckey", "comment", "mcs-label"), _ACCOUNT),
        **dict.fromkeys(("mail-type", "mail-user"), _NO_MAIL),
        **dict.fromkeys(("distribution", "ntasks-per-core", "ntasks-per-socket"), _LAYOUT),
        **dict.fromkeys(("cores-per-socket", "sockets-per-node", "hint"), _LAYOUT),
        **dict.fromkeys(("threads-per-core", "extra-node-info", "mem-bind"), _LAYOUT),
        **dict.fromkeys(("mincpus", "core-spec", "thread-spec", "contiguous"), _LAYOUT),
        **dict.fromkeys(("switches", "spread-job", "use-min-nodes", "tmp"), _LAYOUT),
        **dict.fromkeys(("overcommit", "oversubscribe", "network"), _LAYOUT),
        "mem-per-cpu": "--mem says how much memory the job needs on its node",
        "propagate": "a job has the limits of the shell that submits it",
        "signal": "a job gets SIGTERM when its time is over, and SIGKILL after the grace",
        "wait": "the command line decides: cosched submit --wait",
        "time-min": "a job has one limit",
        "no-kill": "a job ends when it loses a node",
        **dict.fromkeys(("acctg-freq", "cpu-freq", "delay-boot", "get-user-env"), _NOTHING),
        **dict.fromkeys(("ignore-pbs", "power", "parsable", "profile"), _NOTHING),
        **dict.fromkeys(("quiet", "reboot", "verbose", "wait-all-nodes"), _NOTHING),
    }
)
_ALIASES = MappingProxyType(
    {
        "tasks": "ntasks",
        "tasks-per-node": "ntasks-per-node",
        "workdir": "chdir",
        "share": "oversubscribe",
        "cluster": "clusters",
        "mem_bind": "mem-bind",
        "packjob": "hetjob",
    }
)
_KNOWN = frozenset({*_SAME, *_REFUSED, *_IGNORED, *_ALIASES})
_SHORT = MappingProxyType(
    {
        **{"A": "account", "a": "array", "B": "extra-node-info", "c": "cpus-per-task"},
        **{"C": "constraint", "d": "dependency", "D": "chdir", "e": "error"},
        **{"F": "nodefile", "G": "gpus", "H": "hold", "i": "input", "J": "job-name"},
        **{"k": "no-kill", "L": "licenses", "m": "distribution", "M": "clusters"},
        **{"n": "ntasks", "N": "nodes", "o": "output", "O": "overcommit"},
        **{"p": "partition", "q": "qos", "Q": "quiet", "s": "oversubscribe"},
        **{"S": "core-spec", "t": "time", "v": "verbose", "w": "nodelist"},
        **{"W": "wait", "x": "exclude"},
    }
)
_FLAGS = frozenset(
    {"hold", "requeue", "no-requeue", "contiguous", "spread-job", "use-min-nodes"}
    | {"overcommit", "oversubscribe", "wait", "no-kill", "ignore-pbs", "quiet", "reboot"}
    | {"verbose", "test-only", "hetjob"}
    # Their values stand behind "=" only.
    | {"exclusive", "get-user-env", "nice", "parsable", "propagate"}
)
_TAKES_VALUE = _KNOWN - _FLAGS
