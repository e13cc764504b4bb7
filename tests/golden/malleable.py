"""Records the decisions of the policies for malleable jobs: ``malleable.json``.

For each policy, on streams of several kinds, the file has a digest of all starts, ends and
losses of nodes. The counts beside it show where decisions differ. Record it again
only after a decision was changed on purpose: ``python -m tests.golden.malleable``.
"""

from __future__ import annotations

import json
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

from cosched.core.cluster.queue.sizes.settings import Control
from cosched.core.units import NS_PER_S
from cosched.sim.malleable.driver import MalleableSchedule
from cosched.sim.malleable.malleable_runs import Source
from cosched.sim.malleable.policies import (
    BACKFILLING,
    BASELINES,
    HARVESTING,
    QUEUES,
    run_stream,
)

FILE = Path(__file__).with_name("malleable.json")
JOBS = 240
SEED = 1
STREAMS = (("sdsc", "linear", 0.0), ("ctc", "parabolic", 0.0), ("ge", "parabolic", 0.25))
PERCENTS = (50, 10)
CONTROLS = {
    "free": Control(),
    "controlled": Control(harvest_limit=2, protected_ns=600 * NS_PER_S, least_benefit=1.0),
}
COUNTS = ("requests", "harvests", "victims", "gifts")


def cases() -> list[tuple[str, str, int | None]]:
    """Returns each case: policy, control and degree."""
    free = (*BASELINES, *HARVESTING, *BACKFILLING)
    policies = [(policy, "free", None) for policy in free]
    limited = [(policy, "free", 3) for policy in HARVESTING]
    controlled = [(policy, "controlled", None) for policy in HARVESTING]
    return [*policies, *limited, *controlled]


def digest(*columns: Any) -> str:
    """Returns a digest of columns of whole numbers; the byte order does not matter."""
    text = json.dumps([list(column) for column in columns])
    return sha256(text.encode()).hexdigest()[:16]


def found(schedule: MalleableSchedule) -> str:
    """Returns the digest and the counts of a schedule."""
    columns = digest(schedule.start_ns, schedule.end_ns, schedule.harvests)
    counts = (f"{name} {getattr(schedule.counts, name)}" for name in COUNTS)
    return f"{columns}: {', '.join(counts)}"


def decided() -> dict[str, dict[str, str]]:
    """Returns the decisions of every policy on each stream."""
    decisions: dict[str, dict[str, str]] = {}
    for (source, execution, beta), percent in product(STREAMS, PERCENTS):
        stream = Source(source, JOBS, SEED, beta, None, False)
        jobs, nodes = stream.jobs(percent, execution)
        name = f"{source} {execution} seed {SEED} minimum {percent}%"
        decisions[name] = {
            "jobs": digest(*((job.submit_ns, job.walltime_ns, job.size) for job in jobs))
        }
        for policy, control, degree in cases():
            if policy in QUEUES and percent != PERCENTS[0]:
                continue  # queues know no minimum
            schedule = run_stream(jobs, nodes, policy, degree, CONTROLS[control])
            decisions[name][f"{policy} M={degree} {control}"] = found(schedule)
    return decisions


if __name__ == "__main__":
    FILE.write_text(json.dumps(decided(), indent=0, sort_keys=True) + "\n")
