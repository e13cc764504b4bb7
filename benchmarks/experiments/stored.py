"""Keeps the judged claims of a page as JSON beside it, so that each verdict and the tables
can be made from the file again.

``docs/results/claims/NAME.json`` has the claims of the part NAME of a page.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from benchmarks.experiments.claims import Claim
from cosched.core.decoding import JsonDecoder
from cosched.core.errors import CoschedError
from cosched.documents import read_document

FORMAT = "cosched-claims-1"
FOLDER = "claims"


class Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """The claims of one part of a page."""

    name: str  #: the part of the page, and the name of the file
    page: str  #: the file name of the page
    how: str  #: where the figures are from: live, simulated, emulated, measured
    command: str  #: makes the figures, without its folder
    claims: tuple[Claim, ...]  #: in the order of the page
    setting: str = ""  #: in words, if a page has several such parts
    #: Pictures of figures, by the source of the claim; a path from the page's folder.
    pictures: dict[str, str] = msgspec.field(default_factory=dict)
    #: Another ``how`` of single claims, by their source.
    otherwise: dict[str, str] = msgspec.field(default_factory=dict)
    #: Whether another part of the page has the same claims in the setting that counts.
    again: bool = False
    format: str = FORMAT  #: the version of the file

    def how_of(self, claim: Claim) -> str:
        """Returns where the figure of a claim is from."""
        return self.otherwise.get(claim.source, self.how)


_DECODER: JsonDecoder[Stored] = JsonDecoder(Stored, "claims of a page")


def keep(page: Path, stored: Stored) -> None:
    """Writes the claims beside their page."""
    folder = page.parent / FOLDER
    folder.mkdir(exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(stored), indent=1)
    (folder / f"{stored.name}.json").write_bytes(text + b"\n")


def read(path: Path) -> Stored:
    """Returns the claims in a file. Raises CoschedError for another file."""
    try:
        found = _DECODER.decode(read_document(path))
    except CoschedError as error:
        raise CoschedError(f"{path}: {error}") from None
    if found.format != FORMAT:
        raise CoschedError(f"{path}: has the format {found.format}, not {FORMAT}")
    return found


def read_all(folder: Path) -> list[Stored]:
    """Returns the claims of all parts in a folder of claims, by name."""
    return [read(path) for path in sorted(folder.glob("*.json"))]


def all_claims(parts: Iterable[Stored]) -> list[Claim]:
    """Returns the claims of papers, each in one setting; our own figures are left out."""
    return [
        claim for part in parts if not part.again for claim in part.claims if claim.paper
    ]
