"""No job starves, whatever the messages pull."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.node.messages import AlarmRang, SliceEnded
from cosched.core.node.settings import Settings
from cosched.core.node.slices.free import LEAD_SLICES
from cosched.core.units import NS_PER_MS, NS_PER_S
from tests.unit.core.machine_node import PERIODS_NS, Node


@settings(max_examples=40)
@given(
    count=st.integers(2, 6),
    align=st.booleans(),
    auto=st.booleans(),
    traps=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 400)), max_size=300),
)
def test_no_job_starves_while_the_timer_ticks(count, align, auto, traps):
    """Each job is scheduled within a bounded number of slices, if the timer keeps time."""
    node = Node(Settings(NS_PER_S, 100 * NS_PER_MS, align, slice_auto=auto))
    jobs = "abcdef"[:count]
    for job in jobs:
        node.register(job)
    bound_ns = (count + LEAD_SLICES) * (LEAD_SLICES + 2) * NS_PER_S
    bound_ns = PERIODS_NS if auto else bound_ns
    last_seen = dict.fromkeys(jobs, node.now_ns)
    pulls = iter(traps)

    def advance_to(target_ns):
        while node.now_ns < target_ns:
            deadline = (
                (node.now_ns // NS_PER_S + 1) * NS_PER_S
                if align
                else node.orders.deadline_ns
            )
            step_to = max(node.now_ns, min(target_ns, deadline))
            node.now_ns = step_to
            if step_to == deadline:
                node.send(SliceEnded)
            for job in node.running:
                last_seen[job] = node.now_ns
            for job in jobs:
                assert node.now_ns - last_seen[job] <= bound_ns, job
            if node.now_ns >= target_ns:
                return

    for index, after_ms in pulls:
        advance_to(node.now_ns + after_ms * NS_PER_MS)
        if node.alarm_ns is not None and node.now_ns >= node.alarm_ns:
            node.alarm_ns = None
            node.send(AlarmRang)
        node.trap(jobs[index % count])
    advance_to(node.now_ns + bound_ns + NS_PER_S)
