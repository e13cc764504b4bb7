"""Makes the command that starts a program of cosched as a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

#: The module of the command ``cosched``.
COSCHED = "cosched.cli.main"
_START = Path(__file__).with_name("__main__.py").absolute()


def own_command(module: str) -> tuple[str, ...]:
    """Returns the words that run the function main of a module of cosched, from any
    directory and under any variables of the user. See ``isolated``."""
    return (sys.executable, "-I", "-X", "utf8", str(_START), module)
