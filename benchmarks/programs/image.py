"""Runs a program of ``published`` on an image of another size, and prints a digest of the
image that rank 0 has at its end.

With ``--pause`` each pixel takes so long more, so that many nodes can share few CPUs.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from pathlib import Path
from typing import Any

#: Where the program has its size, and where a pixel begins.
SIZE = re.compile(r"^w = 150\nh = 100$", re.M)
PIXEL = re.compile(r"^def mandelbrot\(x, y, maxit\):$", re.M)


def digest(image: Any) -> str:
    """Returns the line about an image."""
    return f"image {image.shape} {hashlib.sha256(image.tobytes()).hexdigest()}"


def options_of(parser: argparse.ArgumentParser) -> None:
    """Adds the options of an image."""
    parser.add_argument("--width", type=int, default=150, help="pixels")
    parser.add_argument("--height", type=int, default=100, help="lines")
    parser.add_argument("--pause", type=float, default=0.0, help="of a pixel, in s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path)
    options_of(parser)
    options = parser.parse_args()
    text = options.program.read_text()
    text, sizes = SIZE.subn(f"w = {options.width}\nh = {options.height}", text)
    pause = f"    __import__('time').sleep({options.pause})" if options.pause else ""
    text, pixels = PIXEL.subn(rf"\g<0>\n{pause}", text)
    if (sizes, pixels) != (1, 1):
        parser.error(f"{options.program}: is not a program of an image")
    sys.modules["matplotlib"] = None  # type: ignore[assignment]  # shows the image for 2 s
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, options.program, "exec"), names)
    if names["rank"] == 0:
        print(digest(names["M"]))


if __name__ == "__main__":
    main()
