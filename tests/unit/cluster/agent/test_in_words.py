"""A steward's first frame has bytes as wire text; its process uses them as they were."""

from __future__ import annotations

import os

from cosched.cluster.agent.frames import Prepare
from cosched.core.cluster.startup.questions import Command

WIRE, BYTES = "a\U0010ffff", b"a\xff"


def test_every_word_becomes_bytes_again():
    command = Command((WIRE, WIRE), 1, WIRE, WIRE, ("n1",), {WIRE: WIRE})
    job = Prepare(
        *("job", 1, 1, 0, (command,), {}, {WIRE: WIRE}, WIRE, 0o22, 0),
        *(("n1",), (1,), (), "none", WIRE, WIRE, WIRE, WIRE, WIRE, WIRE, False, 0.1),
    ).in_words()
    (program,) = job.commands
    words = [*program.argv, program.cwd, program.path, *program.environ.items()]
    paths = [job.cwd, job.pmix_library, job.directory, job.topology]
    files = [job.input, job.output, job.error, *job.environ.items()]
    for word in (*words, *paths, *files):
        for each in (word,) if isinstance(word, str) else word:
            assert os.fsencode(each) == BYTES
