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

``Calibration`` and ``Model`` have all keys. All jobs share all nodes' CPUs. A rank of the
simulator stands for all tasks of a job on a node.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from cosched.core.config.kinds import (
    LINE,
    SWITCH,
    decimal,
    mapping,
    member_of,
    seconds,
    whole,
)
from cosched.core.config.tables import REQUIRED, key, table_kind, write
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.documents import encode_toml, parse_text, read_document
from cosched.sim.nodes.model import BLOCKS, Cluster, Pattern, Program, rounds
from cosched.sim.nodes.node_runs import alone_s

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
_SECONDS = seconds(0.0, _DAY_S)
_COUNT = whole(0, 1 << 50)


@dataclass(frozen=True, slots=True)
class Model:
    """The known facts about a program; None if unknown. Times in seconds."""

    pattern: Pattern | None = key(
        member_of(Pattern), None, "How ranks wait for each other."
    )
    alone_s: float | None = key(
        seconds(1e-6, _DAY_S),
        None,
        "From submission to end, alone on the nodes.",
    )
    launch_s: float | None = key(
        _SECONDS, None, "The part of alone before the ranks register and after they leave."
    )
    messages: int | None = key(_COUNT, None, "How often a rank waits for a message.")
    waited_s: float | None = key(_SECONDS, None, "The waits of the rank that waits least.")
    imbalance: float | None = key(
        decimal("a share from 0 to below 1", lambda value: 0 <= value < 1),
        None,
        "Ranks need up to this share less than the slowest one.",
    )
    bytes: int | None = key(
        _COUNT,
        None,
        "The mean size of a message; above eager it needs the receiver's consent.",
    )

    def slower(self, factor: float) -> Model:
        """Returns the model for a machine that takes ``factor`` times as long."""
        times = ("alone_s", "launch_s", "waited_s")
        known = {name: getattr(self, name) for name in times}
        return replace(self, **{k: v * factor for k, v in known.items() if v is not None})

    def over(self, other: Model) -> Model:
        """Returns this model, completed by the other one's values."""
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(other, **{k: v for k, v in known.items() if v is not None})


@dataclass(frozen=True, slots=True)
class Calibration:
    """The contents of a calibration file."""

    programs: Mapping[str, Model] = key(
        mapping("table of models", table_kind("table", Model)),
        REQUIRED,
        "The models of programs.",
        name="program",
    )
    nodes: int = key(whole(1, 1 << 16), 2, "On how many nodes it was made.")
    lab: bool = key(SWITCH, False, "Whether the nodes were one machine's CPUs.")
    mpi: str = key(LINE, "", "The MPI library.")
    eager_bytes: int = key(
        _COUNT, EAGER_BYTES, "A larger message needs the receiver's consent."
    )
    yields: bool = key(
        SWITCH,
        False,
        "Whether a rank that waits offers its CPU to others, as of MPICH 5.",
    )
    probe_us: float | None = key(
        decimal("a number of microseconds above 0", lambda value: 0 < value < math.inf),
        None,
        "The probe's CPU time (``speed``) at the machine's speed that all times refer to.",
    )
    origin: str = "no calibration"  #: names the file in errors
    format: str = key(LINE, FORMAT, "This version of the file.", in_file=REQUIRED)


def load_calibration(path: Path) -> Calibration:
    """Reads the calibration in the file ``path``."""
    return parse_calibration(read_document(path), str(path))


def parse_calibration(text: str, origin: str) -> Calibration:
    """Reads the calibration in ``text``."""
    calibration = parse_text(text, origin, Calibration)
    if calibration.format != FORMAT:
        raise CoschedError(
            f"{origin}: not a calibration of this version ({FORMAT}); make one with "
            "cosched sim calibrate"
        )
    return replace(calibration, origin=origin)


def write_calibration(calibration: Calibration) -> str:
    """Writes the calibration as TOML that ``parse_calibration`` reads."""
    return encode_toml(write(calibration), {})


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
