"""Writes docs/dev/files.md: each source file, with the first sentence of its head.

The head is the docstring, or the leading comment. A C file without one has the head of its
header. Tests are left out, but not what tests share. ``--check`` writes nothing and fails
if the page is out of date.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/dev/files.md"

_HEAD = """\
# Every source file

One line a file: its path, and the first sentence of its head. Search this page for a word
of your question. [Where do I change X?](architecture.md#where-do-i-change-x) names
functions, too. `scripts/dev files` writes this page.
"""
#: Files of the repository that have no line: data, packages, stubs, tests, files of others.
_LEFT_OUT = (
    r".*\.(toml|css|html|pyi|typed|md|LICENSE|jsonl?|txt|svg|png|ya?ml|conf|in)|"
    r".*\.min\.js|(.*/)?__init__\.py|(docs|\.ci)/.*|\.[^/]*|[^/]*|tests/(.*/)?test_[^/]*|"
    r"benchmarks/programs/published/.*|scripts/packaging/(control|copyright)"
)
_BLOCK = r"(?:#define [^\n]*\n)?/\*((?:(?!\*/)[\s\S])*)\*/"
_EXCLAMATION = r"((?:![^\n]*\n)+)"
#: The head of a file by the end of its name; the first group that matches is its text.
_HEADS = {
    ".py": r'(?:#![^\n]*\n)?r?"""([\s\S]*?)"""',
    ".c": _BLOCK,
    ".cc": _BLOCK,
    ".h": _BLOCK,
    ".js": rf'(?:"use strict";\s*)?(?:{_BLOCK}|((?://[^\n]*\n)+))',
    ".f90": _EXCLAMATION,
    ".F90": _EXCLAMATION,
    ".lua": r"((?:--[^\n]*\n)+)",
    ".service": r"(?:#[^\n]*\n|\s)*\[Unit\]\nDescription=([^\n]*)\n",
}
#: A script of Python or of the shell; a comment for a checker is no head.
_SCRIPT = (
    r'#![^\n]*python3?\n"""([\s\S]*?)"""|'
    r"(?:#![^\n]*\n)?(?:# shellcheck[^\n]*\n|#\n)*((?:#(?!!)[^\n]*\n)+)"
)
#: Marks of comments at the beginning of a line.
_MARKS = r"(?m)^[ \t]*(?:\*|//|!|--|#)+ ?"
#: The name of a file in front of its sentence, with its arguments.
_NAME = r"^[\w./]+(?: [^a-z-]+| \[\w+\])* - "


def page() -> str:
    """Returns the text of the page."""
    parts = [_HEAD]
    for folder, paths in groupby(_paths(), key=lambda path: path.rpartition("/")[0]):
        parts.append(f"\n## {folder}\n\n")
        # A C file and its header have one line if they have one head.
        by_sentence: dict[str, list[str]] = {}
        for path in paths:
            by_sentence.setdefault(sentence(ROOT / path), []).append(path)
        for text, found in by_sentence.items():
            names = ", ".join(f"`{path}`" for path in found)
            parts.append(f"- {names}: {text}\n")
    return "".join(parts)


def _paths() -> Iterator[str]:
    """Yields the files that have a line, by folder."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    paths = (path for path in listed.stdout.splitlines() if (ROOT / path).is_file())
    for path in sorted(paths, key=lambda path: path.rpartition("/")[::2]):
        if not re.fullmatch(_LEFT_OUT, path):
            yield path


def sentence(path: Path) -> str:
    """Returns the first sentence of a file's head; empty if it has none."""
    text = _head(path) or next(filter(None, map(_head, _halves(path))), "")
    paragraph = " ".join(text.strip().partition("\n\n")[0].split())
    paragraph = re.sub(_NAME, "", paragraph).replace("``", "`")
    first = re.match(r"(.+?(?<! al)[.?])(?= [A-Za-z`]|$)", paragraph)
    found = (first[1] if first else paragraph).rstrip(".:?")
    return f"{found[:1].upper()}{found[1:]}." if found else ""


def _halves(path: Path) -> Iterator[Path]:
    """Yields the header of a C file, or the C file of a header."""
    folders = (path.parent, path.parent / "include/cosched", path.parent.parent.parent)
    for folder in folders:
        for suffix in (".h", ".c"):
            other = folder / f"{path.stem}{suffix}"
            if path.suffix in (".h", ".c") and other != path and other.is_file():
                yield other


def _head(path: Path) -> str:
    """Returns the text at the head of a file, without marks of comments."""
    match = re.match(_HEADS.get(path.suffix, _SCRIPT), path.read_text())
    if match is None:
        return ""
    text = next(filter(None, match.groups()), "")
    return text if path.suffix == ".py" else re.sub(_MARKS, "", text)


def main() -> None:
    """``files.py [--check]``."""
    parser = argparse.ArgumentParser(prog="scripts/dev files", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    check = parser.parse_args().check
    wanted = page()
    if PAGE.exists() and PAGE.read_text() == wanted:
        return
    if check:
        sys.exit("docs/dev/files.md is out of date; run scripts/dev files")
    PAGE.write_text(wanted)
    print("docs/dev/files.md")


if __name__ == "__main__":
    main()
