/* NPB's generator, x' = a x mod 2^46 with a = 5^13 (NASA report RNR-94-007, section 2.3).
 * Products wrap modulo 2^64, of which 2^46 is a divisor, so integers give the exact
 * sequence that the report computes in halves of doubles. */
#pragma once
#include <stdint.h>

#define NPB_LCG_MULTIPLIER UINT64_C(1220703125)
#define NPB_LCG_MASK ((UINT64_C(1) << 46) - 1)

/* Steps once; the new state as a fraction in (0, 1). */
static inline double npb_lcg_next(uint64_t *state)
{
    *state = (*state * NPB_LCG_MULTIPLIER) & NPB_LCG_MASK;
    return (double)*state * 0x1p-46;
}
