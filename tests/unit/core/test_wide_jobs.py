"""Jobs that need several CPUs of a node, some of which other jobs need too."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from cosched.core.node.messages import SliceEnded
from cosched.core.node.settings import Settings
from cosched.core.units import NS_PER_MS, NS_PER_S
from tests.unit.core.machine_node import PERIODS_NS, Node

CPU_SETS = st.frozensets(st.integers(0, 3), min_size=1)
GMET_NS = 100 * NS_PER_MS


def run_by_timer(node, until_ns):
    """Ends slices as the machine orders; yields after each."""
    while True:
        slice_ns = node.machine.settings.slice_ns
        aligned = (node.now_ns // slice_ns + 1) * slice_ns
        deadline_ns = aligned if node.orders.align else node.orders.deadline_ns
        if node.orders.idle or deadline_ns > until_ns:
            node.now_ns = max(node.now_ns, until_ns)
            return
        node.now_ns = max(node.now_ns, deadline_ns)
        node.send(SliceEnded)
        yield


@given_settings(max_examples=60)
@example(
    arrivals=[(frozenset({0}), 0), (frozenset({1}), 300), (frozenset({0, 1}), 300)],
    align=False,
    auto=False,
)
@given(
    arrivals=st.lists(st.tuples(CPU_SETS, st.integers(0, 1500)), min_size=2, max_size=5),
    align=st.booleans(),
    auto=st.booleans(),
)
def test_no_job_starves_with_any_cpu_sets(arrivals, align, auto):
    """Each job has a task for each of its CPUs, so a wide job needs all of them at once."""
    node = Node(Settings(NS_PER_S, GMET_NS, align, slice_auto=auto))
    last_seen = {}
    for number, (cpus, after_ms) in enumerate(arrivals):
        if node.orders is not None:
            for _ in run_by_timer(node, node.now_ns + after_ms * NS_PER_MS):
                pass
        for cpu in cpus:
            node.register("abcde"[number], 10 * number + cpu, frozenset({cpu}))
        last_seen["abcde"[number]] = node.now_ns
    bound_ns = PERIODS_NS if auto else 4 * len(arrivals) * NS_PER_S
    for _ in run_by_timer(node, node.now_ns + 3 * bound_ns):
        for job in node.running:
            last_seen[job] = node.now_ns
        for job, seen_ns in last_seen.items():
            assert job in node.running or node.now_ns - seen_ns <= bound_ns, job


def test_wide_job_does_not_take_cpus_before_gmet():
    node = Node(Settings(NS_PER_S, GMET_NS, False))
    node.register("c", 1, frozenset({0}), submitted_ns=node.now_ns - 1)
    node.register("c", 2, frozenset({1}))
    node.register("a", cpus=frozenset({0}))
    node.register("b", cpus=frozenset({1}))
    assert node.running == {"c"}
    for _ in run_by_timer(node, node.now_ns + 20 * NS_PER_S):
        for key, job in node.machine.jobs.items():
            if job.scheduled or not job.switches:
                continue
            assert job.received_ns >= GMET_NS, key
