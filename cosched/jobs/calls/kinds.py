"""Defines what a job does for its caller: calls of a function, or a run of a command."""

from __future__ import annotations

import subprocess
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cosched.cluster.answers import EndInfo
from cosched.cluster.job_texts import end_text
from cosched.cluster.submission_request import as_name
from cosched.core.errors import CoschedError
from cosched.jobs.calls.files import Files, text_of
from cosched.jobs.calls.future import JobFailed
from cosched.jobs.calls.parcels import name_of, read_failure, read_parcel, write_calls
from cosched.jobs.calls.task import call_words, task_words

#: In a word of a command it stands for the item.
PLACE = "{}"
#: The state of a job that ended as it should.
DONE = "done"

#: Arguments of one call: those by position, those by name.
Arguments = tuple[Sequence[Any], Mapping[str, Any]]


class RemoteTraceback(Exception):
    """The cause of an exception that comes from a job: its traceback there."""


class FunctionCalls:
    """Calls of one function, some of them a job, written to ``path``. The file is removed
    with this object. with_ranks: each rank calls it with the communicator as its first
    argument.

    Raises CoschedError if the function or an argument cannot be pickled."""

    def __init__(
        self,
        function: Callable[..., Any],
        chunks: Iterable[Sequence[Arguments]],
        path: Path,
        *,
        with_ranks: bool,
    ) -> None:
        self.name = as_name(name_of(function))
        self._path = path
        self._words = task_words(with_ranks=with_ranks)
        #: Where the call of each job begins in the file.
        self.begins = write_calls(path, function, chunks)
        weakref.finalize(self, path.unlink, missing_ok=True)

    @property
    def usual_words(self) -> Sequence[str]:
        """The words of a job, without its call."""
        return (*self._words, self.name)

    def words_at(self, begin: int, files: Files) -> Sequence[str]:
        """Returns the words of the job whose call begins there."""
        return (*self._words, *call_words(self._path, begin, files))

    def collect(
        self, choose: Callable[[Sequence[Any]], Any], files: Files, end: EndInfo
    ) -> Any:
        """Returns what ``choose`` makes of the results of a job. Raises the exception of
        the function, or JobFailed."""
        if end["state"] != DONE:
            try:
                error, text = read_failure(files.failure)
            except FileNotFoundError:
                raise _failed(self.name, files, end) from None
            raise error from RemoteTraceback(f'\n"""\n{text}"""')
        try:
            return choose(read_parcel(files.result))
        except FileNotFoundError:
            raise CoschedError(
                f"job {end['job']}: {files.result}: is not visible here; name a folder "
                "that all nodes share"
            ) from None


class CommandRuns:
    """Runs of a command. Raises CoschedError unless it is a list of words."""

    def __init__(self, command: Sequence[str]) -> None:
        if isinstance(command, str) or not command:
            raise CoschedError("a command is a list of words, such as ['./app', '{}']")
        #: Its words, without those of an item.
        self.usual_words = tuple(command)

    def words_for(self, item: Any) -> Sequence[str]:
        """Returns the words for an item: in the place of ``{}``, or at the end. An item
        that is a list or a tuple is several words."""
        given = item if isinstance(item, (list, tuple)) else (item,)
        texts = [str(each) for each in given]
        if not any(PLACE in word for word in self.usual_words):
            return (*self.usual_words, *texts)
        if len(texts) != 1:
            raise CoschedError(f"{PLACE} stands for one word, not for {texts}")
        return tuple(word.replace(PLACE, texts[0]) for word in self.usual_words)

    def collect(
        self, words: Sequence[str], files: Files, end: EndInfo
    ) -> subprocess.CompletedProcess[str]:
        """Returns the output, as ``subprocess.run`` does. Raises JobFailed for a status
        that is not 0, and for a job that could not run."""
        if end["state"] != DONE:
            raise _failed(Path(words[0]).name, files, end)
        out, err = text_of(files.output), text_of(files.error)
        return subprocess.CompletedProcess(words, 0, out, err)


def _failed(name: str, files: Files, end: EndInfo) -> JobFailed:
    text = f"job {end['job']} ({name}): {end_text(end['state'], end['reason'])}"
    line = files.last_line()
    return JobFailed(f"{text}; it wrote: {line}" if line else text, end)
