"""Models the communication of programs, and makes simulated jobs of the models.

A model comes from two places: the ``model`` of a ``[[job]]`` in the workload file, which
comes first, and a calibration, which ``cosched sim calibrate`` writes::

    format = "cosched-calibration-1"
    nodes = 2
    lab = true
    mpi = "MPICH 5.0.2"
    eager = 65536
    yields = true
    probe = 301.7

    [program.lu-w]
    pattern = "wavefront"
    alone = 2.314
    launch = 0.41
    messages = 9635
    waited = 0.322
    bytes = 1210

    pattern    see ``cosched.sim.nodes.model``
    alone      seconds from submission to end with no other job on the nodes
    launch     the part of ``alone`` before the ranks register and after they leave
    messages   the number of times that a rank waits for a peer
    waited     the seconds of these waits, of the rank that waits least
    bytes      the mean size of a message; above ``eager`` it needs the receiver's consent
    imbalance  ranks need up to this share less than the slowest one
    yields     a waiting rank offers its CPU to others, as MPICH's do since version 5
    probe      the probe's CPU time (``speed``) in microseconds at the machine's speed that
               all times refer to; missing if unknown

All jobs share all nodes' CPUs. A rank of the simulator stands for all tasks of a job on a
node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cosched.bench.workload import fields
from cosched.bench.workload.fields import Mismatch, Table
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.documents import decode_toml, read_document
from cosched.sim.nodes.model import BLOCKS, Cluster, Pattern, Program, rounds
from cosched.sim.nodes.runs import alone_s

FORMAT = "cosched-calibration-1"
#: Up to this size a message needs no consent of the receiver. Beyond it Open MPI's TCP
#: requests consent; MPICH fills the receiver's socket, which takes about twice the size.
EAGER_BYTES = 64 * 1024
EAGER_BYTES_OF_SOCKETS = 128 * 1024
#: Request, consent, data.
LEGS_OF_LARGE = 3
#: The allowed error of the simulated job's time alone.
ALONE_WITHIN = 1e-4
_DAY_S = 86400.0
_COUNT_MAX = 1 << 50


@dataclass(frozen=True, slots=True)
class Model:
    """The known facts about a program; None if unknown. Times in seconds."""

    pattern: Pattern | None = None
    alone_s: float | None = None
    launch_s: float | None = None
    messages: int | None = None
    waited_s: float | None = None
    imbalance: float | None = None
    bytes: int | None = None

    def slower(self, factor: float) -> Model:
        """Returns the model for a machine that takes ``factor`` times as long."""
        times = ("alone_s", "launch_s", "waited_s")
        known = {name: getattr(self, name) for name in times}
        return replace(self, **{k: v * factor for k, v in known.items() if v is not None})

    def over(self, other: Model) -> Model:
        """Returns this model, completed by the other one's values."""
        known = {name: getattr(self, name) for name in _NAMES.values()}
        return replace(other, **{k: v for k, v in known.items() if v is not None})


_KEYS = ("format", "nodes", "lab", "mpi", "eager", "yields", "probe", "program")
#: The keys in a file.
_NAMES = {
    "pattern": "pattern",
    "alone": "alone_s",
    "launch": "launch_s",
    "messages": "messages",
    "waited": "waited_s",
    "imbalance": "imbalance",
    "bytes": "bytes",
}


@dataclass(frozen=True, slots=True)
class Calibration:
    """The contents of a calibration file.

    nodes: on how many it was made; lab: they were one machine's CPUs. origin names the
    file in errors.
    """

    programs: Mapping[str, Model]
    nodes: int = 2
    lab: bool = False
    mpi: str = ""
    eager_bytes: int = EAGER_BYTES
    yields: bool = False
    probe_us: float | None = None
    origin: str = "no calibration"


def parse_model(table: Mapping[str, object], where: str) -> Model:
    """Reads a ``model`` table; CoschedError names ``where``."""
    reader = Table(table, where, _NAMES)
    seconds = fields.seconds(0.0, _DAY_S)
    return Model(
        pattern=reader.get("pattern", _pattern, None),
        alone_s=reader.get("alone", fields.seconds(1e-6, _DAY_S), None),
        launch_s=reader.get("launch", seconds, None),
        messages=reader.get("messages", fields.whole(0, _COUNT_MAX), None),
        waited_s=reader.get("waited", seconds, None),
        imbalance=reader.get("imbalance", _share, None),
        bytes=reader.get("bytes", fields.whole(0, _COUNT_MAX), None),
    )


def load_calibration(path: Path) -> Calibration:
    """Reads the calibration in the file ``path``."""
    return parse_calibration(read_document(path), str(path))


def parse_calibration(text: str, origin: str) -> Calibration:
    """Reads the calibration in ``text``."""
    table = decode_toml(text, origin)
    reader = Table(table, origin, _KEYS)
    if reader.require("format", fields.text) != FORMAT:
        raise CoschedError(
            f"{origin}: not a calibration of this version ({FORMAT}); make one with "
            "cosched sim calibrate"
        )
    tables = reader.require("program", _tables)
    return Calibration(
        programs={
            name: parse_model(model, f"{origin}, program '{name}'")
            for name, model in tables.items()
        },
        nodes=reader.get("nodes", fields.whole(1, 1 << 16), 2),
        lab=reader.get("lab", fields.truth, False),
        mpi=reader.get("mpi", fields.one_line, ""),
        eager_bytes=reader.get("eager", fields.whole(0, _COUNT_MAX), EAGER_BYTES),
        yields=reader.get("yields", fields.truth, False),
        probe_us=reader.get("probe", _microseconds, None),
        origin=origin,
    )


