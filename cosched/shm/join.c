#define _GNU_SOURCE
#include "cosched/join.h"

#include "cosched/clock.h"

/* A process that runs looks at least this often. */
#define LONGEST_STEP_NS UINT64_C(20000000)

void cosched_join_limit_start(struct cosched_join_limit *limit, uint64_t limit_ns) {
    limit->left_ns = limit_ns;
    limit->last_ns = cosched_clock_ns(CLOCK_MONOTONIC);
}

int cosched_join_limit_is_over(struct cosched_join_limit *limit) {
    uint64_t now = cosched_clock_ns(CLOCK_MONOTONIC);
    uint64_t passed = now - limit->last_ns;
    if (passed > LONGEST_STEP_NS)
        passed = LONGEST_STEP_NS;
    limit->last_ns = now;
    if (passed >= limit->left_ns) {
        limit->left_ns = 0;
        return 1;
    }
    limit->left_ns -= passed;
    return 0;
}
