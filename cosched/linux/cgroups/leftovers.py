"""Removes the groups of ended jobs, once the last process has left them."""

from __future__ import annotations

from collections.abc import Sequence

from cosched.core.errors import CoschedError
from cosched.linux.cgroups.cgroupfs import Tree, why
from cosched.linux.waiting import comes_true

# Version 1 reports no event when the last process has gone.
_PATIENCE_S = 1.0
_INTERVAL_S = 0.005


class Leftovers:
    """The jobs that have ended, but whose groups may still hold ending processes."""

    def __init__(self, trees: Sequence[Tree]) -> None:
        self._trees = trees
        self._jobs: set[str] = set()

    def add(self, job: str) -> None:
        self._jobs.add(job)

    def discard(self, job: str) -> None:
        self._jobs.discard(job)

    def remove(self) -> None:
        """Removes groups without members; groups with ending processes stay for later."""
        failed: CoschedError | None = None
        for job in sorted(self._jobs):
            try:
                removed = [tree.remove(job) for tree in self._trees]
            except OSError as error:
                failed = CoschedError(f"class {job}: cannot be removed: {why(error)}")
                continue
            if all(removed):
                self._jobs.discard(job)
        if failed is not None:
            raise failed

    def await_removal(self) -> None:
        """Removes all groups; CoschedError if a process stays in one."""

        def are_gone() -> bool:
            self.remove()
            return not self._jobs

        if not comes_true(are_gone, _PATIENCE_S, _INTERVAL_S):
            path = self._trees[0].path(min(self._jobs))
            raise CoschedError(
                f"{path}: still in use; end what runs there, then remove the directory"
            )
