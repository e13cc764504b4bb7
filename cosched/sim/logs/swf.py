"""Reads and writes logs in the Standard Workload Format, plain or compressed.

18 numbers a line, times in seconds; lines that begin with ``;`` or ``#`` are the header
(https://www.cs.huji.ac.il/labs/parallel/workload/swf.html). Fields used: 1 job number,
2 submit time, 4 run time, 5 allocated processors, 8 requested processors, 9 requested
time, 11 status, 12 user, 14 executable. A job's size is the requested one, or the
allocated one if none was requested.

A line with status 2, 3 or 4 is a part of a job that was swapped out. The whole job has
another line, so parts are left out and counted.

A bad line is skipped and counted. A strict reader raises an error with file and line. Jobs
are sorted by their submission, in the order of the log where that is equal.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import IO

from cosched.core.decoding import printable, shown_text
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.sim.logs.opening import opened
from cosched.sim.logs.workload import Workload

FIELDS = 18
LOGS_URL = "https://www.cs.huji.ac.il/labs/parallel/workload/"  #: has logs of real machines
PARTIAL = (b"2", b"3", b"4")  #: to be continued; the last part, completed or killed
#: Fields of the header: sizes in logs are processors; a few logs have nodes instead.
_SIZES = (b"MaxProcs", b"MaxNodes")
_COMMENTS = (b";", b"#")
_NUMBER = rb"[0-9]{1,3}(,[0-9]{3})+|[0-9]{1,18}"
COLUMN_LIMIT = 2**63  # a column holds eight-byte integers


class Fault(str, Enum):
    """Why a line is left out. All but parts of jobs are faults of the log."""

    PARTIAL = "part of a job"
    FEW_FIELDS = "too few fields"
    NOT_A_NUMBER = "not a number"
    NEGATIVE_SUBMIT = "negative submit time"
    UNSORTED = "unsorted"
    NO_RUN_TIME = "no run time"
    NEGATIVE_SIZE = "negative size"
    NO_SIZE = "no size"
    TOO_LARGE = "larger than the machine"


class _Bad(Exception):
    """A line has a fault."""

    def __init__(self, fault: Fault, detail: str) -> None:
        super().__init__(detail)
        self.fault = fault


@dataclass(slots=True)
class Log:
    """The jobs of a log, and the number of lines left out for each fault."""

    workload: Workload  #: the jobs, sorted by submission
    #: When it begins, in seconds since 1970; None: the header has no UnixStartTime.
    start_s: int | None = None
    #: Its clock - UTC in seconds, without summer time; None: the header has no TimeZone.
    zone_s: int | None = None
    #: Lines left out, by fault; empty: none.
    skipped: Counter[Fault] = field(default_factory=Counter)

    def skipped_lines(self) -> dict[str, int]:
        """Returns how many lines were left out, by the words for their fault."""
        return {fault.value: count for fault, count in sorted(self.skipped.items())}


def read_swf(path: Path, *, machine: int | None = None, strict: bool = False) -> Log:
    """Reads a log. ``machine``: its number of nodes; by default that of the header.

    Raises CoschedError for an unreadable file, a file that is no log, a log without a
    machine size, a log without jobs and, if ``strict``, the first bad line or job out of
    order.
    """
    header: dict[bytes, bytes] = {}
    log = Log(Workload(path.name, machine or 0))
    workload = log.workload
    first_bad = ""
    with opened(path) as file:
        for place, line in enumerate(_lines(file), 1):
            if line.startswith(_COMMENTS):
                _note(header, line)
                continue
            fields = line.split()
            if not fields:
                continue
            if not workload.machine and _is_of_job(fields):
                workload.machine = _machine_size(path, header)
            try:
                _add(workload, fields, strict=strict)
            except _Bad as bad:
                reason = f"{path}:{place}: {bad.fault.value}: {bad}"
                if strict and bad.fault is not Fault.PARTIAL:
                    raise CoschedError(
                        f"{reason}; without --strict it is left out"
                    ) from None
                first_bad = first_bad or reason
                log.skipped[bad.fault] += 1
    log.start_s = _number_in(header.get(b"UnixStartTime", b""))
    log.zone_s = _zone_in(header.get(b"TimeZone", b""))
    if not len(workload):
        if _is_other_file(header, log):
            raise CoschedError(
                f"{path}: no log in the Standard Workload Format: no line has the"
                f" {FIELDS} numbers of a job; logs of real machines: {LOGS_URL}"
            )
        left_out = sum(log.skipped.values())
        first = f"; the first is {first_bad}" if first_bad else ""
        raise CoschedError(f"{path}: no jobs in it ({left_out} lines left out{first})")
    workload.sort_by_submission()
    return log


def _lines(file: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the lines without white space around them, also those of an old Mac."""
    for line in file:
        yield from (part.strip() for part in line.rstrip(b"\r\n").split(b"\r"))


def _note(header: dict[bytes, bytes], line: bytes) -> None:
    name, colon, value = line.lstrip(b";# \t").partition(b":")
    if colon:
        header.setdefault(name.strip(), value.strip())


def _number_in(value: bytes) -> int | None:
    """Returns the number at the beginning of a header's value, such as 1,024."""
    found = re.match(_NUMBER, value)
    return int(found[0].replace(b",", b"")) if found else None


