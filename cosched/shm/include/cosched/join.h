/*
 * cosched/join.h - constants and time limit for jobs whose status travels beside the messages
 * (COSCHED_STATUS=shadow). All ranks use the same, with the interposer or the mpi4py wrapper.
 *
 * After MPI_Init each rank joins a communicator of the shims. A rank without a shim never
 * joins; the others then go on without a status.
 */
#ifndef COSCHED_JOIN_H
#define COSCHED_JOIN_H

#include <stdint.h>

/* cdef: begin */
enum cosched_join {
    COSCHED_SHADOW_TAG = 1,         /* tag of the messages that carry a status */
    COSCHED_JOIN_S = 10,            /* how long a rank waits for the others to join */
    COSCHED_JOIN_LAUNCHED_S = 60,   /* the same if the daemon schedules the job already: the
                                       others may be unscheduled on their nodes */
    COSCHED_JOIN_LAST_MS = 1000,    /* how long a rank that gave up waits again in MPI_Finalize */
    COSCHED_SHADOW_LISTEN_MS = 1000 /* a scheduled task reads its peers' status so often */
};

/* A limit on the time that this process runs while it waits. Time in which it was stopped or
 * did not get the CPU does not count, since the others may wait for the same reason. */
struct cosched_join_limit {
    uint64_t left_ns;
    uint64_t last_ns; /* CLOCK_MONOTONIC of the last look */
};

void cosched_join_limit_start(struct cosched_join_limit *limit, uint64_t limit_ns);

/* Call it after each test that found nothing. Returns 1 once the time is over. */
int cosched_join_limit_is_over(struct cosched_join_limit *limit);
/* cdef: end */

#endif
