/* IS: a bucketed counting sort of integer keys (NASA report RNR-94-007, section 2.2). */
#include "is.h"

#include <string.h>

#include "lcg.h"

void npb_is_draw(uint64_t seed, int32_t count, int32_t largest, int32_t *keys)
{
    uint64_t state = seed;
    double quarter = largest / 4;
    for (int32_t i = 0; i < count; i++) {
        double sum = npb_lcg_next(&state);
        sum += npb_lcg_next(&state);
        sum += npb_lcg_next(&state);
        sum += npb_lcg_next(&state);
        keys[i] = (int32_t)(quarter * sum);
    }
}

void npb_is_count(const int32_t *keys, int32_t count, int32_t shift, int32_t *sizes)
{
    for (int32_t i = 0; i < count; i++)
        sizes[keys[i] >> shift]++;
}

void npb_is_bucket(const int32_t *keys, int32_t count, int32_t shift, int32_t *starts,
                   int32_t *sorted)
{
    for (int32_t i = 0; i < count; i++)
        sorted[starts[keys[i] >> shift]++] = keys[i];
}

void npb_is_rank(const int32_t *keys, int32_t count, int32_t least, int32_t span,
                 int32_t *ranks)
{
    memset(ranks, 0, (size_t)span * sizeof *ranks);
    for (int32_t i = 0; i < count; i++)
        ranks[keys[i] - least]++;
    for (int32_t k = 1; k < span; k++)
        ranks[k] += ranks[k - 1];
}

void npb_is_sort(const int32_t *keys, int32_t count, int32_t least, int32_t *ranks,
                 int32_t *sorted)
{
    for (int32_t i = 0; i < count; i++)
        sorted[--ranks[keys[i] - least]] = keys[i];
}
