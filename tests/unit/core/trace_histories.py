"""Random but plausible histories of a node: events, and the commands of a machine."""

from __future__ import annotations

from hypothesis import strategies as st

from cosched.core.node.knowledge import Ended
from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import (
    AlarmRang,
    KnowledgeReplaced,
    MessageTrapped,
    Mode,
    ModeChosen,
    SettingsChanged,
    ShutdownRequested,
    SliceEnded,
    TaskExited,
    TaskRegistered,
    TurnGiven,
)
from cosched.core.node.settings import Order, Settings
from cosched.core.units import NS_PER_MS

JOBS = ("0.a", "0.b", "1000.c", "1000.d")
TASKS = (11, 12, 13)
KINDS = (
    *[TaskRegistered] * 3,
    *[MessageTrapped] * 4,
    *[SliceEnded] * 3,
    TaskExited,
    AlarmRang,
    TurnGiven,
    ModeChosen,
    SettingsChanged,
    KnowledgeReplaced,
    ShutdownRequested,
)

SETTINGS = st.builds(
    Settings,
    slice_ns=st.integers(1, 50).map(lambda ms: ms * NS_PER_MS),
    gmet_ns=st.integers(0, 20).map(lambda ms: ms * NS_PER_MS),
    align=st.booleans(),
    order=st.sampled_from(Order),
)

CHOICES = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.integers(0, 30 * NS_PER_MS),
        st.sampled_from(JOBS),
        st.sampled_from(TASKS),
        st.frozensets(st.integers(0, 3), min_size=1),
        st.sampled_from(Mode),
        st.integers(-1, 0),
        SETTINGS,
    ),
    max_size=60,
)


def run_choices(machine: NodeScheduler, choices):
    """Feeds the machine one event for each choice; yields each step."""
    now_ns = 10**12
    for kind, after_ns, job, task, cpus, mode, stale, settings in choices:
        now_ns += after_ns
        state = machine.jobs.get(job)
        fields = {
            TaskRegistered: {
                "job": job,
                "task": task,
                "cpus": cpus,
                "launcher": task == 13,
            },
            TaskExited: {"job": job, "task": task},
            MessageTrapped: {
                "job": job,
                "task": task,
                "epoch": (state.epoch if state else 0) + stale,
            },
            TurnGiven: {"job": job},
            ModeChosen: {"job": job, "mode": mode},
            SettingsChanged: {"settings": settings},
            KnowledgeReplaced: {"ended": (Ended(after_ns + 1, kind=task),)},
        }.get(kind, {})
        event = kind(now_ns=now_ns, wall_ns=now_ns + 10**18, **fields)
        yield event, machine.handle(event)
