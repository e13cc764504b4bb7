"""The policies of malleable jobs decide what they decided when that was recorded."""

from __future__ import annotations

import json

from tests.golden.malleable import FILE, decided


def test_the_same_decisions_as_recorded():
    recorded = json.loads(FILE.read_text())
    for name, rows in decided().items():
        # If the jobs differ, it is the generator that changed, not a policy.
        assert rows["jobs"] == recorded[name]["jobs"], name
        differ = {case for case, row in rows.items() if row != recorded[name][case]}
        assert not differ, f"{name}: {sorted(differ)}"
        assert rows.keys() == recorded[name].keys()
