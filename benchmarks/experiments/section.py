"""Writes a part of a page, between two markers.

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
    """Returns the page with ``text`` between its markers; CoschedError without them."""
    begin, end = marks(name)
    before, found, rest = page.partition(begin)
    _, also_found, after = rest.partition(end)
    if not (found and also_found):
        raise CoschedError(f"no '<!-- {name}: begin -->' followed by '... end -->'")
    return f"{before}{begin}\n{text.strip()}\n\n{end}{after}"


def check(page: Path, name: str) -> None:
    """Checks early that the page can be written; CoschedError if not."""
    _with(page, name, "")


def rewrite(page: Path, name: str, text: str) -> None:
    """Writes the part into the page."""
    page.write_text(_with(page, name, text))


def _with(page: Path, name: str, text: str) -> str:
    try:
        return replaced(page.read_text(), name, text)
    except CoschedError as error:
        raise CoschedError(f"{page}: {error}; add both lines") from None
