"""Keeps the numbers of a domain's nodes in ``nodes.json``, over the lives of a controller.

The file also has the nodes that leave: those that domain.toml lacks, and that jobs still
have.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from cosched.cluster.keys import known_keys
from cosched.cluster.paths import DomainPaths
from cosched.cluster.record import Record
from cosched.core.cluster.numbering import Numbering
from cosched.core.decoding import JsonDecoder
from cosched.core.errors import CoschedError
from cosched.documents import read_document
from cosched.linux.files.whole import write_whole

_decoder: JsonDecoder[Numbering] = JsonDecoder(Numbering, "numbers of nodes")


def open_numbering(
    paths: DomainPaths, wanted: Mapping[str, str], live: Collection[Record]
) -> Numbering:
    """Returns the nodes of a domain that starts: those of domain.toml, and those of before
    that live jobs may still have. Stores it if it has changed. wanted: the addresses in
    domain.toml by name. Raises CoschedError for a file that is damaged or cannot be
    written."""
    stored = Numbering()
    if paths.numbering.exists():
        try:
            stored = _decoder.decode(read_document(paths.numbering))
        except CoschedError as error:
            remedy = "move the file away if no job runs"
            raise CoschedError(f"{paths.numbering}: {error}; {remedy}") from None
    gone = stored.addresses.keys() - wanted.keys()
    busy = {host for record in live for host in record.hosts}
    gone -= busy.intersection(known_keys(paths.keys, gone))
    found = stored.without(gone).following(wanted)
    if found != stored:
        save_numbering(paths, found)
    return found


def save_numbering(paths: DomainPaths, numbering: Numbering) -> None:
    """Stores the numbers. Raises CoschedError if the file cannot be written."""
    write_whole(paths.numbering, msgspec.json.encode(numbering) + b"\n")