def _zone_in(value: bytes) -> int | None:
    """Returns the seconds of a header's time zone, such as -28800."""
    size = _number_in(value.removeprefix(b"-"))
    if size is None or size > 24 * 3600:
        return None
    return -size if value.startswith(b"-") else size


def _is_of_job(fields: Sequence[bytes]) -> bool:
    """Returns whether a line has the numbers of a job, which may be wrong."""
    if len(fields) < FIELDS:
        return False
    try:
        _values(fields)
    except _Bad:
        return False
    return True


def _is_other_file(header: Mapping[bytes, bytes], log: Log) -> bool:
    """Returns whether a file has lines, but neither one of a job nor a machine's size."""
    without_numbers = {Fault.FEW_FIELDS, Fault.NOT_A_NUMBER}
    return bool(log.skipped) and not (
        log.skipped.keys() - without_numbers or header.keys() & set(_SIZES)
    )


def _machine_size(path: Path, header: dict[bytes, bytes]) -> int:
    for name in _SIZES:
        size = _number_in(header.get(name, b""))
        if size:
            return size
    given = header.get(b"MaxProcs")
    problem = (
        "has no MaxProcs before the first job"
        if given is None
        else (f"has no number as MaxProcs: '{printable(shown_text(given[:40]))}'")
    )
    raise CoschedError(
        f"{path}: its header {problem}; give the machine's size with --machine"
    )


def _add(workload: Workload, fields: Sequence[bytes], *, strict: bool) -> None:
    if len(fields) < FIELDS:
        raise _Bad(Fault.FEW_FIELDS, f"{len(fields)} where the format has {FIELDS}")
    if fields[10] in PARTIAL:
        raise _Bad(Fault.PARTIAL, f"status {fields[10].decode()}")
    values = _values(fields)
    if max(values) >= COLUMN_LIMIT or min(values) < -COLUMN_LIMIT:
        raise _Bad(Fault.NOT_A_NUMBER, "out of range")
    number, submit_ns, run_ns, allocated, requested, walltime_ns, user, executable = values
    if submit_ns < 0:
        raise _Bad(Fault.NEGATIVE_SUBMIT, f"{submit_ns // NS_PER_S} s")
    if strict and workload.submit_ns and submit_ns < workload.submit_ns[-1]:
        raise _Bad(Fault.UNSORTED, f"job {number} was submitted before the job above it")
    if run_ns < 0:
        raise _Bad(Fault.NO_RUN_TIME, f"job {number} says {fields[3].decode()}")
    if requested < -1 or allocated < -1:
        raise _Bad(Fault.NEGATIVE_SIZE, f"job {number} has {min(requested, allocated)}")
    size = requested if requested > 0 else allocated
    if size < 1:
        raise _Bad(Fault.NO_SIZE, f"job {number} has none")
    if size > workload.machine:
        raise _Bad(
            Fault.TOO_LARGE, f"job {number} has size {size}, the machine {workload.machine}"
        )
    workload.append(
        number, submit_ns, run_ns, size, walltime_ns if walltime_ns > 0 else run_ns, user,
        executable,
    )  # fmt: skip


def _values(fields: Sequence[bytes]) -> tuple[int, ...]:
    try:
        return (
            int(fields[0]),
            int(fields[1]) * NS_PER_S,
            int(fields[3]) * NS_PER_S,
            int(fields[4]),
            int(fields[7]),
            int(fields[8]) * NS_PER_S,
            int(fields[11]),
            int(fields[13]),
        )
    except ValueError:
        pass  # some logs have fractions of seconds
    scales = {0: 1, 1: NS_PER_S, 3: NS_PER_S, 4: 1, 7: 1, 8: NS_PER_S, 11: 1, 13: 1}
    values = []
    for place, scale in scales.items():
        text = fields[place].decode("ascii", "replace")
        try:
            values.append(round(float(text) * scale))
        except (ValueError, OverflowError):
            raise _Bad(Fault.NOT_A_NUMBER, f"field {place + 1} is '{text}'") from None
    return tuple(values)


def write_swf(workload: Workload, stream: IO[str], notes: Sequence[str] = ()) -> None:
    """Writes a workload as a log; ``notes`` become lines of its header."""
    stream.write("; Version: 2.2\n")
    for name in ("MaxJobs", "MaxRecords"):
        stream.write(f"; {name}: {len(workload)}\n")
    for name in ("MaxNodes", "MaxProcs"):
        stream.write(f"; {name}: {workload.machine}\n")
    for note in notes:
        stream.write(f"; Note: {note}\n")
    columns = (
        workload.number, workload.submit_ns, workload.run_ns, workload.size,
        workload.walltime_ns, workload.user, workload.executable,
    )  # fmt: skip
    for number, submit, run, size, walltime, user, executable in zip(*columns, strict=True):
        stream.write(
            f"{number} {seconds(submit)} -1 {seconds(run)} {size} -1 -1 {size} "
            f"{seconds(walltime)} -1 1 {user} -1 {executable} -1 -1 -1 -1\n"
        )


def seconds(ns: int) -> str:
    """Returns exact seconds: ``12`` or ``12.5``."""
    whole, rest = divmod(ns, NS_PER_S)
    return f"{whole}.{rest:09d}".rstrip("0") if rest else str(whole)
