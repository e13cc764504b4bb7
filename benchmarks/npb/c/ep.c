/* EP: acceptance-rejection Gaussian pairs (NASA report RNR-94-007, section 2.2). */
#include "ep.h"

#include <math.h>

#include "lcg.h"

void npb_ep_tally(uint64_t seed, int64_t pairs, double *sums, double *counts)
{
    uint64_t state = seed;
    double sum_x = 0.0, sum_y = 0.0;
    for (int64_t i = 0; i < pairs; i++) {
        double x = 2.0 * npb_lcg_next(&state) - 1.0;
        double y = 2.0 * npb_lcg_next(&state) - 1.0;
        double square = x * x + y * y;
        if (square > 1.0)
            continue;
        double factor = sqrt(-2.0 * log(square) / square);
        double gx = fabs(x * factor), gy = fabs(y * factor);
        counts[(int)fmax(gx, gy)] += 1.0;
        sum_x += gx;
        sum_y += gy;
    }
    sums[0] += sum_x;
    sums[1] += sum_y;
}
