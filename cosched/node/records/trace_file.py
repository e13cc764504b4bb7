"""Writes the trace of a scheduler daemon to its file.

A segment begins at each start of a daemon and in each file. So each of the two files can
be read without the other. Both are of one version: files of another version are renamed
before the first segment.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from pathlib import Path

from cosched.core.config.schema import TRACE_BYTES
from cosched.core.decoding import parse_integer
from cosched.core.trace.codec import VERSION, Header, encode
from cosched.node.records.bounded_file import BoundedFile, FilePair

#: The greatest version that is recognised.
_VERSION_MOST = 1 << 30

log = logging.getLogger(__name__)

_FIRST = rb'\{"cosched_trace":(\d+),'
_FIRST_BYTES = 64


def trace_file_pair(directory: Path, limit_bytes: int = TRACE_BYTES) -> FilePair:
    """Returns the place of a node's trace."""
    return FilePair(directory, "trace", limit_bytes)


def open_trace(place: FilePair, header: Callable[[], Header]) -> BoundedFile:
    """Opens a trace; ``header`` returns the header of a segment that begins now.

    Raises OSError."""
    for path in place.files:
        _set_aside(path)
    return BoundedFile(place, lambda: encode([header()]))


def _set_aside(path: Path) -> None:
    """Renames a file of another version: no command of this version can read it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        first = re.match(_FIRST, os.read(descriptor, _FIRST_BYTES))
    finally:
        os.close(descriptor)
    if first is None:
        return
    version = parse_integer(first[1], f"{path}: its version", 0, _VERSION_MOST)
    if version == VERSION:
        return
    aside = path.with_name(f"{path.stem}.version{version}.jsonl")
    path.replace(aside)
    log.warning("%s: of version %d; it is now %s", path, version, aside.name)
