#pragma once
#include <stdint.h>

/* Tallies the Gaussian deviates that `pairs` pairs of uniform numbers after `seed` give:
 * adds their absolute sums to sums[0], sums[1] and their counts in ten square annuli to
 * counts. */
void npb_ep_tally(uint64_t seed, int64_t pairs, double *sums, double *counts);
