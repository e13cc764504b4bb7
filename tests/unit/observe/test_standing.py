"""Checks the first line of cosched why: the job's state now."""

from __future__ import annotations

import pytest

from cosched.core.trace.story import Note
from cosched.core.units import NS_PER_S
from cosched.observe.why.positions import span
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


def ordered(name, scheduled, place=None, reason="left", cost_s=6.0, **more):
    """A job of a node that orders jobs by what is left of them; without a place it is
    raised."""
    values = {"came_by": "slice", "scheduled_s": 2.04, "cpus": [0], **more}
    fields = ("left_s", "age_s", "expected_s", "lengths")
    known = {"left_s": cost_s, "age_s": 2.04, "expected_s": 10.0, "lengths": 1}
    known |= {field: values.pop(field) for field in fields if field in values}
    order = {"place": place, "reason": reason, "cost_s": cost_s, **known}
    found = {**job(name, scheduled, "coscheduled"), **values}
    return {**found, "mode": "raised"} if place is None else {**found, "order": order}


def status(*jobs, align=False, waiting=()):
    return {
        "wall_ns": NOW,
        "settings": {"slice_s": 2.0, "align": align, "least_share": "25%/30s"},
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
            status({**job("a", True), "state": "starting"}),
            "starting: its ranks have not joined; it runs for 1.00 s; "
            "nothing waits for its CPUs",
        ),
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
            status(
                waiting=[{"key": "0.a", "waited_s": 3.0, "reason": "memory: needs 8 GiB"}]
            ),
            "has waited for 3.0 s to begin: memory: needs 8 GiB",
        ),
    ],
)
def test_standing_describes_each_situation(node, words):
    assert standing(node, "0.a", CHANGED) == words


SHORT = {"cost_s": 0.8, "lengths": 8, "expected_s": 2.9}
UNKNOWN = {"reason": "unknown", "left_s": None, "expected_s": None, "lengths": 0}


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (
            status(ordered("a", True, 0, **SHORT), ordered("b", False, 1)),
            "runs for 1.00 s: about 0.8 s left, from 8 earlier runs; "
            "b waits: about 6.0 s left, of 10 s expected",
        ),
        (
            status(
                ordered("a", False, 1),
                ordered("b", True, 0, **SHORT),
                ordered("c", True, 2),
                ordered("d", False, 3),
            ),
            "waits for 1.00 s: about 6.0 s left, of 10 s expected; "
            "b runs: about 0.8 s left, from 8 earlier runs; c runs too",
        ),
        (
            status(ordered("a", True, 0, "due"), *(ordered(n, False, 1) for n in "bcd")),
            "runs for 1.00 s: it must get its guaranteed part (25% of its share in 30 s); "
            "b waits: about 6.0 s left, of 10 s expected; c, d wait too",
        ),
        (
            status(ordered("a", False, 1, cost_s=4.0, **UNKNOWN), ordered("b", True, 0)),
            "waits for 1.00 s: it has run for 2.0 s and may take 4.0 s more; b runs: about "
            "6.0 s left, of 10 s expected, too little more to stop it",
        ),
        (
            status(
                ordered("a", False, 1, cost_s=16.0, **{**UNKNOWN, "age_s": 14.0}),
                ordered("b", True, 0, "ending", **SHORT),
            ),
            "waits for 1.00 s: a job like it has run for 14 s and may take 16 s more; "
            "b runs: it is about to end",
        ),
        (
            status(
                ordered("a", False, 1, "outlived", left_s=None, expected_s=4.0, age_s=7.0),
                ordered("b", True, 0, cost_s=2.5, left_s=80.0, lengths=3),
            ),
            "waits for 1.00 s: it has outlived its expectation of 4.0 s by 3.0 s "
            "and may take 6.0 s more; b runs: about 80 s left, from 3 earlier runs "
            "(perhaps only 2.5 s: some were short)",
        ),
        (
            status(ordered("a", False, 0, **SHORT), ordered("b", True, 1)),
            "waits for 1.00 s: it is next: about 0.8 s left, from 8 earlier runs; "
            "b runs: it keeps the CPUs until the order is checked again",
        ),
        (
            status(
                ordered("a", True, 1, came_by="pulled"), ordered("b", False, 0, **SHORT)
            ),
            "runs for 1.00 s: a message of a peer that runs pulled it in; "
            "b is next: about 0.8 s left, from 8 earlier runs",
        ),
        (
            status(
                ordered("a", True, 2, cpus=(1,)),
                ordered("b", True, 0, cpus=(0,)),
                ordered("c", False, 1, cpus=(0, 1)),
            ),
            "runs for 1.00 s: about 6.0 s left, of 10 s expected; "
            "c waits: it does not fit beside b",
        ),
        (
            status(ordered("a", True), ordered("b", False, 0)),
            "runs for 1.00 s: its owner boosted it; "
            "b waits: about 6.0 s left, of 10 s expected",
        ),
        (
            status(ordered("a", False, 0), ordered("b", True)),
            "waits for 1.00 s: about 6.0 s left, of 10 s expected; "
            "b runs: its owner boosted it",
        ),
        (
            status(ordered("a", True, 0), ordered("b", True, 1, cpus=(1,))),
            "runs for 1.00 s; nothing waits for its CPUs",
        ),
    ],
)
def test_standing_in_an_order_names_the_reasons(node, words):
    assert standing(node, "0.a", CHANGED) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        *((0.04, "0.04 s"), (0.5, "0.5 s"), (9.9, "9.9 s"), (9.96, "10 s")),
        *((599, "599 s"), (640, "11 min"), (7000, "117 min"), (90000, "25 h")),
    ],
)
def test_spans_are_short(seconds, words):
    assert span(round(seconds * NS_PER_S)) == words


def test_last_change_ignores_notes_without_change():
    notes = [(10, "first", False), (20, "first", True), (30, "gmet", None)]
    assert last_change_wall_ns(told(*notes)) == 20
    assert last_change_wall_ns(told(*notes, (40, "slice", False))) == 40
    rearmed = [(40, "slice", False), (50, "rearmed", False)]
    assert last_change_wall_ns(told(*notes, *rearmed)) == 40
    assert last_change_wall_ns([]) is None
