"""Models of two logs of the Parallel Workloads Archive, as ``cosched sim fit`` made them.

SDSC: the San Diego Supercomputer Center's IBM SP2, 1998 to 2000 (SDSC-SP2-1998-4.2-cln,
54,006 jobs; it begins at 18:11). CTC: the Cornell Theory Center's, 1996 and 1997
(CTC-SP2-1996-3.1-cln, 77,199 jobs; the hour at which it begins is not known, so that its
rates are by the hours of the log). Source: Feitelson, Tsafrir and Krakov, *Experience with
using the Parallel Workloads Archive*, JPDC 2014. SDSC JOBLOG data: copyright 2000 The
Regents of the University of California.
"""

from __future__ import annotations

from types import MappingProxyType

from cosched.sim.logs.fit import LogModel

SDSC = LogModel(
    name="sdsc",
    machine=128,
    per_hour=(
        *(1.612, 1.515, 1.192, 1.197, 1.088, 1.529, 2.349, 3.216, 3.564, 3.853, 4.320),
        *(4.857, 5.205, 5.006, 5.329, 4.919, 4.615, 3.234, 2.840, 3.026, 2.806, 2.405),
        *(2.009, 2.163),
    ),
    sizes=(0.23241, 0.13635, 0.15749, 0.16272, 0.15687, 0.09284, 0.06132),
    shape=0.4102,
    scale_s=2207.8,
)

CTC = LogModel(
    name="ctc",
    machine=338,
    per_hour=(
        *(13.951, 12.297, 10.091, 9.021, 8.991, 9.339, 9.855, 7.201, 6.116, 3.910, 2.672),
        *(2.527, 1.970, 1.772, 3.108, 4.727, 8.708, 13.580, 17.180, 17.826, 16.101, 16.116),
        *(15.488, 15.104),
    ),
    sizes=(0.42131, 0.07174, 0.14543, 0.13188, 0.10815, 0.07707, 0.03255, 0.01187),
    shape=0.4394,
    scale_s=4582.5,
)

MODELS = MappingProxyType({model.name: model for model in (SDSC, CTC)})
