"""Whether a machine can be filled, and the node that is emulated if it cannot."""

from __future__ import annotations

import pytest

from benchmarks.kernels.emulated import EmulatedNode
from benchmarks.kernels.machine_fitness import described, is_measurable
from cosched.core.errors import CoschedError


@pytest.mark.parametrize(
    ("kept", "measurable"),
    [
        ({"stream": 0.5, "gups": 0.99, "io": 0.4}, True),
        ({"stream": 0.98, "gups": 0.6, "io": 0.4}, True),
        ({"stream": 0.98, "gups": 0.97, "io": 0.4}, False),
        ({"stream": 0.5, "gups": 0.5, "io": 0.95}, False),
    ],
)
def test_memory_and_disk_must_both_be_filled(kept, measurable):
    assert is_measurable(kept) is measurable
    lines = described(kept, range(8))
    assert ("can be measured" in lines[-1]) is measurable
    assert sum("do not fill" in line for line in lines) == sum(
        k > 0.9 for k in kept.values()
    )


@pytest.mark.parametrize("speeds", [{"bus_mb_s": 0}, {"seek_ms": -1}, {"processors": 0}])
def test_emulated_node_needs_speeds(speeds):
    with pytest.raises(CoschedError, match="above 0"):
        EmulatedNode(**speeds)


def test_emulated_node_leaves_no_file():
    with EmulatedNode().made() as path:
        assert path.stat().st_size == 13 * 8
    assert not path.exists()
