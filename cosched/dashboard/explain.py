"""Answers ``why`` for a job of the dashboard."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cosched.cluster.client import Patience
from cosched.core.bounds import JOB_MOST
from cosched.core.decoding import is_whole, parse_integer
from cosched.core.units import NS_PER_S
from cosched.jobs.client import Client
from cosched.jobs.job_story import job_story
from cosched.observe.why.story_text import stories_text
from cosched.observe.why.why import Asker, nodes_with_stories, stories

#: How far back an answer goes, and how many changes of each node it has at most.
SINCE_NS = 60 * NS_PER_S
LAST = 12
_PATIENCE = Patience(within_s=10.0)


class JobExplainer:
    """Explains jobs. daemons_dir: finds the run directory of the daemons. domain_dir: that
    of the domain; None: the one that serves this user. uid: the user who asks."""

    def __init__(
        self, daemons_dir: Callable[[], Path], domain_dir: Path | None, uid: int
    ) -> None:
        self._daemons_dir = daemons_dir
        self._domain_dir = domain_dir
        self._uid = uid

    def why(self, job: str) -> dict[str, Any]:
        """Returns the text of ``cosched why``, and what the domain has about the job. job:
        its id on the page. Raises CoschedError if it is not found."""
        places = nodes_with_stories(self._daemons_dir())
        asker = Asker(job, self._uid, time.time_ns() - SINCE_NS)
        if not is_whole(job, 1, JOB_MOST):
            return {"text": stories_text(stories(places, asker), asker, LAST), "job": None}
        with Client.connect_to_running(self._domain_dir, patience=_PATIENCE) as client:
            found = client.job(parse_integer(job, "job", 1, JOB_MOST))
        return {"text": job_story(found, places, asker, LAST), "job": found}
