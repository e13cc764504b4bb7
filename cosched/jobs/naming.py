"""Finds the jobs of a domain that a user names as ``cosched queue`` and ``cosched status``
print them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cosched.cluster.job_texts import NAME_MOST
from cosched.launch.environment import name_on_nodes

if TYPE_CHECKING:
    from cosched.cluster.answers import JobInfo

#: The end of a name that a table has cut.
_CUT = "…"
#: The most jobs that an error names.
_NAMED_MOST = 5


def numbers_of(jobs: Sequence[JobInfo], name: str, uid: int) -> list[int]:
    """Returns the numbers of the jobs and arrays with this name, the oldest first.

    Jobs with the whole name go before those whose name a table has cut, live jobs before
    those that have ended, and jobs of the user before those of others. name: a job's name
    or UID.NAME, also as a table has cut it; its name on its nodes; or the waiting tasks of
    an array as the queue prints them.
    """
    found = [job for job in jobs if _is_called(job, name)]
    for is_better in (
        lambda job: not _is_cut(job, name),
        _is_live,
        lambda job: job["uid"] == uid,
    ):
        found = list(filter(is_better, found)) or found
    return sorted({job["array"] or job["job"] for job in found})


def named(numbers: Sequence[object]) -> str:
    """Returns several numbers in words, such as ``12, 13 and 2 more``."""
    shown = [str(number) for number in numbers[:_NAMED_MOST]]
    if len(numbers) > _NAMED_MOST:
        shown.append(f"{len(numbers) - _NAMED_MOST} more")
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def _is_live(job: JobInfo) -> bool:
    return job["ended_ns"] is None


def _is_called(job: JobInfo, name: str) -> bool:
    if name == job.get("folded"):
        return True
    owner, dot, rest = name.partition(".")
    if dot and owner == str(job["uid"]) and _is_name_of(job, rest):
        return True
    return _is_name_of(job, name)


def _is_name_of(job: JobInfo, name: str) -> bool:
    own = job["name"]
    return name in (own, name_on_nodes(own, job["job"])) or _is_cut_name_of(own, name)


def _is_cut(job: JobInfo, name: str) -> bool:
    """Returns whether a job has the name only as a table has cut it."""
    own, rest = job["name"], name.removeprefix(f"{job['uid']}.")
    return own not in (name, rest) and any(
        _is_cut_name_of(own, each) for each in (name, rest)
    )


def _is_cut_name_of(own: str, name: str) -> bool:
    cut = name.removesuffix(_CUT)
    return (
        bool(cut)
        and own != cut
        and own.startswith(cut)
        and (cut != name or len(name) == NAME_MOST)
    )
