"""The final counters of a job's tasks: they lie in the job's region, which goes with the
job unless another process has mapped it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.rundir.paths import NodePaths, job_key
from cosched.shm._native import lib
from cosched.shm.region import JobRegion

LOOK_S = 0.005


class Watch:
    """Maps the region of a job of this user as soon as there is one; a context manager."""

    def __init__(self, run_dir: Path, job: str) -> None:
        paths = NodePaths(run_dir, os.uname().nodename)
        self._name = paths.job_region(job_key(os.geteuid(), job))
        self._region: JobRegion | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def tasks(self) -> dict[int, dict[str, int]]:
        """By rank, what each task that ever registered has counted. A launcher is none."""
        if self._region is None:
            return {}
        tasks = self._region.data.tasks
        slots = range(lib.COSCHED_TASKS_MAX)
        return {
            int(tasks[slot].identity.rank): self._region.counters(slot)
            for slot in slots
            if tasks[slot].identity.pid and not self._region.phase(slot).starts_tasks
        }

    def close(self) -> None:
        if self._region is not None:
            self._region.close()

    def _look(self) -> None:
        while self._region is None and not self._stopping.wait(LOOK_S):
            if Path(f"/dev/shm{self._name}").exists():
                try:
                    self._region = JobRegion.attach(self._name)
                except CoschedError:
                    continue  # gone again; without a region the test fails