def write_calibration(calibration: Calibration) -> str:
    """Writes the calibration as TOML that ``parse_calibration`` reads."""
    lines = [
        f'format = "{FORMAT}"',
        f"nodes = {calibration.nodes}",
        f"lab = {'true' if calibration.lab else 'false'}",
        f'mpi = "{calibration.mpi}"',
        f"eager = {calibration.eager_bytes}",
        f"yields = {'true' if calibration.yields else 'false'}",
    ]
    if calibration.probe_us is not None:
        lines.append(f"probe = {round(calibration.probe_us, 3)!r}")
    for name, model in calibration.programs.items():
        lines += ["", f'[program."{name}"]']
        for key, field in _NAMES.items():
            value = getattr(model, field)
            if isinstance(value, Pattern):
                lines.append(f'{key} = "{value.value}"')
            elif value is not None:
                lines.append(f"{key} = {round(value, 6)!r}")
    return "\n".join(lines) + "\n"


def program_of(
    name: str,
    model: Model,
    cluster: Cluster,
    *,
    count: int,
    first: int = 0,
    submit_ns: int = 0,
    eager_bytes: int = EAGER_BYTES,
) -> Program:
    """Returns the simulator's job for this program, on ``count`` nodes from ``first`` on.

    Its work is such that, alone, it takes the time that the model says. Raises
    CoschedError if the model lacks the pattern or the time alone.
    """
    if model.alone_s is None or model.pattern is None:
        lacks = "time alone" if model.alone_s is None else "pattern"
        raise CoschedError(
            f"job '{name}': its {lacks} is not known: run cosched sim calibrate on the "
            "workload, or give the job a model (pattern, alone, messages)"
        )
    launch_s = min(model.launch_s or 0.0, 0.9 * model.alone_s)
    run_ns = round((model.alone_s - launch_s) * NS_PER_S)
    pattern, messages = model.pattern, model.messages or 0
    if messages == 0 or count == 1:
        pattern = Pattern.NONE
    large = (model.bytes or 0) > eager_bytes
    program = Program(
        name,
        pattern,
        grain_ns=max(1, run_ns // max(1, messages)),
        work_ns=max(1, run_ns),
        submit_ns=submit_ns,
        imbalance=model.imbalance or 0.0 if pattern is not Pattern.WAVEFRONT else 0.0,
        first=first,
        count=count,
        launch_ns=round(launch_s * NS_PER_S),
        legs=LEGS_OF_LARGE if large else 1,
    )
    if pattern is Pattern.NONE:
        return program
    if pattern is not Pattern.WAVEFRONT and model.waited_s is not None:
        # Messages take a part of the time. A rank always computes for a while.
        waited_ns = min(model.waited_s * NS_PER_S, 0.9 * run_ns)
        message_ns = max(1, round(waited_ns / messages / rounds(count)))
        program = replace(program, message_ns=message_ns)
    return _as_long(program, messages, cluster, model.alone_s)


def _as_long(program: Program, messages: int, cluster: Cluster, alone: float) -> Program:
    """Returns the program with the work that makes it take ``alone`` seconds alone.

    CoschedError if even the cheapest messages take longer.
    """
    if program.pattern is Pattern.WAVEFRONT:
        messages = max(BLOCKS, messages)
    floor_s = alone_s(replace(program, grain_ns=1, work_ns=messages), cluster)
    if floor_s >= alone:  # its messages alone take longer here: cheaper ones
        message_ns = program.message_of(cluster)
        if message_ns <= 1:
            raise CoschedError(
                f"job '{program.name}': {messages} messages take longer than the {alone:g} "
                "s that it takes alone; give its model fewer messages, or a greater alone"
            )
        cheaper_ns = max(1, round(message_ns * 0.5 * alone / floor_s))
        return _as_long(replace(program, message_ns=cheaper_ns), messages, cluster, alone)
    work_ns = float(program.work_ns)
    for _ in range(50):
        program = replace(
            program, grain_ns=max(1, round(work_ns / messages)), work_ns=round(work_ns)
        )
        takes_s = alone_s(program, cluster)
        if abs(takes_s / alone - 1) < ALONE_WITHIN:
            break
        work_ns = max(float(messages), work_ns + (alone - takes_s) * NS_PER_S)
    return program


def _pattern(value: object) -> Pattern | None:
    known = [pattern.value for pattern in Pattern]
    if value not in known:
        raise Mismatch(f"one of {', '.join(known)}")
    return Pattern(value)


def _microseconds(value: object) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not value > 0:
        raise Mismatch("a number of microseconds above 0")
    return float(value)


def _share(value: object) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < 1:
        raise Mismatch("a share from 0 to below 1")
    return float(value)


def _tables(value: object) -> Mapping[str, Mapping[str, object]]:
    if not isinstance(value, dict) or not all(isinstance(v, dict) for v in value.values()):
        raise Mismatch("a table of programs")
    return value
