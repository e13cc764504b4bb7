"""Explains each note about a job in a short sentence. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from cosched.core.node.messages import Cause, Mode, Refusal
from cosched.core.trace.story import ENDED, Note
from cosched.observe.why.positions import in_words


@dataclass(frozen=True, slots=True)
class Explainer:
    """Explains the notes of one job."""

    #: Returns a task's rank by its pid, None if it is not known.
    rank_of: Callable[[int], int | None]
    name_of: Callable[[str], str]  #: returns a job's name by its key
    job: str  #: the key of the job that the notes are about

    def explain(self, note: Note) -> str:
        """Returns what happened, and why."""
        if note.why == ENDED:
            return "ended: its last task left"
        if note.scheduled is None:
            return self._refusal(note)
        return self._on(note) if note.scheduled else self._off(note)

    def _on(self, note: Note) -> str:
        gave_way = f"; {self._names(note)} gave way" if note.others else ""
        if note.why == Cause.PULLED.value:
            if note.asker == self.job:
                trapped = self._trapped(note)
                return f"scheduled: {trapped} a message of a peer that runs{gave_way}"
            beside = f"it fits beside {self._asker(note)}, which a message pulled"
            return f"scheduled: {beside}{gave_way}"
        switched = note.others or note.why == Cause.SLICE.value
        if note.prospect is not None and note.mode is None and switched:
            new = "it is new: " if note.why == Cause.FIRST.value else ""
            return f"scheduled: {new}{in_words(note.prospect)}{gave_way}{self._rival(note)}"
        return "scheduled: " + {
            Cause.FIRST.value: f"it is new, and was submitted before {self._names(note)}"
            if note.others
            else "it is new, and nothing keeps it from running",
            Cause.FREED.value: "what it waited for ended or shrank",
            Cause.SLICE.value: f"its turn; the slice of {self._names(note)} was over"
            if note.others
            else "its turn; it fits beside what runs",
            Cause.GIVEN.value: f"an outside command gave it its turn{gave_way}",
            Cause.RESUMED.value: f"{self._by_owner(note, 'resumed')}{gave_way}",
            Cause.RAISED.value: f"{self._by_owner(note, 'boosted')}{gave_way}",
            Cause.RESTED.value: "the rest is over",
            Cause.RELEASED.value: "its owner detached it: it runs at normal shares",
            Cause.SHUTDOWN.value: "the daemon ended: everything runs freely",
        }.get(note.why, note.why)

    def _off(self, note: Note) -> str:
        now = f"; now {self._names(note)}" if note.others else ""
        if note.prospect is not None and note.mode is None:
            return f"displaced: {in_words(note.prospect)}{now}{self._rival(note)}"
        if note.why == Cause.DISPLACED.value:
            return f"displaced{self._displaced_by(note)}{now}"
        return {
            Cause.REARMED.value: "may ask again: the guaranteed time of what runs is over",
            Cause.UNBLOCKED.value: "may ask again: other jobs run or wait now",
            Cause.DISCARDED.value: "may ask again with its next message",
            Cause.FIRST.value: "new; it waits for its turn",
            Cause.SLICE.value: f"its slice was over{now}",
            Cause.CROWDED.value: f"tasks came, and it no longer fits beside them{now}",
            Cause.SUSPENDED.value: f"its owner suspended it{now}",
            Cause.RESTING.value: "it rests: a job beside it is seen alone, or is slowed",
            Cause.RESUMED.value: "its owner resumed it; it waits for its turn",
            Cause.RAISED.value: "its owner boosted it; it waits for its turn",
        }.get(note.why, note.why)

    def _rival(self, note: Note) -> str:
        """Returns why the other job has its place, if there is only one."""
        return "" if note.rival is None else f": {in_words(note.rival)}"

    def _by_owner(self, note: Note, done: str) -> str:
        """Returns why the job is scheduled after an owner boosted or resumed a job."""
        if note.owner_of is not None and note.owner_of != self.job:
            return f"it fits beside {self.name_of(note.owner_of)}, which its owner {done}"
        alone = ": it has its CPUs alone" if done == "boosted" else ""
        return f"its owner {done} it{alone}"

    def _displaced_by(self, note: Note) -> str:
        if note.asker is not None:
            return f" by {self._asker(note)}: {self._trapped(note)} a message there"
        if note.owner_of is not None:
            did = "boosted" if note.mode == Mode.RAISED.value else "resumed"
            return f": the owner of {self.name_of(note.owner_of)} {did} it"
        return " by an outside command"

    def _refusal(self, note: Note) -> str:
        trapped, others = self._trapped(note), self._names(note)
        by = _span(note.by_ns)
        why = {
            Refusal.GMET.value: f"{others} had {by} of its guaranteed time left",
            Refusal.AHEAD.value: f"it has had {by} more CPU time than {others}, which "
            "waits too",
            Refusal.PRECEDED.value: f"{others} comes first and keeps its CPUs for another "
            f"{by}",
            Refusal.SCHEDULED.value: "it was scheduled already",
            Refusal.STALE.value: "asked before the last change of its status",
            Refusal.SUSPENDED.value: "its owner suspended it",
            Refusal.BARRED.value: "a boosted job has these CPUs alone",
            Refusal.UNKNOWN.value: "the task is not registered",
        }.get(note.why, note.why)
        return f"refused, {trapped} a message: {why}"

    def _trapped(self, note: Note) -> str:
        rank = None if note.task is None else self.rank_of(note.task)
        return f"task {note.task} trapped" if rank is None else f"rank {rank} trapped"

    def _asker(self, note: Note) -> str:
        return self.name_of(note.asker) if note.asker else "another job"

    def _names(self, note: Note) -> str:
        return ", ".join(self.name_of(job) for job in note.others) or "another job"


@dataclass(frozen=True, slots=True)
class Explained:
    """Equal notes in a row."""

    note: Note  #: the last one
    times: int  #: their number
    text: str  #: the sentence that explains them


def explain_all(explainer: Explainer, notes: Sequence[Note]) -> list[Explained]:
    """Explains the notes in order; equal refusals in a row become one."""
    found: list[Explained] = []
    for note in notes:
        text = explainer.explain(note)
        last = found[-1] if found else None
        if last is not None and note.scheduled is None and _alike(last.note, note):
            found[-1] = Explained(note, last.times + 1, text)
        else:
            found.append(Explained(note, 1, text))
    return found


def _alike(one: Note, other: Note) -> bool:
    return replace(one, now_ns=0, wall_ns=0, by_ns=0) == replace(
        other, now_ns=0, wall_ns=0, by_ns=0
    )


def _span(ns: int) -> str:
    seconds = ns / 1e9
    return f"{seconds:.2f} s" if seconds >= 0.01 else f"{ns / 1e6:.2f} ms"
