"""Names the two clusters, and has the settings of their coupling."""

from __future__ import annotations

NAMES = ("intrepid", "eureka")
SCHEMES = {"H": "hold", "Y": "yield"}
SETTINGS = {
    "release": "20s",
    "release_wait": "2s",
    "again": "2s",
    "answer": "30s",
    "unknown": "1h",
    "when_down": "yield",
}
