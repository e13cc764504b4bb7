"""Recognises the first word of a command line: a launcher, a Python, or another program.

It imports little, because a command that starts a job asks before its other imports.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

#: Launchers of batch systems: they start ranks on the nodes of their job.
BATCH_LAUNCHERS = ("srun", "jsrun", "aprun", "ibrun", "flux")
#: Launchers whose ranks inherit their environment.
INHERITING = (*BATCH_LAUNCHERS, "mpiexec.gforker")
_LAUNCHERS = (
    *("mpiexec", "mpirun", "orterun", "prterun", "prun", "mpiexec.hydra"),
    *("mpirun.hydra", "mpiexec.mpich", "mpirun.mpich", "mpiexec.openmpi"),
    *("mpirun.openmpi", *INHERITING),
)
_PYTHON = r"(python|pypy)[0-9.]*t?"
_VALUE_OPTIONS = ("-X", "-W", "--check-hash-based-pycs")


def is_launcher(word: str) -> bool:
    """Whether ``word`` starts a launcher's command line."""
    return os.path.basename(word) in _LAUNCHERS


def is_python(name: str) -> bool:
    """Whether a file of this name is a Python interpreter."""
    return re.fullmatch(_PYTHON, name) is not None


def label_of(argv: Sequence[str]) -> str:
    """Returns the program's name for users: ``app`` for ``python -u app.py``, ``pkg.mod``
    for ``python -m pkg.mod``, otherwise the name of the file."""
    name = os.path.basename(argv[0])
    if not is_python(name):
        return name
    words = iter(argv[1:])
    for word in words:
        if word == "-m":
            return next(words, "python")
        if word in ("-c", "-"):
            break
        if word in _VALUE_OPTIONS:
            next(words, None)
        elif not word.startswith("-"):
            return Path(word).stem
    return "python"
