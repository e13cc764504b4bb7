"""A part of a page that a script writes, between two markers.

<!-- NAME: begin -->
...
<!-- NAME: end -->
"""

from __future__ import annotations

from pathlib import Path

from cosched.core.errors import CoschedError


def marks(name: str) -> tuple[str, str]:
    """Returns the lines before and after the part."""
    return f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"


def replaced(page: str, name: str, text: str) -> str:
    """The page with ``text`` between its markers; CoschedError if it has not both."""
    begin, end = marks(name)
    before, found, rest = page.partition(begin)
    _, also_found, after = rest.partition(end)
    if not (found and also_found):
        raise CoschedError(f"no '<!-- {name}: begin -->' followed by '... end -->'")
    return f"{before}{begin}\n{text.strip()}\n\n{end}{after}"


def check(page: Path, name: str) -> None:
    """CoschedError if the part cannot be written into the page: better now than later."""
    _with(page, name, "")


def rewrite(page: Path, name: str, text: str) -> None:
    """Writes the part into the page."""
    page.write_text(_with(page, name, text))


def _with(page: Path, name: str, text: str) -> str:
    try:
        return replaced(page.read_text(), name, text)
    except CoschedError as error:
        raise CoschedError(f"{page}: {error}; add both lines") from None
