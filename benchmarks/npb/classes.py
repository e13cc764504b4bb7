"""Problem sizes and published verification values of classes S, W, A and B.

From NPB 3.4 (NASA reports 95-020 and 02-007), where the programs carry them; LU, SP and
BT have theirs in ``fluid_classes``.
"""

from __future__ import annotations

from dataclasses import dataclass

NAMES = ("S", "W", "A", "B")


@dataclass(frozen=True, slots=True)
class EmbarrassinglyParallel:
    """EP. ``log_pairs``: 2 to this many pairs of numbers."""

    log_pairs: int
    sum_x: float
    sum_y: float
    deviates: float


EP = {
    "S": EmbarrassinglyParallel(24, 1.051299420395306e7, 1.051517131857535e7, 13176389.0),
    "W": EmbarrassinglyParallel(25, 2.102505525182392e7, 2.103162209578822e7, 26354769.0),
    "A": EmbarrassinglyParallel(28, 1.682235632304711e8, 1.682195123368299e8, 210832767.0),
    "B": EmbarrassinglyParallel(30, 6.728927543423024e8, 6.728951822504275e8, 843345606.0),
}


@dataclass(frozen=True, slots=True)
class IntegerSort:
    """IS. Sizes are logarithms to base 2.

    The ranks of the test keys in ``rising`` grow by one an iteration, the others fall:
    from their table value at iteration ``rise_from`` and ``fall_from``.
    """

    log_keys: int
    log_largest: int
    log_buckets: int
    test_indices: tuple[int, ...]
    test_ranks: tuple[int, ...]
    rising: frozenset[int]
    rise_from: int
    fall_from: int

    def test_rank(self, test: int, iteration: int) -> int:
        """The published rank of test key ``test`` at an iteration, counted from 1."""
        if test in self.rising:
            return self.test_ranks[test] + iteration - self.rise_from
        return self.test_ranks[test] - (iteration - self.fall_from)


IS = {
    "S": IntegerSort(
        log_keys=16,
        log_largest=11,
        log_buckets=9,
        test_indices=(48427, 17148, 23627, 62548, 4431),
        test_ranks=(0, 18, 346, 64917, 65463),
        rising=frozenset((0, 1, 2)),
        rise_from=0,
        fall_from=0,
    ),
    "W": IntegerSort(
        log_keys=20,
        log_largest=16,
        log_buckets=10,
        test_indices=(357773, 934767, 875723, 898999, 404505),
        test_ranks=(1249, 11698, 1039987, 1043896, 1048018),
        rising=frozenset((0, 1)),
        rise_from=2,
        fall_from=0,
    ),
    "A": IntegerSort(
        log_keys=23,
        log_largest=19,
        log_buckets=10,
        test_indices=(2112377, 662041, 5336171, 3642833, 4250760),
        test_ranks=(104, 17523, 123928, 8288932, 8388264),
        rising=frozenset((0, 1, 2)),
        rise_from=1,
        fall_from=1,
    ),
    "B": IntegerSort(
        log_keys=25,
        log_largest=21,
        log_buckets=10,
        test_indices=(41869, 812306, 5102857, 18232239, 26860214),
        test_ranks=(33422937, 10244, 59149, 33135281, 99),
        rising=frozenset((1, 2, 4)),
        rise_from=0,
        fall_from=0,
    ),
}


@dataclass(frozen=True, slots=True)
class ConjugateGradient:
    """CG. ``row_items``: non-zeros that a generating vector has; ``zeta``: the result."""

    order: int
    row_items: int
    iterations: int
    shift: float
    zeta: float


CG = {
    "S": ConjugateGradient(1400, 7, 15, 10.0, 8.5971775078648),
    "W": ConjugateGradient(7000, 8, 15, 12.0, 10.362595087124),
    "A": ConjugateGradient(14000, 11, 15, 20.0, 17.130235054029),
    "B": ConjugateGradient(75000, 13, 75, 60.0, 22.712745482631),
}


@dataclass(frozen=True, slots=True)
class MultiGrid:
    """MG. ``smoother``: weights of a point and its neighbours by distance."""

    log_edge: int
    iterations: int
    smoother: tuple[float, float, float]
    norm: float


SMALL_SMOOTHER = (-3.0 / 8.0, 1.0 / 32.0, -1.0 / 64.0)
LARGE_SMOOTHER = (-3.0 / 17.0, 1.0 / 33.0, -1.0 / 61.0)

MG = {
    "S": MultiGrid(5, 4, SMALL_SMOOTHER, 0.5307707005734e-4),
    "W": MultiGrid(7, 4, SMALL_SMOOTHER, 0.6467329375339e-5),
    "A": MultiGrid(8, 4, SMALL_SMOOTHER, 0.2433365309069e-5),
    "B": MultiGrid(8, 20, LARGE_SMOOTHER, 0.1800564401355e-5),
}


@dataclass(frozen=True, slots=True)
class FourierTransform:
    """FT. ``edges``: grid points along x, y and z; a checksum for each iteration."""

    edges: tuple[int, int, int]
    checksums: tuple[complex, ...]


FT = {
    "S": FourierTransform(
        (64, 64, 64),
        (
            5.546087004964e2 + 4.845363331978e2j,
            5.546385409189e2 + 4.865304269511e2j,
            5.546148406171e2 + 4.883910722336e2j,
            5.545423607415e2 + 4.901273169046e2j,
            5.544255039624e2 + 4.917475857993e2j,
            5.542683411902e2 + 4.932597244941e2j,
        ),
    ),
    "W": FourierTransform(
        (128, 128, 32),
        (
            5.673612178944e2 + 5.293246849175e2j,
            5.631436885271e2 + 5.282149986629e2j,
            5.594024089970e2 + 5.270996558037e2j,
            5.560698047020e2 + 5.260027904925e2j,
            5.530898991250e2 + 5.249400845633e2j,
            5.504159734538e2 + 5.239212247086e2j,
        ),
    ),
    "A": FourierTransform(
        (256, 256, 128),
        (
            5.046735008193e2 + 5.114047905510e2j,
            5.059412319734e2 + 5.098809666433e2j,
            5.069376896287e2 + 5.098144042213e2j,
            5.077892868474e2 + 5.101336130759e2j,
            5.085233095391e2 + 5.104914655194e2j,
            5.091487099959e2 + 5.107917842803e2j,
        ),
    ),
    "B": FourierTransform(
        (512, 256, 256),
        (
            5.177643571579e2 + 5.077803458597e2j,
            5.154521291263e2 + 5.088249431599e2j,
            5.146409228649e2 + 5.096208912659e2j,
            5.142378756213e2 + 5.101023387619e2j,
            5.139626667737e2 + 5.103976610617e2j,
            5.137423460082e2 + 5.105948019802e2j,
            5.135547056878e2 + 5.107404165783e2j,
            5.133910925466e2 + 5.108576573661e2j,
            5.132470705390e2 + 5.109577278523e2j,
            5.131197729984e2 + 5.110460304483e2j,
            5.130070319283e2 + 5.111252433800e2j,
            5.129070537032e2 + 5.111968077718e2j,
            5.128182883502e2 + 5.112616233064e2j,
            5.127393733383e2 + 5.113203605551e2j,
            5.126691062020e2 + 5.113735928093e2j,
            5.126064276004e2 + 5.114218460548e2j,
            5.125504076570e2 + 5.114656139760e2j,
            5.125002331720e2 + 5.115053595966e2j,
            5.124551951846e2 + 5.115415130407e2j,
            5.124146770029e2 + 5.115744692211e2j,
        ),
    ),
}
