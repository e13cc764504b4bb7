"""Saves pictures of pages. A picture carries the headings that the page showed, so that a
test finds a picture of an older page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

#: The text of a picture that has its headings, as a list in JSON.
HEADINGS = "headings"
_VISIBLE = """
return [...document.querySelectorAll("h2, th")]
  .filter((each) => each.checkVisibility()).map((each) => each.textContent);
"""


def save_picture(driver: Any, path: Path) -> None:
    """Saves the page that the driver shows, and prints the picture's name."""
    driver.save_screenshot(str(path))
    texts = PngInfo()
    texts.add_text(HEADINGS, json.dumps(driver.execute_script(_VISIBLE)))
    with Image.open(path) as image:
        image.save(path, pnginfo=texts, optimize=True)
    print(f"docs/figures/{path.name}")


def headings_of(path: Path) -> list[str]:
    """Returns the headings that the page of a picture showed."""
    with Image.open(path) as image:
        found: list[str] = json.loads(image.info.get(HEADINGS, "[]"))
    return found
