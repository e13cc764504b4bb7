"""docs/dev/files.md has a line for each source file, made of the head of the file."""

from __future__ import annotations

import re

from scripts import files


def test_page_is_up_to_date():
    assert files.PAGE.read_text() == files.page(), "run scripts/dev files"


def test_each_file_has_a_sentence_of_its_own():
    """A header may have that of its C file, and a program its other form in C."""
    lines = re.findall(r"^- (.*?`): (.*)$", files.PAGE.read_text(), re.M)
    assert len(lines) > 1000
    assert [names for names, text in lines if len(text) < 15] == []
    by_text: dict[str, set[str]] = {}
    for names, text in lines:
        stems = re.findall(r"(\w+)(?:\.\w+)?`", names)
        by_text.setdefault(text, set()).update(stems)
    assert {text: stems for text, stems in by_text.items() if len(stems) > 1} == {}


def test_heads_of_each_kind_of_file(tmp_path):
    samples = {
        "a.py": '#!/usr/bin/env python3\n"""Reads a file\nof ``toml``. More."""\n',
        "b.c": "/*\n * b.c - reads a\n * line. More.\n */\n",
        "c.h": "#define X 1\n/* c.h: none. */\n",
        "c.c": '#include "c.h"\n/* Not at the head. */\n',
        "d.js": '"use strict";\n\n// d.js - draws rows:\n// all of them.\n',
        "e": "#!/bin/sh\n# Starts a node. Twice.\nset -e\n",
        "f.service": "[Unit]\nDescription=runs it\nAfter=x\n",
    }
    for name, text in samples.items():
        (tmp_path / name).write_text(text)
    assert {name: files.sentence(tmp_path / name) for name in samples} == {
        "a.py": "Reads a file of `toml`.",
        "b.c": "Reads a line.",
        "c.h": "C.h: none.",
        "c.c": "C.h: none.",
        "d.js": "Draws rows: all of them.",
        "e": "Starts a node.",
        "f.service": "Runs it.",
    }
