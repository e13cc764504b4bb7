"""Holds the speedups and labels that Weinberg and Snavely report for DataStar."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from cosched.core.symbiosis.resources import Resource
from cosched.sim.symbiotic.matrix import Model, SpeedupMatrix

#: Tables 3 and 4: six applications on 32-way p690 nodes, 64 processors each. BTIO's label
#: is the authors'.
DATASTAR = Model(
    SpeedupMatrix(
        ("HOMME", "WRF", "BTIO", "OOCORE", "MILC", "PARATEC"),
        (
            (1.00, 1.07, 1.02, 1.00, 1.03, 1.07),
            (0.68, 1.00, 1.04, 0.95, 1.00, 1.04),
            (1.13, 1.18, 1.00, 0.90, 1.16, 1.20),
            (1.05, 1.25, 0.70, 1.00, 1.05, 1.42),
            (1.10, 1.18, 1.11, 1.65, 1.00, 1.21),
            (1.35, 1.06, 1.20, 1.29, 1.15, 1.00),
        ),
        (1.18, 1.22, 1.32, 1.72, 1.95, 2.34),
    ),
    (
        frozenset({Resource.MEMORY, Resource.NETWORK}),
        frozenset({Resource.MEMORY, Resource.NETWORK}),
        frozenset({Resource.IO}),
        frozenset({Resource.IO}),
        frozenset({Resource.CPU, Resource.NETWORK}),
        frozenset({Resource.CPU, Resource.NETWORK}),
    ),
)

#: Tables 1 and 2: the four NAS benchmarks that were the large jobs of the prototype's
#: stream, 16 processors on 8-way p655 nodes. The pair EP and BTIO was not measured. Neither
#: affects the other (Figs. 1 and 2), so BTIO has its speed alone, and EP its speed beside
#: CG and IS.
NPB = Model(
    SpeedupMatrix(
        ("CG", "IS", "EP", "BTIO"),
        (
            (1.00, 1.18, 1.36, 1.36),
            (1.17, 1.00, 1.07, 1.13),
            (1.03, 1.03, 1.00, 1.03),
            (1.12, 1.13, 1.16, 1.00),
        ),
        (1.55, 1.12, 1.00, 1.16),
    ),
    (
        frozenset({Resource.MEMORY}),
        frozenset({Resource.MEMORY}),
        frozenset({Resource.CPU}),
        frozenset({Resource.IO}),
    ),
)

#: The models by their names on the command line.
MODELS: Mapping[str, Model] = MappingProxyType({"datastar": DATASTAR, "npb": NPB})
