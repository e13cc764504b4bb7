/*
 * plan.h - finds which ranks a change makes and ends, and the order of the ranks after it. It is the
 * same as cosched/core/cluster/resizing/plan.py, which has the reasons.
 */
#ifndef COSCHED_MALLEABLE_PLAN_H
#define COSCHED_MALLEABLE_PLAN_H

#include "change.h"

/* cdef: begin */
enum { COSCHED_WHY_BYTES = 256 };

/* A rank of a job. */
struct cosched_rank {
    uint64_t world; /* the generation that started it; 0: the job's begin */
    struct cosched_spot spot;
};

/* A change in terms of ranks. Numbers below `before` are ranks before the change; the others are those
 * of the new world, in order. */
struct cosched_plan {
    uint32_t before;  /* ranks before the change */
    uint32_t spawned; /* ranks of the new world */
    uint32_t after;   /* ranks after the change */
    uint32_t ended;   /* worlds all of whose ranks end */
    struct cosched_spot *spawned_spots;
    uint32_t *order; /* the ranks after the change, in order */
    struct cosched_rank *ranks; /* the same ranks */
    uint64_t *ended_worlds; /* growing */
};

/* Makes the plan of a change. ranks: of the job before it. Returns 0, or -EINVAL for a change that the
 * job cannot make, with one line, or -ENOMEM. The caller frees the plan. */
int cosched_plan_make(struct cosched_plan *plan, const struct cosched_rank *ranks, uint32_t count,
                      const struct cosched_change *change, char why[256]);

void cosched_plan_free(struct cosched_plan *plan);
/* cdef: end */

_Static_assert(COSCHED_WHY_BYTES == 256, "the literals in the cffi part follow the constant");

#endif
