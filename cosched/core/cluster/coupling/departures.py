"""Reports to the mates of a job that they need not wait for it.

It began without them, or it is over. A mate that yielded would otherwise wait until
something else happens in its queue.
"""

from __future__ import annotations

from collections.abc import Iterable

from cosched.core.cluster.coupling.groups import DomainName, Timing
from cosched.core.cluster.coupling.jobs import Jobs
from cosched.core.cluster.coupling.mail.post import Post
from cosched.core.cluster.coupling.mate_messages import Departed
from cosched.core.cluster.coupling.state import GroupJob, Stage, State


def depart(post: Post, member: GroupJob, domains: Iterable[DomainName]) -> None:
    """Reports it to these domains, and again after a restart, until each has confirmed.

    No job waits for a follower, and a leader reports in its own way."""
    for name in domains:
        if member.group.timing is not Timing.AFTER and name not in member.past.unconfirmed:
            member.past.unconfirmed.append(name)
            post.ask(name, member, Departed())


def started_alone(state: State, post: Post, member: GroupJob) -> None:
    """Records that the engine started a job although nothing here decided that."""
    member.past.began = True
    member.past.alone = "its engine started it"
    state.counts.started_alone += 1
    depart(post, member, member.group.others(state.name))


def depart_again(post: Post, member: GroupJob) -> None:
    """Repeats the report to the domains that have not confirmed it."""
    for name in member.past.unconfirmed:
        post.ask(name, member, Departed())


def mate_departed(jobs: Jobs, member: GroupJob) -> None:
    """Makes a job that waits for its mates ask again now. A job in a round, or with an open
    question, asks again once it waits."""
    if member.stage in (Stage.QUEUING, Stage.HOLDING):
        jobs.set_dates(member, retry_ns=jobs.state.now_ns)
    elif member.stage.may_wait:
        member.past.mate_left = True
