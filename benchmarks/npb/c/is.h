#pragma once
#include <stdint.h>

/* Draws `count` keys in [0, largest) after `seed`: each a sum of four uniform numbers. */
void npb_is_draw(uint64_t seed, int32_t count, int32_t largest, int32_t *keys);

/* Counts the keys in each bucket, a bucket being key >> shift; adds to sizes. */
void npb_is_count(const int32_t *keys, int32_t count, int32_t shift, int32_t *sizes);

/* Sorts keys by bucket; starts[b] is where bucket b begins, and ends up where it ends. */
void npb_is_bucket(const int32_t *keys, int32_t count, int32_t shift, int32_t *starts,
                   int32_t *sorted);

/* ranks[k - least] = how many keys are not above k, for least <= k < least + span. */
void npb_is_rank(const int32_t *keys, int32_t count, int32_t least, int32_t span,
                 int32_t *ranks);

/* Sorts keys by their ranks, which it uses up. */
void npb_is_sort(const int32_t *keys, int32_t count, int32_t least, int32_t *ranks,
                 int32_t *sorted);
