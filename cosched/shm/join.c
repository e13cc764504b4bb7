#define _GNU_SOURCE
#include "cosched/join.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cosched/clock.h"

/* A process that runs looks at least this often. */
#define LONGEST_STEP_NS UINT64_C(20000000)

#define NAP_NS 1000000
#define NAP_OF_A_RANK_NS 50000
#define RANKS_OF_LONGEST_NAP 300

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

int cosched_join_names_reach_all(void) {
    return getenv("SLURM_STEP_ID") == NULL || getenv("PMI_FD") == NULL ||
           getenv("HYDI_CONTROL_FD") != NULL;
}

void cosched_join_name(char name[512], const char *job, int32_t rank) {
    const char *space = getenv("PMIX_NAMESPACE"); /* Open MPI may run several jobs side by side */
    if (space == NULL)
        space = "";
    if (rank < 0)
        snprintf(name, COSCHED_JOIN_NAME_BYTES, "cosched/%s/%.255s/verdict", job, space);
    else
        snprintf(name, COSCHED_JOIN_NAME_BYTES, "cosched/%s/%.255s/%d", job, space, (int)rank);
}

void cosched_join_nap(int32_t world) {
    int32_t ranks = world < RANKS_OF_LONGEST_NAP ? world : RANKS_OF_LONGEST_NAP;
    const struct timespec nap = {.tv_nsec = NAP_NS + (long)ranks * NAP_OF_A_RANK_NS};
    (void)nanosleep(&nap, NULL);
}
