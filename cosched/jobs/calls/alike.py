"""Makes the jobs of ``Client.map``: one program, whose words differ in little. Their common
parts are found out once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from cosched.cluster.submission import Submission
from cosched.cluster.submission_request import new_token
from cosched.jobs.calls.files import Files
from cosched.linux.system_text import to_wire, words_to_wire

#: Returns the job of a program's words.
Prepare = Callable[[Sequence[str], Files], Submission]


class Alike:
    """Jobs of one program. usual: its words without those in which the jobs differ; so all
    of them are expected to take as long as earlier ones. prepare: makes a job of words.
    has_files: whether the output of each job goes to files of its own."""

    def __init__(self, usual: Sequence[str], prepare: Prepare, *, has_files: bool) -> None:
        self._usual = usual
        self._prepare = prepare
        self._has_files = has_files
        self._pattern: Submission | None = None

    def with_words(self, words: Sequence[str], files: Files) -> Submission:
        """Returns the job with these words. Raises CoschedError if something is missing."""
        if words[0] != self._usual[0]:
            return self._prepare(words, files)
        if self._pattern is None:
            self._pattern = self._prepare(self._usual, files)
        if self._pattern.argv != words_to_wire(self._usual):
            return self._prepare(words, files)  # a launcher has the words among its own
        pattern = self._pattern
        if self._has_files:
            out, err = to_wire(str(files.output)), to_wire(str(files.error))
            pattern = msgspec.structs.replace(pattern, output=out, error=err)
        argv = words_to_wire(words)
        return msgspec.structs.replace(pattern, token=new_token(), argv=argv)
