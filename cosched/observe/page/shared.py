"""Reads the parts of a page that the report and the dashboard share."""

from __future__ import annotations

from importlib.resources import files


def shared_asset(name: str) -> str:
    """Returns the text of a file in ``assets``: styles, scripts, the charting library."""
    return (files("cosched.observe.page") / "assets" / name).read_text("utf-8")
