"""Takes the figures of a domain for Prometheus from its jobs and its store."""

from __future__ import annotations

from collections import Counter

import msgspec

from cosched.cluster.coupling.domain_figures import Figures, figures_alone
from cosched.cluster.engines.native.jobs import Jobs
from cosched.cluster.engines.native.size_answers import nodes_by_kind
from cosched.cluster.engines.native.suspension_answers import suspended_jobs
from cosched.cluster.record import State
from cosched.cluster.store import JobStore
from cosched.config.queue import MALLEABLE, RIGID


def figures_of(size: str, jobs: Jobs, store: JobStore) -> Figures:
    """Returns the present figures. size: whether jobs change their sizes, as domain.toml
    has it."""
    nodes = jobs.queue.place.in_service
    found = figures_alone(nodes) if jobs.pairs is None else jobs.pairs.figures()
    live = jobs.records.live.values()
    states = Counter(record.state.value for record in live)
    by_state = {state.value: states[state.value] for state in State if not state.over}
    found = msgspec.structs.replace(found, jobs=by_state)
    if size != RIGID:
        done, refused = jobs.suspensions.suspended, jobs.suspensions.refused
        found = msgspec.structs.replace(
            found,
            suspensions={"done": done, "refused": refused},
            suspended=suspended_jobs(live),
        )
    if size != MALLEABLE:
        return found
    ended = store.changes_ended
    return msgspec.structs.replace(
        found,
        size_changes={"done": ended[False], "refused": ended[True]},
        job_nodes=nodes_by_kind(live),
    )
