"""A lab run beside its simulation.

Takes the JSON of a ``cosched bench`` with the arm ``batch`` and others, and simulates the
same jobs on as many nodes with the same settings: each job's work is what it took in
``batch``, and its grain that time divided by the messages that a rank sends. How our own
programs communicate is in ``PROGRAMS``, for two ranks, by the beginning of the job's name;
others take ``--program NAME=PATTERN:MESSAGES``. The kernel is simulated with ranks that
spin. Printed is the mean response of each arm, live and simulated.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cosched.core.errors import CoschedError
from cosched.core.settings import Settings
from cosched.core.units import NS_PER_MS, NS_PER_S
from cosched.sim.nodes_model import BLOCKS, Cluster, Pattern, Program
from cosched.sim.nodes_runs import NodesRun, carry_out

#: Pattern, and messages that a rank sends: of LU, CG, MG as counted; SP and BT send two a
#: sweep and direction; FT and IS a transpose or an exchange of keys an iteration.
PROGRAMS: dict[str, tuple[Pattern, int]] = {
    "wavefront": (Pattern.WAVEFRONT, 9_500),
    "compute": (Pattern.NONE, 1),
    "lu-w": (Pattern.WAVEFRONT, 9_635),
    "lu-a": (Pattern.WAVEFRONT, 15_816),
    "cg-a": (Pattern.BULK, 1_680),
    "mg-": (Pattern.BULK, 714),
    "sp-": (Pattern.BULK, 4_800),
    "bt-": (Pattern.BULK, 2_400),
    "ft-": (Pattern.ALLTOALL, 10),
    "is-": (Pattern.ALLTOALL, 10),
    "ep-": (Pattern.NONE, 1),
}
#: Launchers of jobs that are submitted at once are started one after the other; a job's
#: ranks register nearer to each other than that.
LAUNCH_NS, SPREAD_NS = 20 * NS_PER_MS, 5 * NS_PER_MS
ARMS = {"batch": "batch", "kernel": "spin", "gang": "gang", "cosched": "cosched"}


def kind_of(name: str, told: Mapping[str, tuple[Pattern, int]]) -> tuple[Pattern, int]:
    """How a job communicates; the longest name that it begins with counts."""
    known = {**PROGRAMS, **told}
    fitting = [prefix for prefix in known if name.startswith(prefix)]
    if not fitting:
        raise CoschedError(
            f"job '{name}': say how it communicates, such as --program {name}=bulk:1000"
        )
    return known[max(fitting, key=len)]


def programs_of(
    document: Mapping[str, Any], told: Mapping[str, tuple[Pattern, int]]
) -> tuple[Program, ...]:
    """The jobs of the bench, in order of submission, as they were in ``batch``."""
    runs = [run for run in document["arms"]["batch"]["repeats"] if run["counted"]]
    if not runs:
        raise CoschedError("no run of the arm 'batch' counts: run it again with that arm")
    took: dict[str, list[float]] = {}
    submits: dict[str, float] = {}
    for run in runs:
        free_s = 0.0
        for job in sorted(
            run["jobs"], key=lambda job: job["submitted_s"] + job["response_s"]
        ):
            end_s = job["submitted_s"] + job["response_s"]
            took.setdefault(job["name"], []).append(end_s - max(free_s, job["submitted_s"]))
            submits.setdefault(job["name"], job["submitted_s"])
            free_s = _end_s(job)
    programs: list[Program] = []
    for name, seconds in took.items():
        pattern, messages = kind_of(name, told)
        work_ns = round(statistics.median(seconds) * NS_PER_S)
        least_ns = work_ns // BLOCKS if pattern is Pattern.WAVEFRONT else work_ns
        grain_ns = max(1, min(least_ns, work_ns // messages))
        submit_ns = round(submits[name] * NS_PER_S) + LAUNCH_NS * len(programs)
        programs.append(Program(name, pattern, grain_ns, work_ns, submit_ns))
    return tuple(programs)


def _end_s(job: Mapping[str, Any]) -> float:
    return float(job["submitted_s"] + job["response_s"])


def compare(
    document: Mapping[str, Any], told: Mapping[str, tuple[Pattern, int]], repeat: int
) -> list[tuple[str, float, float]]:
    """Arm, mean response live, mean response simulated (mean over the seeds)."""
    programs = programs_of(document, told)
    live = document["settings"]
    settings = Settings(
        round(live["slice_s"] * NS_PER_S), round(live["gmet_s"] * NS_PER_S), live["align"]
    )
    cluster = Cluster(len(document["nodes"]), spread_ns=SPREAD_NS)
    rows = []
    for arm, figures in document["arms"].items():
        if arm not in ARMS or figures["mean_response_s"] is None:
            continue
        simulated = [
            carry_out(NodesRun(ARMS[arm], programs, cluster, settings, seed))
            for seed in range(1, repeat + 1)
        ]
        mean_s = statistics.fmean(one.mean_response_s for one in simulated)
        rows.append((arm, figures["mean_response_s"], mean_s))
    return rows


def _told(text: str) -> tuple[str, tuple[Pattern, int]]:
    name, _, rest = text.partition("=")
    pattern, _, messages = rest.partition(":")
    try:
        return name, (Pattern(pattern), int(messages))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not NAME=PATTERN:MESSAGES, such as app=bulk:1000"
        ) from None


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="dev bench nodes_lab",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("bench", type=Path, help="what cosched bench --json wrote")
    parser.add_argument("--program", type=_told, action="append", default=[])
    parser.add_argument("--repeat", type=int, default=3, help="seeds (default 3)")
    options = parser.parse_args(words)
    try:
        document = json.loads(options.bench.read_text())
        rows = compare(document, dict(options.program), options.repeat)
    except (CoschedError, OSError, ValueError) as error:
        sys.exit(f"nodes_lab: {error}")
    except KeyError as error:
        sys.exit(
            f"nodes_lab: {options.bench} has no {error}; want a bench with arm 'batch'"
        )
    print(f"{'mean response':<15}{'live':>9}{'simulated':>11}{'':>8}")
    for arm, live_s, simulated_s in rows:
        apart = simulated_s / live_s - 1
        print(f"{arm:<15}{live_s:>7.2f} s{simulated_s:>9.2f} s{apart:>+8.0%}")


if __name__ == "__main__":
    main()
