"""The generator that every NPB problem is drawn from: x' = a x mod 2^46, a = 5^13.

NASA report RNR-94-007, section 2.3. The compiled kernels step through it one number at a
time (c/lcg.h); this module leaps, so that each rank starts in the middle of the one
sequence.
"""

from __future__ import annotations

MULTIPLIER = 5**13
MODULUS = 2**46
#: Where every benchmark but EP starts.
SEED = 314159265


def leap(seed: int, steps: int) -> int:
    """The state of the generator ``steps`` numbers after ``seed``."""
    return seed * pow(MULTIPLIER, steps, MODULUS) % MODULUS
