"""Starts Debian's Chromium without a screen, for pictures and measurements of pages."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cosched.core.errors import CoschedError

_DRAWN_WITHIN_S = 120.0
_LOOK_S = 0.01
#: A screen of this width is a phone's.
PHONE_MOST = 480


@contextmanager
def chromium(width: int, height: int, *, dark: bool = False) -> Iterator[Any]:
    """Yields selenium's driver of a browser with a page of this size, in CSS pixels."""
    try:
        from selenium import webdriver
    except ImportError:
        raise CoschedError(
            "selenium is missing; scripts/dev browser installs it in .venv-browser"
        ) from None
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    size = f"--window-size={width},{height}"
    for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars", size):
        options.add_argument(argument)
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    try:
        phone = width <= PHONE_MOST
        metrics = {"width": width, "height": height, "mobile": phone}
        scale = {"deviceScaleFactor": 2 if phone else 1}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics | scale)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        yield driver
    finally:
        driver.quit()


def open_page(driver: Any, url: str) -> float:
    """Opens a page; returns the seconds until it was drawn. Raises CoschedError."""
    began_s = time.monotonic()
    driver.get(url)
    while driver.execute_script("return document.body.dataset.state") != "drawn":
        if time.monotonic() - began_s > _DRAWN_WITHIN_S:
            raise CoschedError(f"{url}: the page was not drawn")
        time.sleep(_LOOK_S)
    drawn_s = time.monotonic() - began_s
    driver.set_script_timeout(60)
    driver.execute_async_script(
        "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
    )
    return drawn_s
