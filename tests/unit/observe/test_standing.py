"""Checks the first line of cosched why: what a job does now."""

from __future__ import annotations

import pytest

from cosched.core.trace.story import Note
from cosched.core.units import NS_PER_S
from cosched.observe.why.reasons import Explained
from cosched.observe.why.standing import last_change_wall_ns, standing

NOW = 1_700_000_000 * NS_PER_S + NS_PER_S // 2


def job(name, scheduled, mode="coscheduled", cpus=(0,), slice_s=2.0):
    return {
        "key": f"0.{name}",
        "name": name,
        "scheduled": scheduled,
        "mode": mode,
        "cpus": list(cpus),
        "slice_s": slice_s,
    }


def ordered(name, scheduled, reason, left_s=None, expected_s=None, lengths=0):
    """A job of a node that orders jobs by what is left of them."""
    order = {
        **{"place": 0, "reason": reason, "left_s": left_s},
        **{"expected_s": expected_s, "lengths": lengths},
    }
    return {**job(name, scheduled), "scheduled_s": 2.04, "order": order}


def status(*jobs, align=False, waiting=()):
    return {
        "wall_ns": NOW,
        "settings": {"slice_s": 2.0, "align": align},
        "jobs": list(jobs),
        "waiting": list(waiting),
    }


def told(*notes):
    return [Explained(Note(0, wall_ns, why, on), 1, "") for wall_ns, why, on in notes]


CHANGED = told((NOW - NS_PER_S, "slice", True), (NOW - NS_PER_S // 4, "gmet", None))


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (None, "no daemon is up; this is from its trace"),
        (status(), "ended"),
        (status(job("a", True)), "runs for 1.00 s; nothing waits for its CPUs"),
        (
            status(job("a", True), job("b", False)),
            "runs for 1.00 s; b waits; slices last 2 s",
        ),
        (
            status(job("a", False), job("b", True), job("c", True), align=True),
            "waits for 1.00 s: b, c run; the slice ends in 1.50 s",
        ),
        (
            status(job("a", True, slice_s=8.0), job("b", False), align=True),
            "runs for 1.00 s; b waits; slices last 8 s",
        ),
        (
            status(job("a", True), job("b", True, cpus=(1,))),
            "runs for 1.00 s; nothing waits for its CPUs",
        ),
        (
            status(job("a", True), job("b", False, "suspended")),
            "runs for 1.00 s; nothing waits for its CPUs",
        ),
        (
            status(job("a", False, "suspended")),
            "suspended by its owner for 1.00 s: it is stopped",
        ),
        (
            status(ordered("a", True, "left", 0.83, 4, 14), ordered("b", False, "unknown")),
            "runs for 1.00 s: about 0.8 s left, from 14 earlier runs; b waits",
        ),
        (
            status(ordered("a", False, "unknown"), ordered("b", True, "left", 3.0, 4, 1)),
            "waits for 1.00 s: it has run 2.0 s, and its length is unknown; "
            "b runs: about 3.0 s left, from one run or estimate",
        ),
        (
            status(
                ordered("a", False, "outlived", None, 1.5, 3), ordered("b", True, "due")
            ),
            "waits for 1.00 s: it has run 2.0 s of an expected 1.5 s; "
            "b runs: it must get its guaranteed part of the time",
        ),
        (
            status(ordered("a", True, "ending", 0.1, 4, 3), ordered("b", False, "left", 9)),
            "runs for 1.00 s: it is about to end; b waits",
        ),
        (
            status(ordered("a", True, "left", 1.0, 4, 3)),
            "runs for 1.00 s; nothing waits for its CPUs",
        ),
        (
            status(
                waiting=[{"key": "0.a", "waited_s": 3.0, "reason": "memory: needs 8 GiB"}]
            ),
            "has waited for 3.0 s to begin: memory: needs 8 GiB",
        ),
    ],
)
def test_standing_describes_each_situation(node, words):
    assert standing(node, "0.a", CHANGED) == words


def test_last_change_ignores_notes_without_change():
    notes = [(10, "first", False), (20, "first", True), (30, "gmet", None)]
    assert last_change_wall_ns(told(*notes)) == 20
    assert last_change_wall_ns(told(*notes, (40, "slice", False))) == 40
    rearmed = [(40, "slice", False), (50, "rearmed", False)]
    assert last_change_wall_ns(told(*notes, *rearmed)) == 40
    assert last_change_wall_ns([]) is None
