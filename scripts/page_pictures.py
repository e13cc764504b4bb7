"""Saves pictures of pages in a browser, for the docs. A picture carries the texts that the
page showed, so that a test finds a picture of an older page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

#: The elements of a page whose texts its picture carries, as lists in JSON.
KINDS = {"headings": "h2, th", "sentences": "p", "jobs": ".job"}
_VISIBLE = r"""
return [...document.querySelectorAll(arguments[0])]
  .filter((each) => each.checkVisibility())
  .map((each) => each.textContent.replace(/\s+/g, " ").trim()).filter((text) => text);
"""


def save_picture(driver: Any, path: Path) -> None:
    """Saves the page that the driver shows, and prints the picture's name."""
    driver.save_screenshot(str(path))
    texts = PngInfo()
    for kind, elements in KINDS.items():
        texts.add_text(kind, json.dumps(driver.execute_script(_VISIBLE, elements)))
    with Image.open(path) as image:
        image.save(path, pnginfo=texts, optimize=True)
    print(f"docs/figures/{path.name}")


def shown_in(path: Path, kind: str) -> Sequence[str]:
    """Returns the texts of one of ``KINDS`` that the page of a picture showed."""
    with Image.open(path) as image:
        found: list[str] = json.loads(image.info.get(kind, "[]"))
    return found
