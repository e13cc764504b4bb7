/*
 * cosched/join.h - constants, names and time limit for jobs whose status travels beside the
 * messages (COSCHED_STATUS=shadow). All ranks use the same, with the interposer or the mpi4py
 * wrapper.
 *
 * After MPI_Init each rank joins a communicator of the shims. To make one is a collective call,
 * which must not begin if a rank has no shim: the library would wait for that rank, and so
 * would the program's own collective calls. So the ranks agree first, by names that they publish
 * (MPI_Publish_name):
 *
 * - Each rank publishes its own name. Rank 0 looks for all names until its limit, and then
 *   publishes the verdict. The other ranks follow the verdict.
 * - A rank that does not find the name of rank 0 within its limit withdraws its own name, and
 *   looks once more. If rank 0 is there now, it waits for the verdict. Otherwise it goes on
 *   alone: rank 0 can no longer find its name, so the verdict will be "some".
 *
 * Names are unique to the job and its namespace. Without a name service that reaches all ranks
 * they cannot agree; then COSCHED_JOIN decides (environment.h).
 *
 * The verdict's port is "all" or "some", that of a rank's name "here".
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
    COSCHED_SHADOW_LISTEN_MS = 1000, /* a scheduled task reads its peers' status so often */
    COSCHED_JOIN_NAME_BYTES = 512
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

/* Returns 1 if a name that one rank publishes reaches the others, as far as the environment
 * shows. Returns 0 if srun serves the PMI itself: the ranks do not find each other's names there. */
int cosched_join_names_reach_all(void);

/* Writes the name that a rank publishes; a negative rank: the name of the verdict. */
void cosched_join_name(char name[512], const char *job, int32_t rank);

/* Sleeps between two looks for a name: longer in a job of more ranks, since one process serves
 * the names of all. */
void cosched_join_nap(int32_t world);
/* cdef: end */

#endif
