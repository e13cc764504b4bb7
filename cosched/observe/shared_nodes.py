"""Describes in words what was seen of a job that shares its nodes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cosched.core.counting import counted
from cosched.core.decoding import convert
from cosched.core.node.messages import Job
from cosched.core.symbiosis.limited import Verdict
from cosched.core.trace.neighbours import Neighbour, Sharing, found_limits, label_of
from cosched.rundir.paths import name_for

#: Shorter times are not named.
_LEAST_S = 0.01
#: So many neighbours are named, the last ones.
_NAMED = 3


def of_live(job: Mapping[str, Any]) -> list[str]:
    """Returns the sentences about a job in a node's status."""
    found = job.get("sharing")  # a daemon of an earlier version has none
    if found is None:
        return []
    giving = found["gives_way_to"]
    texts = sentences(job["key"], convert(found, Sharing, "a node's status"))
    if giving is not None:
        name = name_for(job["key"], giving)
        texts.append(
            f"gives way now, since {'it' if giving == job['key'] else name} is slowed"
        )
    return texts


def sentences(key: Job, sharing: Sharing | None) -> list[str]:
    """Returns what is known about the job with this key, a sentence each."""
    if sharing is None:
        return []
    texts = [label_text(sharing)]
    texts += [beside_text(key, each) for each in sharing.beside[-_NAMED:]]
    if sharing.rested_s >= _LEAST_S:
        texts.append(f"rested {sharing.rested_s:.1f} s, so that others were seen alone")
    if sharing.gave_way_s >= _LEAST_S:
        texts.append(f"gave way for {sharing.gave_way_s:.1f} s, since a job was slowed")
    return texts


def label_text(sharing: Sharing) -> str:
    """Returns label and finding: ``labelled memory; was waiting for messages 61% of its
    time``."""
    found = found_limits(sharing)
    if found is None:
        return f"labelled {', '.join(sharing.limited_by)}"
    return found.sentence(label_of(sharing))


def verdict_of(sharing: Sharing | None) -> Verdict | None:
    """Returns what was seen of the label; None: nothing."""
    found = None if sharing is None else found_limits(sharing)
    return None if found is None or sharing is None else found.verdict(label_of(sharing))


def beside_text(key: Job, each: Neighbour) -> str:
    """Returns the speed of a job beside others: ``beside stream 0.55 of its speed alone
    (6 looks, by iterations)``."""
    names = ", ".join(name_for(key, job) for job in each.jobs)
    speed = 0.0 if each.slowdown is None else 1 / each.slowdown
    looks = f"{counted(each.trials, 'look')}, by {each.measure.value}"
    return f"beside {names} {speed:.2f} of its speed alone ({looks})"
