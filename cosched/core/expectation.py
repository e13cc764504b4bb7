"""Predicts how long a job will be scheduled from the user's earlier runs.

Runs of one program with the same arguments and ranks predict best. Without such runs,
those of the program with the same ranks are taken, and otherwise all runs of the program.
Then each set of arguments counts once, and some different ones are needed: the arguments
may set the length, so one of them says nothing of another.

Only the last runs count: recent jobs of the same user predict better than more of them
(Tsafrir, Etsion and Feitelson, "Backfilling Using System-Generated Predictions", 2007).
"""

from __future__ import annotations

from collections.abc import Iterable

from cosched.core.digest import sha256
from cosched.core.named_tuples import NamedTuple

#: How many lengths a prediction holds at most; the layout has room for so many.
LENGTHS_MAX = 8


class Prediction(NamedTuple):
    """The lengths of like jobs, as a launcher sends them to its job's nodes."""

    kind: int = 0  #: see ``Likeness.kind``; 0: no kind
    lengths_ns: tuple[int, ...] = ()  #: how long they were scheduled; empty: unknown


class Likeness(NamedTuple):
    """The features by which jobs of one user are alike."""

    program: str  #: the path of the program, and of its script if it has one
    args: tuple[str, ...]  #: the arguments, without the program's name
    ranks: int | None  #: the number of ranks; None: the user's own launcher sets it

    @property
    def kind(self) -> int:
        """A number other than 0 that only equal likenesses have."""
        text = "\0".join((self.program, str(self.ranks), *self.args))
        digest = sha256(text.encode(errors="surrogatepass")).digest()
        return int.from_bytes(digest[:8], "little") or 1


class PastRun(NamedTuple):
    """A run that succeeded."""

    likeness: Likeness  #: the features of its job
    length_ns: int  #: how long its job was scheduled


#: Runs that are less alike predict only if they are of so many different kinds.
ENOUGH_KINDS = 3


def expect(likeness: Likeness, runs: Iterable[PastRun]) -> Prediction:
    """Returns the lengths of the last runs that are most alike; ``runs`` are in the order
    of their ends."""
    past = [run for run in runs if run.likeness.program == likeness.program]
    own_ns = [run.length_ns for run in past if run.likeness == likeness]
    if own_ns:
        return Prediction(likeness.kind, tuple(own_ns[-LENGTHS_MAX:]))
    same_ranks = [run for run in past if run.likeness.ranks == likeness.ranks]
    for alike in (same_ranks, past):
        last_ns: dict[Likeness, int] = {}
        for run in alike:
            last_ns.pop(run.likeness, None)
            last_ns[run.likeness] = run.length_ns
        if len(last_ns) >= ENOUGH_KINDS:
            return Prediction(likeness.kind, tuple(last_ns.values())[-LENGTHS_MAX:])
    return Prediction(likeness.kind)
