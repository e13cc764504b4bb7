"""Runs functions and commands as jobs of this user's domain, from programs.

from cosched import Executor

with Executor() as jobs:
    for result in jobs.map(simulate, range(100)):
        print(result)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cosched.jobs.calls.connection import Connect
from cosched.jobs.calls.job_executor import JobExecutor
from cosched.jobs.client import Client


class Executor(JobExecutor):
    """An executor on the domain that serves this user; see ``JobExecutor``. If none is up,
    the first call starts a private one of this machine."""

    def __init__(
        self,
        ranks: int | None = None,
        *,
        folder: Path | str | None = None,
        connect: Connect = Client.connect,
        **job: Any,
    ) -> None:
        super().__init__(connect, ranks, folder=folder, **job)
