"""Keeps whether labels were right, by user and program: wrong ones lose their effect.

A label that was wrong in ``wrong_runs`` runs of a program one after the other has no effect
in its later runs: the resource that was found counts in its place. A right run, or another
label, ends that.

The wrong runs of all programs of a user count together. From ``wrong_runs`` on the user is
*distrusted*: a single wrong run ends the effect of a label, until right runs have brought
the number down. So a user with wrong labels for many programs does not have this number of
runs of each. After wrong labels for ``WRONG_PROGRAMS`` programs a user's labels for further
programs have no effect either, until a run of them was right. So an invented label for each
new name of a program gains little.

The record is bounded, and what was not seen for a long time is forgotten. Times are by the
wall clock, because the record outlives its process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, takewhile

from cosched.core.symbiosis.limited import Found, Verdict
from cosched.core.symbiosis.resources import Limits
from cosched.core.units import NS_PER_S

#: This number of wrong runs, one after the other, ends the effect of a label.
WRONG_RUNS = 3
#: If the labels of this number of programs have no effect, the user's other labels have
#: none.
WRONG_PROGRAMS = 3
#: A program is forgotten if it did not run for this time.
KEPT_NS = 90 * 86_400 * NS_PER_S
#: The most programs that are kept, the last ones; a user has one part in USERS_PART.
PROGRAMS_MOST = 8192
USERS_PART = 16


@dataclass(frozen=True, slots=True)
class Checked:
    """What is kept of a user's program."""

    uid: int  #: the user's number
    program: str  #: the program's name, or its kind as text
    label: Limits  #: the label of its last run
    found: Limits  #: what limited its last run that was judged; empty: nothing did
    runs: int  #: runs with this label that were judged
    right: int  #: runs of them in which it was right
    wrong: int  #: the last runs in a row in which it was wrong
    seen_ns: int  #: when the last run ended, by the wall clock


class LabelRecord:
    """The record of one domain or node."""

    def __init__(self, wrong_runs: int = WRONG_RUNS, kept: Iterable[Checked] = ()) -> None:
        """wrong_runs: a label has no effect after so many; 0: each label has one. kept: the
        record before a restart, in any order."""
        self._wrong_runs = wrong_runs
        self._checked: dict[tuple[int, str], Checked] = {}  # the oldest first
        self._of_user: dict[int, dict[str, Checked]] = {}
        for each in sorted(kept, key=lambda each: each.seen_ns):
            self._put(each)

    def configure(self, wrong_runs: int) -> None:
        """Applies another number of wrong runs from now on."""
        self._wrong_runs = wrong_runs

    def add(
        self, uid: int, program: str, label: Limits, found: Found, now_ns: int
    ) -> tuple[Checked, list[Checked]]:
        """Adds a run. Returns what is kept of its program, and what is forgotten."""
        before = self._checked.get((uid, program))
        if before is not None:
            self._drop(before)
        if before is None or before.label != label:
            before = Checked(uid, program, label, found.limits, 0, 0, 0, now_ns)
        verdict = found.verdict(label)
        wrong = before.wrong
        if verdict is not Verdict.OPEN:
            wrong = wrong + 1 if verdict is Verdict.WRONG else 0
        kept = replace(
            before,
            found=found.limits,
            runs=before.runs + 1,
            right=before.right + (verdict is Verdict.RIGHT),
            wrong=wrong,
            seen_ns=now_ns,
        )
        self._put(kept)
        return kept, self._forget(uid, now_ns)

    def _put(self, checked: Checked) -> None:
        self._checked[checked.uid, checked.program] = checked
        self._of_user.setdefault(checked.uid, {})[checked.program] = checked

    def _drop(self, checked: Checked) -> None:
        del self._checked[checked.uid, checked.program]
        own = self._of_user[checked.uid]
        del own[checked.program]
        if not own:
            del self._of_user[checked.uid]

    def of(self, uid: int, program: str) -> Checked | None:
        """Returns what is kept of a program; None: nothing."""
        return self._checked.get((uid, program))

    def effective(self, uid: int, program: str, label: Limits) -> Limits:
        """Returns the label by which a job is placed; empty: nothing is known of it.
        program: empty if it is unknown."""
        kept = self._checked.get((uid, program)) if program else None
        if not self._wrong_runs:
            return label
        if kept is not None and kept.label == label:
            if self._is_wrong(kept) or (kept.wrong and self.is_distrusted(uid)):
                return kept.found
            if kept.right:
                return label
        return frozenset() if self._is_unreliable(uid) else label

    def is_distrusted(self, uid: int) -> bool:
        """Returns whether one wrong run ends the effect of a label of this user."""
        own = self._of_user.get(uid, {}).values()
        return sum(each.wrong for each in own) >= self._wrong_runs

    def _is_wrong(self, kept: Checked) -> bool:
        return kept.wrong >= self._wrong_runs

    def _is_unreliable(self, uid: int) -> bool:
        own = self._of_user.get(uid, {}).values()
        return sum(map(self._is_wrong, own)) >= WRONG_PROGRAMS

    def _forget(self, uid: int, now_ns: int) -> list[Checked]:
        """Forgets what is too old or too much; the oldest stand first."""
        every, own = self._checked.values(), self._of_user[uid].values()
        is_old = partial(_is_old, now_ns)
        old = list(takewhile(is_old, every))
        old += islice(own, max(0, len(own) - PROGRAMS_MOST // USERS_PART))
        old += islice(every, max(0, len(every) - PROGRAMS_MOST))
        forgotten = {(each.uid, each.program): each for each in old}
        for each in forgotten.values():
            self._drop(each)
        return list(forgotten.values())

    def all(self) -> list[Checked]:
        """Returns the whole record, the program that was seen last at the end."""
        return list(self._checked.values())


def _is_old(now_ns: int, checked: Checked) -> bool:
    return now_ns - checked.seen_ns > KEPT_NS
