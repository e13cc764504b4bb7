"""Renders the report as one HTML file that needs no network and no other file.

The page contains its styles, scripts and the charting library (uPlot). The data is
compressed and written as base64 text, so no name in it can end the script. The page's
policy forbids loading anything.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections.abc import Mapping
from importlib.resources import files
from string import Template
from typing import Any

from cosched.core.decoding import shown_text
from cosched.observe.page.shared import shared_asset

_SHARED = {
    "chart_style": "uPlot.min.css",
    "base_style": "base.css",
    "chart_script": "uPlot.iife.min.js",
    "elements_script": "elements.js",
    "spans_script": "spans.js",
}
_OWN = {
    "style": "report.css",
    "timeline_script": "timeline.js",
    "sim_script": "sim.js",
    "script": "report.js",
}


def render_page(title: str, data: Mapping[str, Any]) -> str:
    """Returns the whole page with the ``data`` of ``report_data``. Equal data gives equal
    bytes."""
    folder = files("cosched.observe.report") / "assets"
    parts = {key: shared_asset(name) for key, name in _SHARED.items()}
    parts |= {key: (folder / name).read_text("utf-8") for key, name in _OWN.items()}
    return Template((folder / "report.html").read_text("utf-8")).substitute(
        parts, title=html.escape(title), data=_packed(data)
    )


def _packed(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return shown_text(base64.b64encode(gzip.compress(text.encode(), mtime=0)))
